//! TLS of connections.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::address::Address;

/// TLS 1.2 or 1.3 with roots of one's own, for all connections of a client.
#[derive(Clone)]
pub struct Tls {
    roots: RootCertStore,
    identity: Option<Arc<Identity>>,
    domain: Option<String>,
}

struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// What is wrong with TLS settings. Says nothing of a key's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError(String);

impl Tls {
    /// Trusts servers whose certificate comes from one of the roots in `ca_pem`, which may be the
    /// certificate itself.
    ///
    /// # Errors
    /// When there is no certificate in it, or one that cannot be used.
    pub fn trusting(ca_pem: impl AsRef<[u8]>) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for root in certificates(ca_pem.as_ref(), "the roots")? {
            roots
                .add(root)
                .map_err(|error| TlsError(format!("the roots: {error}")))?;
        }
        Ok(Self {
            roots,
            identity: None,
            domain: None,
        })
    }

    /// Shows a certificate to servers that ask for one: the chain and its private key, in PEM.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn identity(
        mut self,
        chain_pem: impl AsRef<[u8]>,
        key_pem: impl AsRef<[u8]>,
    ) -> Result<Self, TlsError> {
        let chain = certificates(chain_pem.as_ref(), "the client's certificate")?;
        let key = PrivateKeyDer::from_pem_slice(key_pem.as_ref())
            .map_err(|_| TlsError("the client's key: no private key in PEM".to_owned()))?;
        self.identity = Some(Arc::new(Identity { chain, key }));
        Ok(self)
    }

    /// Expects this name in the certificates of all servers, whatever their addresses.
    #[must_use]
    pub fn domain(mut self, name: impl Into<String>) -> Self {
        self.domain = Some(name.into());
        self
    }

    /// Checks what can be checked before there is a connection.
    pub(crate) fn ready(&self) -> Result<ReadyTls, TlsError> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError(error.to_string()))?
            .with_root_certificates(self.roots.clone());
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => builder
                .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
                .map_err(|error| TlsError(format!("the client's certificate: {error}")))?,
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let domain = match &self.domain {
            None => None,
            Some(name) => Some(
                ServerName::try_from(name.clone())
                    .map_err(|_| TlsError(format!("domain {name:?} is not a host name")))?,
            ),
        };
        Ok(ReadyTls {
            config: Arc::new(config),
            domain,
        })
    }
}

fn certificates(pem: &[u8], whose: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(TlsError(format!("{whose}: no certificate in PEM"))),
        Err(error) => Err(TlsError(format!("{whose}: {error}"))),
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("roots", &self.roots.len())
            .field("identity", &self.identity.is_some())
            .field("domain", &self.domain)
            .finish()
    }
}

impl std::error::Error for TlsError {}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// TLS as connections use it.
#[derive(Clone, Debug)]
pub(crate) struct ReadyTls {
    config: Arc<ClientConfig>,
    domain: Option<ServerName<'static>>,
}

/// Makes connections to one node.
#[derive(Clone)]
pub(crate) struct TlsConnector {
    connector: tokio_rustls::TlsConnector,
    /// The name that the certificate must have.
    name: Result<ServerName<'static>, String>,
    address: Address,
}

impl TlsConnector {
    pub(crate) fn new(tls: &ReadyTls, address: &Address) -> Self {
        let name = tls.domain.clone().map_or_else(
            || {
                let host = address.tls_host().to_owned();
                ServerName::try_from(host).map_err(|error| error.to_string())
            },
            Ok,
        );
        Self {
            connector: Arc::clone(&tls.config).into(),
            name,
            address: address.clone(),
        }
    }
}

impl tonic::codegen::Service<Uri> for TlsConnector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self {
            connector,
            name,
            address,
        } = self.clone();
        let connect: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(async move {
            let name = name.map_err(io::Error::other)?;
            // Names are resolved anew for every connection, and each of their addresses is tried.
            let stream = TcpStream::connect(address.as_str()).await?;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(connector.connect(name, stream).await?))
        });
        connect
    }
}
