//! Where a server is and how to talk to it.

use std::{fmt, path::PathBuf, time::Duration};

use kvcm_uri::{Mistake, Params, Uri, UriError};
use redis::{
    ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, TlsCertificates,
};

use crate::{Class, Failure};

/// The port when the URI names none.
const PORT: u16 = 6379;

/// What a `redis://` URI says. `Debug` and `Display` show no credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    /// The host; an IPv6 address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whether to speak TLS (`rediss://`).
    pub tls: bool,
    /// The certificates that the server's must come from, in PEM; the system's when none.
    pub tls_ca_file: Option<PathBuf>,
    /// The ACL user, or none for the server's default user.
    pub username: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// The number of the database.
    pub db: u32,
    /// Becomes part of every key, so that clusters can share a server: 1 to 64 characters without
    /// braces and control characters.
    pub cluster_name: Option<String>,
    /// No connection attempt and no answer takes longer; a call's deadline may be earlier.
    pub timeout: Duration,
    /// How often a call is tried again before its deadline, where that is safe.
    pub retry_count: u32,
    /// How many connections a [`Pool`](crate::Pool) has at most.
    pub pool_size_max: usize,
    /// How many connections [`Pool::warm_up`](crate::Pool::warm_up) opens.
    pub pool_size_min: usize,
    /// How many replicas must have acknowledged a lease before it counts; 0 for none.
    pub wait_replicas: u32,
}

impl Config {
    /// Reads `redis://[token@]host[:port]/?db=&cluster_name=&timeout_ms=&retry_count=&
    /// client_max_pool_size=&client_min_pool_size=&wait_replicas=`, or the same with `rediss://`
    /// and `tls_ca_file=`, with warnings for what is written and has no effect.
    ///
    /// Userinfo: `token@` and `:token@` are a password, `user:token@` an ACL user with its
    /// password.
    ///
    /// # Errors
    /// All mistakes at once, without the password.
    pub fn from_uri(uri: &Uri) -> Result<(Self, Vec<String>), UriError> {
        if let Some(mistake) = unsupported(uri.scheme()) {
            return Err(UriError {
                uri: uri.to_string(),
                mistakes: vec![Mistake::Other(mistake)],
            });
        }
        let mut params = Params::new(uri);
        let host = uri.host().unwrap_or_default();
        if host.is_empty() {
            params.mistake("no host is named: write redis://host:port/");
        }
        let (username, password) = match (uri.username(), uri.password()) {
            ("", None) => (None, None),
            (token, None) => (None, Some(token)),
            ("", Some(token)) => (None, Some(token)),
            (user, Some(token)) => (Some(user), Some(token)),
        };
        let cluster_name = params.text("cluster_name");
        if let Some(name) = cluster_name
            && !is_cluster_name(name)
        {
            params.mistake(format!(
                "parameter `cluster_name` is `{name}`, expected 1 to 64 characters without \
                 braces (they would move its keys to other hash slots) and control characters"
            ));
        }
        let pool_size_max =
            params.checked("client_max_pool_size", 8, "1 to 1024", |size: &usize| {
                (1..=1024).contains(size)
            });
        let pool_size_min = params.checked(
            "client_min_pool_size",
            1.min(pool_size_max),
            "0 to client_max_pool_size",
            |size| *size <= pool_size_max,
        );
        let timeout_ms = params.checked("timeout_ms", 2000, "1 to 600000 milliseconds", |ms| {
            (1..=600_000).contains(ms)
        });
        let tls = uri.scheme() == "rediss";
        let tls_ca_file = params.text("tls_ca_file");
        if tls_ca_file.is_some() && !tls {
            params.mistake("parameter `tls_ca_file` is for TLS: write rediss://");
        }
        let config = Self {
            tls,
            tls_ca_file: tls_ca_file.map(PathBuf::from),
            host: host
                .trim_start_matches('[')
                .trim_end_matches(']')
                .to_owned(),
            port: uri.port().unwrap_or(PORT),
            username: username.map(str::to_owned),
            password: password.map(str::to_owned),
            db: params.checked("db", 0, "the number of a database", |db| *db <= 1_000_000),
            cluster_name: cluster_name.map(str::to_owned),
            timeout: Duration::from_millis(timeout_ms),
            retry_count: params.checked("retry_count", 2, "0 to 100", |count| *count <= 100),
            pool_size_max,
            pool_size_min,
            wait_replicas: params
                .checked("wait_replicas", 0, "0 to 100", |replicas| *replicas <= 100),
        };
        let mut warnings = Vec::new();
        if !matches!(uri.path(), "" | "/") {
            warnings.push(format!(
                "the path `{}` selects nothing; write ?db=N for another database than 0",
                uri.path()
            ));
        }
        for name in ["auth", "password"] {
            if params.text(name).is_some() {
                warnings.push(format!(
                    "parameter `{name}` is ignored; write the password before the host: \
                     redis://:password@host"
                ));
            }
        }
        warnings.extend(params.finish()?);
        Ok((config, warnings))
    }

    /// `kvcm_<cluster_name>_<kind>:`, or `kvcm_<kind>:` without a cluster name: what all keys of
    /// one kind start with.
    pub fn key_prefix(&self, kind: &str) -> String {
        match &self.cluster_name {
            Some(name) => format!("kvcm_{name}_{kind}:"),
            None => format!("kvcm_{kind}:"),
        }
    }

    /// For drivers that log in themselves.
    ///
    /// # Errors
    /// [`Class::Fatal`] when the driver refuses the address.
    pub fn client(&self) -> Result<redis::Client, Failure> {
        let mut login = RedisConnectionInfo::default().set_db(i64::from(self.db));
        if let Some(username) = &self.username {
            login = login.set_username(username);
        }
        if let Some(password) = &self.password {
            login = login.set_password(password);
        }
        self.open(login)
    }

    /// Without credentials and database, for [`connect`](crate::connect), which logs in itself so
    /// that each refusal keeps its own error code.
    pub(crate) fn bare_client(&self) -> Result<redis::Client, Failure> {
        self.open(RedisConnectionInfo::default().set_skip_set_lib_name())
    }

    fn open(&self, login: RedisConnectionInfo) -> Result<redis::Client, Failure> {
        let refused = |error: &dyn fmt::Display| {
            let class = Class::Fatal {
                hint: "correct the address of the Redis server",
            };
            Failure::new(class, format!("{self}: {error}"))
        };
        let (host, port) = (self.host.clone(), self.port);
        let address = match self.tls {
            false => ConnectionAddr::Tcp(host, port),
            true => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            },
        };
        let info: ConnectionInfo = address
            .into_connection_info()
            .map_err(|error| refused(&error))?
            .set_redis_settings(login);
        if !self.tls {
            return redis::Client::open(info).map_err(|error| refused(&error));
        }
        // The driver takes the process's provider; an error says that there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let root_cert = match &self.tls_ca_file {
            None => None,
            Some(file) => {
                let read = std::fs::read(file);
                Some(read.map_err(|error| refused(&format!("{}: {error}", file.display())))?)
            }
        };
        let certificates = TlsCertificates {
            client_tls: None,
            root_cert,
        };
        redis::Client::build_with_tls(info, certificates).map_err(|error| refused(&error))
    }
}

// === impl printing ===

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, db, .. } = self;
        let scheme = if self.tls { "rediss" } else { "redis" };
        match host.contains(':') {
            true => write!(f, "{scheme}://[{host}]:{port}/?db={db}")?,
            false => write!(f, "{scheme}://{host}:{port}/?db={db}")?,
        }
        if let Some(name) = &self.cluster_name {
            write!(f, "&cluster_name={name}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Config({self})")
    }
}

fn is_cluster_name(name: &str) -> bool {
    let refused = |c: char| c == '{' || c == '}' || c.is_control();
    (1..=64).contains(&name.chars().count()) && !name.contains(refused)
}

/// Why a scheme cannot be used.
fn unsupported(scheme: &str) -> Option<String> {
    let missing = |what: &str| {
        Some(format!(
            "{what} is not built in yet; name one standalone server as redis://host:port/"
        ))
    };
    match scheme {
        "redis" | "rediss" => None,
        "redis_cluster" | "redis-cluster" | "redis+cluster" => missing("Redis Cluster"),
        "redis-sentinel" | "redis_sentinel" | "redis+sentinel" => missing("Redis Sentinel"),
        other => Some(format!(
            "scheme `{other}` is unknown, expected `redis` or `rediss`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Config, Vec<String>) {
        Config::from_uri(&Uri::parse(text).unwrap()).unwrap()
    }

    fn mistakes(text: &str) -> String {
        let error = Config::from_uri(&Uri::parse(text).unwrap()).unwrap_err();
        error.to_string()
    }

    #[test]
    fn a_bare_uri_gets_the_documented_defaults() {
        let (config, warnings) = read("redis://h");
        let expected = Config {
            host: "h".to_owned(),
            port: 6379,
            tls: false,
            tls_ca_file: None,
            username: None,
            password: None,
            db: 0,
            cluster_name: None,
            timeout: Duration::from_secs(2),
            retry_count: 2,
            pool_size_max: 8,
            pool_size_min: 1,
            wait_replicas: 0,
        };
        assert_eq!((config, warnings), (expected, vec![]));
    }

    #[test]
    fn every_parameter_is_read() {
        let (config, warnings) = read(
            "redis://[::1]:7/?db=3&cluster_name=c&timeout_ms=9&retry_count=0\
             &client_max_pool_size=4&client_min_pool_size=2&wait_replicas=1",
        );
        assert_eq!(warnings, [] as [String; 0]);
        assert_eq!(
            (config.host.as_str(), config.port, config.db),
            ("::1", 7, 3)
        );
        assert_eq!(config.timeout, Duration::from_millis(9));
        assert_eq!((config.retry_count, config.wait_replicas), (0, 1));
        assert_eq!((config.pool_size_max, config.pool_size_min), (4, 2));
        assert_eq!(config.key_prefix("lock"), "kvcm_c_lock:");
        assert_eq!(config.to_string(), "redis://[::1]:7/?db=3&cluster_name=c");
    }

    #[test]
    fn userinfo_is_a_password_or_a_user_with_a_password() {
        for (text, username, password) in [
            ("redis://token@h", None, Some("token")),
            ("redis://:to%3Aken@h", None, Some("to:ken")),
            ("redis://user:p%40ss@h", Some("user"), Some("p@ss")),
            ("redis://h", None, None),
        ] {
            let (config, _) = read(text);
            assert_eq!(config.username.as_deref(), username, "{text}");
            assert_eq!(config.password.as_deref(), password, "{text}");
            assert!(!format!("{config:?}{config}").contains("token"), "{text}");
        }
    }

    #[test]
    fn what_has_no_effect_is_warned_about() {
        let (config, warnings) = read("redis://h/1?auth=x&timeout=5");
        assert_eq!(config.db, 0);
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(warnings[0].contains("`/1` selects nothing"));
        assert!(warnings[1].contains("`auth`"));
        assert!(warnings[2].contains("timeout_ms"));
    }

    #[test]
    fn a_certificate_file_that_cannot_be_read_is_named() {
        let (config, warnings) = read("rediss://h/?tls_ca_file=/nowhere/ca.pem");
        assert_eq!(warnings, [] as [String; 0]);
        assert_eq!(config.to_string(), "rediss://h:6379/?db=0");
        let failure = config.client().unwrap_err();
        assert!(failure.reason.contains("/nowhere/ca.pem"), "{failure}");
        assert!(matches!(failure.class, Class::Fatal { .. }));
    }

    #[test]
    fn all_mistakes_come_together() {
        let text = mistakes(
            "redis://:secret@h/?db=x&timeout_ms=0&cluster_name=a%7Bb&client_max_pool_size=2&client_min_pool_size=3",
        );
        for part in [
            "`db`",
            "`timeout_ms`",
            "`cluster_name` is `a{b`",
            "`client_min_pool_size`",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("secret"));
        assert!(mistakes("redis://h/?cluster_name=").contains("1 to 64"));
        assert!(
            mistakes(&format!("redis://h/?cluster_name={}", "x".repeat(65))).contains("1 to 64")
        );
    }

    #[test]
    fn other_forms_are_refused_with_what_to_write() {
        for (text, part) in [
            ("redis://h/?tls_ca_file=ca.pem", "rediss://"),
            ("redis+sentinel://h", "Sentinel"),
            ("redis_cluster://h", "Redis Cluster"),
            ("redis-sentinel://h", "Sentinel"),
            ("file:///x", "scheme `file`"),
            ("redis:///x", "no host"),
        ] {
            assert!(mistakes(text).contains(part), "{text}");
        }
    }
}
