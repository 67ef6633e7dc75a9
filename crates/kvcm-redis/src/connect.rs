//! Opening a connection and looking at the server behind it.

use kvcm_clock::Clock;
use redis::{AsyncConnectionConfig, Pipeline, RedisError, aio::MultiplexedConnection};
use tracing::warn;

use crate::{Class, Config, Failure, Server};

/// The first version whose scripts may read the clock and write.
const MAJOR_VERSION_MIN: u32 = 5;

/// Opens a connection, logs in, and checks role and version of the server: three round trips.
/// Takes as long as the server takes; the caller limits it. The connection's driver runs on the
/// runtime of the caller.
///
/// # Errors
/// Nothing has happened at the server. [`Class::Fatal`] for bad credentials and servers that
/// cannot be used; a replica may become a primary, so it is retryable.
pub async fn connect(
    config: &Config,
    clock: &dyn Clock,
) -> Result<(MultiplexedConnection, Server), Failure> {
    let unlimited = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    let failed = |error: RedisError| {
        let failure = Failure::from(error).before_call();
        redact(failure, config)
    };
    let client = config.bare_client()?;
    let mut connection = client
        .get_multiplexed_async_connection_with_config(&unlimited)
        .await
        .map_err(failed)?;
    let start = clock.now();
    if let Some(login) = login(config) {
        login.exec_async(&mut connection).await.map_err(failed)?;
    }
    let info: String = redis::cmd("INFO")
        .query_async(&mut connection)
        .await
        .map_err(failed)?;
    let mut server = Server::parse(&info);
    server.round_trip = clock.now().since(start);
    check(&server, config)?;
    Ok((connection, server))
}

fn login(config: &Config) -> Option<Pipeline> {
    let mut pipeline = Pipeline::new();
    if let Some(password) = &config.password {
        pipeline.cmd("AUTH");
        if let Some(username) = &config.username {
            pipeline.arg(username);
        }
        pipeline.arg(password);
    }
    if config.db != 0 {
        pipeline.cmd("SELECT").arg(config.db);
    }
    (!pipeline.is_empty()).then_some(pipeline)
}

/// A server that does not know AUTH prints its arguments.
fn redact(mut failure: Failure, config: &Config) -> Failure {
    if let Some(password) = config.password.as_deref().filter(|text| !text.is_empty()) {
        failure.reason = failure.reason.replace(password, "***");
    }
    failure
}

fn check(server: &Server, config: &Config) -> Result<(), Failure> {
    if !server.is_primary {
        let reason = format!("READONLY {config} is a replica");
        return Err(Failure::not_done(reason));
    }
    if server
        .major_version()
        .is_some_and(|major| major < MAJOR_VERSION_MIN)
    {
        let hint = "use Redis 5 or newer";
        let reason = format!("{config} is Redis {}", server.version);
        return Err(Failure::new(Class::Fatal { hint }, reason));
    }
    if server.is_cluster && config.db != 0 {
        let hint = "leave out db: a Redis Cluster has only database 0";
        let reason = format!("{config} is part of a Redis Cluster");
        return Err(Failure::new(Class::Fatal { hint }, reason));
    }
    if server.evicts_leases() {
        let policy = &server.eviction;
        warn!(server = %config, policy, "maxmemory-policy may drop our keys; set it to noeviction");
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

    #[test]
    fn an_old_server_or_a_database_in_a_cluster_is_fatal_and_a_replica_is_not() {
        let good = Server::parse("redis_version:7.0.15\nrole:master\n");
        let one = config("redis://h/?db=1");
        assert_eq!(check(&good, &one), Ok(()));
        let old = Server {
            version: "4.0.1".to_owned(),
            ..good.clone()
        };
        assert!(matches!(
            check(&old, &one).unwrap_err().class,
            Class::Fatal { .. }
        ));
        let cluster = Server {
            is_cluster: true,
            ..good.clone()
        };
        assert!(matches!(
            check(&cluster, &one).unwrap_err().class,
            Class::Fatal { .. }
        ));
        assert_eq!(check(&cluster, &config("redis://h")), Ok(()));
        let replica = Server {
            is_primary: false,
            ..good
        };
        assert_eq!(
            check(&replica, &one).unwrap_err().class,
            Failure::not_done("").class
        );
    }

    #[test]
    fn a_password_is_cut_out_of_what_the_server_says() {
        let failure = Failure::not_done("unknown command `AUTH`, with args: `hunter2`");
        let failure = redact(failure, &config("redis://:hunter2@h"));
        assert!(!failure.reason.contains("hunter2"), "{failure}");
    }
}
