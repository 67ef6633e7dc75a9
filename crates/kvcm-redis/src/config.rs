//! Where servers are and how to talk to them.

use std::{fmt, path::PathBuf, time::Duration};

use kvcm_uri::{Mistake, Params, Uri, UriError};
use redis::{
    ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, TlsCertificates,
};

use crate::{Address, Class, Failure, Route, route::slot};

/// The port of a server when the URI names none.
const PORT: u16 = 6379;
/// The port of a sentinel when the URI names none.
const SENTINEL_PORT: u16 = 26379;

/// What a URI says. `Debug` and `Display` show no credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    /// How its servers belong together.
    pub deployment: Deployment,
    /// The server, the sentinels, or some nodes of the cluster; at least one.
    pub addresses: Vec<Address>,
    /// Whether to speak TLS (`rediss…://`), to sentinels too.
    pub tls: bool,
    /// The certificates that the server's must come from, in PEM; the system's when none.
    pub tls_ca_file: Option<PathBuf>,
    /// The ACL user, or none for the server's default user.
    pub username: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// A file with the password, read anew for each connection.
    pub password_file: Option<PathBuf>,
    /// The number of the database.
    pub db: u32,
    /// Becomes part of every key, so that clusters can share a server: 1 to 64 characters without
    /// braces and control characters.
    pub cluster_name: Option<String>,
    /// No connection attempt and no answer takes longer; a call's deadline may be earlier.
    pub timeout: Duration,
    /// How often a call is tried again before its deadline, where that is safe.
    pub retry_count: u32,
    /// How many connections a [`Pool`](crate::Pool) has at most, to each node.
    pub pool_size_max: usize,
    /// How many connections [`Pool::warm_up`](crate::Pool::warm_up) opens.
    pub pool_size_min: usize,
    /// How many replicas must have acknowledged a lease before it counts; 0 for none.
    pub wait_replicas: u32,
}

/// How the servers of a URI belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deployment {
    /// One server: `redis://`.
    Standalone,
    /// A primary with replicas, watched by sentinels, which are asked for the primary with each
    /// new connection: `redis-sentinel://`.
    Sentinel(Sentinels),
    /// A Redis Cluster, each of whose keys is at the node that serves its slot:
    /// `redis-cluster://`.
    Cluster,
}

/// What sentinels are asked, and how to log in to them.
#[derive(Clone, PartialEq, Eq)]
pub struct Sentinels {
    /// The name that the sentinels have for the primary.
    pub master: String,
    /// The ACL user at the sentinels.
    pub username: Option<String>,
    /// The password at the sentinels.
    pub password: Option<String>,
}

impl Config {
    /// Reads one of
    ///
    /// - `redis://[login@]host[:6379]/?db=`: one server;
    /// - `redis-sentinel://[login@]host[:26379],host…/?master=&db=&sentinel_username=&
    ///   sentinel_password=`: the hosts are those of the sentinels, the login is the primary's;
    /// - `redis-cluster://[login@]host[:6379],host…/`: some of the cluster's nodes (also
    ///   `redis_cluster://`);
    ///
    /// each also with `rediss` instead of `redis` for TLS and then `tls_ca_file=`, and with
    /// `cluster_name=&password_file=&timeout_ms=&retry_count=&client_max_pool_size=&
    /// client_min_pool_size=&wait_replicas=`. Returns warnings for what is written and has no
    /// effect.
    ///
    /// A login is a password (`token@`, `:token@`) or an ACL user with its password
    /// (`user:token@`). With `password_file` it is a user at most (`user@`).
    ///
    /// # Errors
    /// All mistakes at once, without the password.
    pub fn from_uri(uri: &Uri) -> Result<(Self, Vec<String>), UriError> {
        let mut params = Params::new(uri);
        let scheme = uri.scheme().replace(['_', '+'], "-");
        let (deployment, tls) = match scheme.as_str() {
            "redis" => (Deployment::Standalone, false),
            "rediss" => (Deployment::Standalone, true),
            "redis-sentinel" => (sentinels(&mut params), false),
            "rediss-sentinel" => (sentinels(&mut params), true),
            "redis-cluster" => (Deployment::Cluster, false),
            "rediss-cluster" => (Deployment::Cluster, true),
            other => {
                return Err(UriError {
                    uri: uri.to_string(),
                    mistakes: vec![Mistake::Other(format!(
                        "scheme `{other}` is unknown, expected `redis`, `redis-sentinel` or \
                         `redis-cluster`, or the same with `rediss` for TLS"
                    ))],
                });
            }
        };
        let port = match deployment {
            Deployment::Sentinel(_) => SENTINEL_PORT,
            _ => PORT,
        };
        let addresses = Address::all(uri, port);
        if addresses.is_empty() {
            params.mistake("no host is named: write redis://host:port/");
        }
        if addresses.len() > 1 && deployment == Deployment::Standalone {
            params.mistake(
                "it names several hosts: write redis-sentinel:// or redis-cluster://, or one host",
            );
        }
        let password_file = params.text("password_file");
        let (username, password) = match (uri.username(), uri.password()) {
            ("", None) => (None, None),
            (user, None) if password_file.is_some() => (Some(user), None),
            (token, None) => (None, Some(token)),
            ("", Some(token)) => (None, Some(token)),
            (user, Some(token)) => (Some(user), Some(token)),
        };
        if password_file.is_some() && password.is_some() {
            params.mistake("there is a password before the host and parameter `password_file`");
        }
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
        let db = params.checked("db", 0, "the number of a database", |db| *db <= 1_000_000);
        if db != 0 && deployment == Deployment::Cluster {
            params.mistake("parameter `db`: a Redis Cluster has only database 0");
        }
        let tls_ca_file = params.text("tls_ca_file");
        if tls_ca_file.is_some() && !tls {
            params.mistake("parameter `tls_ca_file` is for TLS: write rediss://");
        }
        let config = Self {
            deployment,
            addresses,
            tls,
            tls_ca_file: tls_ca_file.map(PathBuf::from),
            username: username.map(str::to_owned),
            password: password.map(str::to_owned),
            password_file: password_file.map(PathBuf::from),
            db,
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

    /// Which server a call about `key` is for.
    pub fn route(&self, key: &str) -> Route {
        match self.deployment {
            Deployment::Cluster => Route::Slot(slot(key)),
            _ => Route::Primary,
        }
    }

    /// For drivers that log in themselves.
    ///
    /// # Errors
    /// [`Class::Fatal`] when the driver refuses the address; a file of the password that cannot
    /// be read may be there later.
    pub fn client(&self, address: &Address) -> Result<redis::Client, Failure> {
        let mut login = RedisConnectionInfo::default().set_db(i64::from(self.db));
        if let Some(username) = &self.username {
            login = login.set_username(username);
        }
        if let Some(password) = self.read_password()? {
            login = login.set_password(password);
        }
        self.open(address, login)
    }

    /// Whether the driver accepts all addresses.
    pub(crate) fn check_addresses(&self) -> Result<(), Failure> {
        for address in &self.addresses {
            self.open(address, RedisConnectionInfo::default())?;
        }
        Ok(())
    }

    /// The password of now.
    pub(crate) fn read_password(&self) -> Result<Option<String>, Failure> {
        let Some(file) = &self.password_file else {
            return Ok(self.password.clone());
        };
        match std::fs::read_to_string(file) {
            Ok(text) => Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned())),
            Err(error) => Err(Failure::not_done(format!(
                "the password of {self} cannot be read from {}: {error}",
                file.display()
            ))),
        }
    }

    /// The first of the URI; there is one, or the configuration was refused.
    pub(crate) fn first(&self) -> &Address {
        &self.addresses[0]
    }

    pub(crate) fn open(
        &self,
        address: &Address,
        login: RedisConnectionInfo,
    ) -> Result<redis::Client, Failure> {
        let refused = |error: &dyn fmt::Display| {
            let class = Class::Fatal {
                hint: "correct the address of the Redis server",
            };
            Failure::new(class, format!("{self}: {error}"))
        };
        let (host, port) = (address.host.clone(), address.port);
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
        let kind = match self.deployment {
            Deployment::Standalone => "",
            Deployment::Sentinel(_) => "-sentinel",
            Deployment::Cluster => "-cluster",
        };
        write!(f, "redis{}{kind}://", if self.tls { "s" } else { "" })?;
        for (index, address) in self.addresses.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{address}")?;
        }
        write!(f, "/?db={}", self.db)?;
        if let Deployment::Sentinel(sentinels) = &self.deployment {
            write!(f, "&master={}", sentinels.master)?;
        }
        if let Some(name) = &self.cluster_name {
            write!(f, "&cluster_name={name}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sentinels({})", self.master)
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

fn sentinels(params: &mut Params<'_>) -> Deployment {
    let master = params.text("master").unwrap_or_default();
    if master.is_empty() {
        params.mistake(
            "parameter `master` is missing: the name that the sentinels have for the \
                        primary",
        );
    }
    let (username, password) = (
        params.text("sentinel_username"),
        params.text("sentinel_password"),
    );
    if username.is_some() && password.is_none() {
        params.mistake("parameter `sentinel_username` is without `sentinel_password`");
    }
    Deployment::Sentinel(Sentinels {
        master: master.to_owned(),
        username: username.map(str::to_owned),
        password: password.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Config, Vec<String>) {
        Config::from_uri(&Uri::parse(text).unwrap()).unwrap()
    }

    fn address(host: &str, port: u16) -> Address {
        let host = host.to_owned();
        Address { host, port }
    }

    fn mistakes(text: &str) -> String {
        let error = Config::from_uri(&Uri::parse(text).unwrap()).unwrap_err();
        error.to_string()
    }

    #[test]
    fn a_bare_uri_gets_the_documented_defaults() {
        let (config, warnings) = read("redis://h");
        let expected = Config {
            deployment: Deployment::Standalone,
            addresses: vec![address("h", 6379)],
            tls: false,
            tls_ca_file: None,
            username: None,
            password: None,
            password_file: None,
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
        let text = "redis://[::1]:7/?db=3&cluster_name=c&timeout_ms=9&retry_count=0\
                    &client_max_pool_size=4&client_min_pool_size=2&wait_replicas=1";
        let (config, warnings) = read(text);
        assert_eq!(warnings, [] as [String; 0]);
        assert_eq!((config.addresses, config.db), (vec![address("::1", 7)], 3));
        let (config, _) = read(text);
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
        let failure = config.client(config.first()).unwrap_err();
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
    fn sentinels_are_named_with_their_primary() {
        let (config, warnings) = read(
            "redis-sentinel://user:pw@a,b:7/?master=m&db=1&sentinel_username=su\
             &sentinel_password=spw",
        );
        assert_eq!(warnings, [] as [String; 0]);
        assert_eq!(config.addresses, [address("a", 26379), address("b", 7)]);
        let Deployment::Sentinel(sentinels) = &config.deployment else {
            panic!("{config:?}");
        };
        assert_eq!(sentinels.master, "m");
        assert_eq!(sentinels.username.as_deref(), Some("su"));
        assert_eq!(sentinels.password.as_deref(), Some("spw"));
        assert_eq!(config.username.as_deref(), Some("user"));
        assert_eq!(config.route("k"), Route::Primary);
        let printed = "redis-sentinel://a:26379,b:7/?db=1&master=m";
        assert_eq!(config.to_string(), printed);
        let debug = format!("{:?}", config.deployment);
        assert!(!debug.contains("spw"), "{debug}");
        let (config, _) = read("rediss-sentinel://a/?master=m");
        assert!(config.tls);
        assert!(mistakes("redis-sentinel://a").contains("`master` is missing"));
        let alone = "redis-sentinel://a/?master=m&sentinel_username=u";
        assert!(mistakes(alone).contains("sentinel_password"));
    }

    #[test]
    fn some_nodes_of_a_cluster_are_enough() {
        for scheme in ["redis-cluster", "redis_cluster"] {
            let (config, warnings) = read(&format!("{scheme}://token@a,b:7/?cluster_name=c"));
            assert_eq!(warnings, [] as [String; 0]);
            assert_eq!(config.deployment, Deployment::Cluster);
            assert_eq!(config.addresses, [address("a", 6379), address("b", 7)]);
            assert_eq!(config.route("foo"), Route::Slot(12182));
        }
        assert!(mistakes("redis-cluster://a/?db=1").contains("only database 0"));
    }

    #[test]
    fn a_password_in_a_file_is_read_anew_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        let uri = format!("redis://user@h/?password_file={}", file.display());
        let (config, warnings) = read(&uri);
        assert_eq!(warnings, [] as [String; 0]);
        assert_eq!(config.username.as_deref(), Some("user"));
        let failure = config.read_password().unwrap_err();
        assert!(failure.reason.contains("password"), "{failure}");
        for password in ["one", "t w o"] {
            std::fs::write(&file, format!("{password}\n")).unwrap();
            assert_eq!(config.read_password().unwrap().as_deref(), Some(password));
        }
        assert!(mistakes("redis://a:b@h/?password_file=f").contains("password_file"));
    }

    #[test]
    fn other_forms_are_refused_with_what_to_write() {
        for (text, part) in [
            ("redis://h/?tls_ca_file=ca.pem", "rediss://"),
            ("redis://a,b", "redis-cluster://"),
            ("file:///x", "scheme `file`"),
            ("redis:///x", "no host"),
        ] {
            assert!(mistakes(text).contains(part), "{text}");
        }
    }
}
