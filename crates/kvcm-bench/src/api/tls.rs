//! TLS of the measured node: its certificate, and connections to it.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use rcgen::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::either::Either;

use crate::api::call::Transport;

/// Whom the certificate names: servers listen at addresses, and clients expect this name of all.
const NAME: &str = "localhost";

/// A connection, in plain text or not.
pub(super) type Stream = Either<TcpStream, TlsStream<TcpStream>>;

/// A certificate with its key in files, and a client that trusts nothing else.
#[derive(Debug)]
pub(super) struct Tls {
    cert: PathBuf,
    key: PathBuf,
    client: Arc<ClientConfig>,
}

impl Tls {
    /// Makes the certificate, with its files in `dir`.
    pub(super) fn make(dir: &Path) -> anyhow::Result<Self> {
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        let (cert_file, key_file) = (dir.join("server.crt"), dir.join("server.key"));
        fs::write(&cert_file, cert.pem())?;
        fs::write(&key_file, signing_key.serialize_pem())?;
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone())?;
        let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            cert: cert_file,
            key: key_file,
            client: Arc::new(client),
        })
    }

    /// The configuration of a node that has this certificate.
    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            (
                "kvcm.service.tls_cert_file",
                self.cert.display().to_string(),
            ),
            ("kvcm.service.tls_key_file", self.key.display().to_string()),
        ]
    }

    pub(super) fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.client)
    }
}

/// Connects, over TLS when there is a client of it.
pub(super) async fn open(
    address: SocketAddr,
    transport: Transport,
    tls: Option<&Arc<ClientConfig>>,
) -> io::Result<Stream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let Some(client) = tls else {
        return Ok(Either::Left(stream));
    };
    let protocol = match transport {
        Transport::Grpc => b"h2".to_vec(),
        Transport::Http => b"http/1.1".to_vec(),
    };
    let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
    let connector = TlsConnector::from(Arc::clone(client));
    let connector = connector.with_alpn(vec![protocol]);
    Ok(Either::Right(connector.connect(name, stream).await?))
}
