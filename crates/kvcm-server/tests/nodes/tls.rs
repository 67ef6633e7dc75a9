//! TLS on every port: who is let in, who is not, and certificates that change.

use std::{io, net::SocketAddr, path::Path, sync::Arc};

use kvcm_proto::meta::{GetClusterInfoRequest, meta_service_client::MetaServiceClient};
use kvcm_testkit::{NodeSpec, ServerProcess};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::process::Signal;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::transport::Endpoint;

use crate::{
    raw::{Answer, ask, exchange},
    support::until,
};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for localhost, and its key.
fn issue(authority: &Authority) -> (rcgen::Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (params.signed_by(&key, authority).unwrap(), key)
}

/// Writes `server.crt` and `server.key`.
fn write(dir: &Path, authority: &Authority) {
    let (cert, key) = issue(authority);
    std::fs::write(dir.join("server.crt"), cert.pem()).unwrap();
    std::fs::write(dir.join("server.key"), key.serialize_pem()).unwrap();
}

fn spec(dir: &Path) -> NodeSpec {
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    NodeSpec::new("tls", dir)
        .unwrap()
        .set("kvcm.service.tls_cert_file", &path("server.crt"))
        .set("kvcm.service.tls_key_file", &path("server.key"))
}

/// A client that trusts one authority, and has a certificate of another or none.
fn client(trusted: &Authority, own: Option<&Authority>, protocol: &[u8]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from(trusted.der().to_vec()))
        .unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let (cert, key) = issue(authority);
            let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            builder
                .with_client_auth_cert(vec![cert.der().clone()], key)
                .unwrap()
        }
    };
    config.alpn_protocols = vec![protocol.to_vec()];
    TlsConnector::from(Arc::new(config))
}

async fn connect(client: &TlsConnector, address: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    client.connect(name, stream).await
}

async fn livez(client: &TlsConnector, address: SocketAddr) -> io::Result<Answer> {
    let mut stream = connect(client, address).await?;
    exchange(&mut stream, "GET", "/livez", "", "").await
}

#[tokio::test(flavor = "multi_thread")]
async fn http_and_grpc_are_spoken_over_tls_and_nothing_else_is() {
    let dir = tempfile::tempdir().unwrap();
    let authority = authority();
    write(dir.path(), &authority);
    let node = ServerProcess::spawn(&spec(dir.path())).await.unwrap();
    let (admin, rpc) = (node.ports().admin_http(), node.ports().rpc());

    let http1 = client(&authority, None, b"http/1.1");
    let answer = livez(&http1, admin).await.unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, "ok\n"));

    let http2 = client(&authority, None, b"h2");
    let connector = tower::service_fn(move |_| {
        let http2 = http2.clone();
        async move { connect(&http2, rpc).await.map(hyper_util::rt::TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    let channel = endpoint.connect_with_connector(connector).await.unwrap();
    let info = MetaServiceClient::new(channel)
        .get_cluster_info(GetClusterInfoRequest::default())
        .await
        .unwrap();
    assert!(info.into_inner().header.is_some());

    let stranger = client(&self::authority(), None, b"http/1.1");
    let error = livez(&stranger, admin).await.unwrap_err().to_string();
    assert!(error.contains("invalid peer certificate"), "{error}");

    for address in [admin, rpc] {
        let answer = ask(address, "GET", "/livez", "", "").await;
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (400, "this port speaks TLS\n")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_roots_of_clients_a_client_needs_a_certificate_of_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let (servers, clients) = (authority(), authority());
    write(dir.path(), &servers);
    let ca = dir.path().join("clients.crt");
    std::fs::write(&ca, clients.pem()).unwrap();
    let spec = spec(dir.path()).set("kvcm.service.tls_client_ca_file", ca.to_str().unwrap());
    let node = ServerProcess::spawn(&spec).await.unwrap();
    let admin = node.ports().admin_http();
    let with = |own| client(&servers, own, b"http/1.1");
    assert_eq!(
        livez(&with(Some(&clients)), admin).await.unwrap().status,
        200
    );
    assert!(livez(&with(Some(&servers)), admin).await.is_err());
    assert!(livez(&with(None), admin).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_taken_at_sighup_and_a_broken_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (former, later) = (authority(), authority());
    write(dir.path(), &former);
    let mut node = ServerProcess::spawn(&spec(dir.path())).await.unwrap();
    let admin = node.ports().admin_http();
    let by = async |authority| livez(&client(authority, None, b"http/1.1"), admin).await;
    let log = || std::fs::read_to_string(dir.path().join("tls.log")).unwrap();
    assert_eq!(by(&former).await.unwrap().status, 200);

    std::fs::write(dir.path().join("server.crt"), "broken").unwrap();
    node.signal(Signal::HUP).unwrap();
    until("the broken file is told", async || {
        log().contains("TLS files cannot be used").then_some(())
    })
    .await;
    assert_eq!(by(&former).await.unwrap().status, 200);

    write(dir.path(), &later);
    node.signal(Signal::HUP).unwrap();
    until("the new certificate is used", async || {
        by(&later).await.ok()
    })
    .await;
    assert!(by(&former).await.is_err());
}
