//! Opening a connection and looking at the server behind it.

use std::sync::Arc;

use kvcm_clock::Clock;
use redis::{
    AsyncConnectionConfig, Client, Pipeline, RedisConnectionInfo, RedisError, RedisResult,
    aio::MultiplexedConnection,
};
use tracing::warn;

use crate::{
    Address, Class, Config, Failure, Link, Server,
    config::Deployment,
    link::{Place, server_micros},
    server_time::ServerTime,
};

/// The first version whose scripts may read the clock and write.
const MAJOR_VERSION_MIN: u32 = 5;

/// Opens a connection, logs in, and checks role and version of the server: three round trips.
/// Takes as long as the server takes; the caller limits it. The connection's driver runs on the
/// runtime of the caller.
///
/// # Errors
/// Nothing has happened at the server. [`Class::Fatal`] for bad credentials and servers that
/// cannot be used; a replica may become a primary, so it is retryable.
pub(crate) async fn connect(
    config: &Config,
    place: Place,
    clock: Arc<dyn Clock>,
) -> Result<Link, Failure> {
    let mut connection = log_in(config, &place.address).await?;
    let start = clock.now();
    let mut look = Pipeline::with_capacity(2);
    look.cmd("INFO").cmd("TIME");
    let (info, time): (String, (i64, i64)) = look
        .query_async(&mut connection)
        .await
        .map_err(|error| Failure::from(error).before_call())?;
    let now = clock.now();
    let mut server = Server::parse(&info);
    server.round_trip = now.since(start);
    check(&server, config, &place.address)?;
    Ok(Link {
        connection,
        server: Arc::new(server),
        place,
        time: Arc::new(ServerTime::new(server_micros(time), now)),
        clock,
    })
}

/// A connection without limits of its own.
pub(crate) async fn open(client: &Client) -> RedisResult<MultiplexedConnection> {
    let unlimited = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    let connect = client.get_multiplexed_async_connection_with_config(&unlimited);
    connect.await
}

/// A connection that may be used. Not the driver's own login, so that each refusal keeps its
/// error code.
pub(crate) async fn log_in(
    config: &Config,
    address: &Address,
) -> Result<MultiplexedConnection, Failure> {
    let password = config.read_password()?;
    let failed = |error: RedisError| {
        let failure = Failure::from(error).before_call();
        redact(failure, password.as_deref())
    };
    let bare = RedisConnectionInfo::default().set_skip_set_lib_name();
    let client = config.open(address, bare)?;
    let mut connection = open(&client).await.map_err(failed)?;
    let mut login = Pipeline::new();
    if let Some(password) = &password {
        login.cmd("AUTH");
        if let Some(username) = &config.username {
            login.arg(username);
        }
        login.arg(password);
    }
    if config.db != 0 {
        login.cmd("SELECT").arg(config.db);
    }
    if !login.is_empty() {
        login.exec_async(&mut connection).await.map_err(failed)?;
    }
    Ok(connection)
}

/// A server that does not know AUTH prints its arguments.
fn redact(mut failure: Failure, password: Option<&str>) -> Failure {
    if let Some(password) = password.filter(|text| !text.is_empty()) {
        failure.reason = failure.reason.replace(password, "***");
    }
    failure
}

fn check(server: &Server, config: &Config, address: &Address) -> Result<(), Failure> {
    if !server.is_primary {
        let reason = format!("READONLY {address} is a replica");
        return Err(Failure::not_done(reason));
    }
    let fatal = |hint, reason| Err(Failure::new(Class::Fatal { hint }, reason));
    if server
        .major_version()
        .is_some_and(|major| major < MAJOR_VERSION_MIN)
    {
        let reason = format!("{address} is Redis {}", server.version);
        return fatal("use Redis 5 or newer", reason);
    }
    match (&config.deployment, server.is_cluster) {
        (Deployment::Cluster, false) => {
            let reason = format!("{address} is no node of a Redis Cluster");
            return fatal("write redis://host:port/ for a standalone server", reason);
        }
        (Deployment::Standalone | Deployment::Sentinel(_), true) => {
            let reason = format!("{address} is a node of a Redis Cluster");
            return fatal("write redis-cluster://host:port,host:port/", reason);
        }
        _ => {}
    }
    if server.evicts_leases() {
        let policy = &server.eviction;
        warn!(server = %address, policy, "maxmemory-policy may drop our keys; set it to noeviction");
    }
    if server.replicas < config.wait_replicas {
        let (replicas, wait_replicas) = (server.replicas, config.wait_replicas);
        warn!(
            server = %address,
            replicas,
            wait_replicas,
            "fewer replicas are connected than wait_replicas, so nobody can lead"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kvcm_uri::Uri;

    use super::*;

    fn config(uri: &str) -> Config {
        Config::from_uri(&Uri::parse(uri).unwrap()).unwrap().0
    }

    fn checked(server: &Server, uri: &str) -> Option<Class> {
        let config = config(uri);
        let checked = check(server, &config, config.first());
        checked.err().map(|failure| failure.class)
    }

    #[test]
    fn a_server_of_another_kind_is_fatal_and_a_replica_is_not() {
        let good = Server::parse("redis_version:7.0.15\nrole:master\n");
        let is_fatal = |class| matches!(class, Some(Class::Fatal { .. }));
        assert_eq!(checked(&good, "redis://h"), None);
        assert_eq!(checked(&good, "redis-sentinel://h/?master=m"), None);
        assert!(is_fatal(checked(&good, "redis-cluster://h")));
        let old = Server {
            version: "4.0.1".to_owned(),
            ..good.clone()
        };
        assert!(is_fatal(checked(&old, "redis://h")));
        let node = Server {
            is_cluster: true,
            ..good.clone()
        };
        assert_eq!(checked(&node, "redis-cluster://h"), None);
        assert!(is_fatal(checked(&node, "redis://h")));
        assert!(is_fatal(checked(&node, "redis-sentinel://h/?master=m")));
        let replica = Server {
            is_primary: false,
            ..good
        };
        let class = checked(&replica, "redis://h");
        assert_eq!(class, Some(Failure::not_done("").class));
    }

    #[test]
    fn a_password_is_cut_out_of_what_the_server_says() {
        let failure = Failure::not_done("unknown command `AUTH`, with args: `hunter2`");
        let failure = redact(failure, Some("hunter2"));
        assert!(!failure.reason.contains("hunter2"), "{failure}");
    }
}
