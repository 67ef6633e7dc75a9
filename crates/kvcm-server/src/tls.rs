//! TLS of the listeners: certificate and key from files, read again when they change.

use std::{fs, io, path::PathBuf, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use thiserror::Error;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};
use tokio_rustls::TlsAcceptor;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(10);

/// Both versions of HTTP, so that gRPC works on any port and browsers and probes do too.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The files that TLS needs, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, then those between it and a root.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The roots of clients' certificates, which clients then must have; none: any client.
    pub client_ca: Option<PathBuf>,
}

/// Which of the files is wrong, and how.
#[derive(Debug, Error)]
#[error("{}: {problem}", .file.display())]
pub struct TlsError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it. Says nothing of a key's content.
    pub problem: String,
}

/// TLS as it is spoken now. Clones share it.
#[derive(Debug, Clone)]
pub struct Tls {
    files: TlsFiles,
    current: Arc<ArcSwap<Current>>,
}

/// What was read, and what it makes.
struct Current {
    contents: Contents,
    config: Arc<ServerConfig>,
}

#[derive(PartialEq, Eq)]
struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

// === impl Tls ===

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let current = Current::read(&files, None)?;
        Ok(Self {
            current: Arc::new(ArcSwap::from_pointee(current)),
            files,
        })
    }

    /// Reads the files again; new connections go by what they say now. Returns whether anything
    /// has changed.
    ///
    /// # Errors
    /// The first file that cannot be used; what was there before goes on.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let before = self.current.load_full();
        let now = Current::read(&self.files, Some(&before))?;
        let is_new = !Arc::ptr_eq(&now.config, &before.config);
        if is_new {
            self.current.store(Arc::new(now));
        }
        Ok(is_new)
    }

    /// Accepts handshakes by what is known now.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load().config.clone())
    }

    /// Reads the files again whenever they change, and at once at SIGHUP, for ever.
    ///
    /// # Errors
    /// When the system refuses to take over the signal.
    pub(crate) async fn follow_files(self) -> io::Result<()> {
        let mut hangup = signal(SignalKind::hangup())?;
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut reported = String::new();
        loop {
            let asked = tokio::select! {
                _ = hangup.recv() => true,
                _ = look.tick() => false,
            };
            let tls = self.clone();
            let read = tokio::task::spawn_blocking(move || tls.reload()).await;
            match read {
                Ok(Ok(true)) => tracing::info!("TLS certificate read again"),
                Ok(Ok(false)) if asked => tracing::info!("TLS certificate is unchanged"),
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    // Files are often replaced one by one, so the first look may see a half.
                    let text = error.to_string();
                    if asked || text != reported {
                        tracing::warn!(error = text, "TLS files cannot be used, the former stay");
                    }
                    reported = text;
                    continue;
                }
                Err(error) => tracing::warn!(%error, "TLS files were not read"),
            }
            reported.clear();
        }
    }
}

// === impl Current ===

impl Current {
    fn read(files: &TlsFiles, before: Option<&Self>) -> Result<Self, TlsError> {
        let read = |file: &PathBuf| {
            fs::read(file).map_err(|error| TlsError {
                file: file.clone(),
                problem: format!("cannot read it: {error}"),
            })
        };
        let contents = Contents {
            cert: read(&files.cert)?,
            key: read(&files.key)?,
            client_ca: files.client_ca.as_ref().map(read).transpose()?,
        };
        let config = match before.filter(|before| before.contents == contents) {
            Some(same) => same.config.clone(),
            None => Arc::new(config(files, &contents)?),
        };
        Ok(Self { contents, config })
    }
}

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Current").finish_non_exhaustive()
    }
}

fn config(files: &TlsFiles, contents: &Contents) -> Result<ServerConfig, TlsError> {
    let wrong = |file: &PathBuf, problem: String| TlsError {
        file: file.clone(),
        problem,
    };
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&files.cert, error.to_string()))?;
    let builder = match (&files.client_ca, &contents.client_ca) {
        (Some(file), Some(pem)) => builder.with_client_cert_verifier(
            verifier(pem, provider).map_err(|problem| wrong(file, problem))?,
        ),
        _ => builder.with_no_client_auth(),
    };
    let certificates =
        certificates(&contents.cert).map_err(|problem| wrong(&files.cert, problem))?;
    let key = PrivateKeyDer::from_pem_slice(&contents.key)
        .map_err(|_| wrong(&files.key, "it holds no private key in PEM".to_owned()))?;
    let mut config = builder
        .with_single_cert(certificates, key)
        .map_err(|error| {
            let problem = format!("not the key of the certificate: {error}");
            wrong(&files.key, problem)
        })?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}

fn verifier(
    pem: &[u8],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| error.to_string())
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err("it holds no certificate in PEM".to_owned()),
        Err(error) => Err(format!("it is not PEM: {error}")),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

    use super::*;

    /// A root of our own.
    pub(crate) fn authority() -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    /// Writes a certificate of `issuer` for localhost, and its key.
    pub(crate) fn issue(
        issuer: &CertifiedIssuer<'_, KeyPair>,
        folder: &Path,
        name: &str,
    ) -> TlsFiles {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let cert = params.signed_by(&key, issuer).unwrap();
        let files = TlsFiles {
            cert: folder.join(format!("{name}.crt")),
            key: folder.join(format!("{name}.key")),
            client_ca: None,
        };
        fs::write(&files.cert, cert.pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }

    #[test]
    fn files_that_change_are_taken_and_files_that_break_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let issuer = authority();
        let files = issue(&issuer, folder.path(), "a");
        let other = issue(&issuer, folder.path(), "b");
        let tls = Tls::load(files.clone()).unwrap();
        assert!(!tls.reload().unwrap(), "nothing has changed");

        // Half of a change: the key of another certificate.
        fs::copy(&other.key, &files.key).unwrap();
        let error = tls.reload().unwrap_err().to_string();
        assert!(
            error.contains("a.key: not the key of the certificate"),
            "{error}"
        );
        fs::copy(&other.cert, &files.cert).unwrap();
        assert!(tls.reload().unwrap());
        fs::remove_file(&files.cert).unwrap();
        assert!(tls.reload().is_err());
        let _still = tls.acceptor();
    }

    #[test]
    fn each_file_that_cannot_be_used_is_named_without_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let files = issue(&authority(), folder.path(), "a");
        let text = folder.path().join("text");
        fs::write(&text, "secret").unwrap();
        for (files, part) in [
            (
                TlsFiles {
                    cert: text.clone(),
                    ..files.clone()
                },
                "no certificate",
            ),
            (
                TlsFiles {
                    key: text.clone(),
                    ..files.clone()
                },
                "no private key",
            ),
            (
                TlsFiles {
                    client_ca: Some(text),
                    ..files.clone()
                },
                "no certificate",
            ),
            (
                TlsFiles {
                    key: folder.path().join("nope"),
                    ..files
                },
                "cannot read it",
            ),
        ] {
            let error = Tls::load(files).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
