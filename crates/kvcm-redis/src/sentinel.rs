//! Asking a sentinel.

use std::collections::HashMap;

use redis::RedisConnectionInfo;

use crate::{Address, Class, Config, Failure, config::Sentinels, connect::open};

/// What one sentinel says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Where the primary is.
    pub(crate) address: Address,
    /// Rises with each failover.
    pub(crate) epoch: u64,
}

/// Where the primary is according to the sentinel at `address`.
pub(crate) async fn primary(
    config: &Config,
    sentinels: &Sentinels,
    address: Address,
) -> Result<Answer, Failure> {
    let failed = |error: redis::RedisError| refused(sentinels, &address, error);
    let client = config.open(
        &address,
        RedisConnectionInfo::default().set_skip_set_lib_name(),
    )?;
    let mut connection = open(&client).await.map_err(failed)?;
    if let Some(password) = &sentinels.password {
        let mut login = redis::cmd("AUTH");
        if let Some(username) = &sentinels.username {
            login.arg(username);
        }
        let login = login.arg(password);
        login.exec_async(&mut connection).await.map_err(failed)?;
    }
    let mut ask = redis::cmd("SENTINEL");
    ask.arg("MASTER").arg(&sentinels.master);
    let fields: HashMap<String, String> = ask.query_async(&mut connection).await.map_err(failed)?;
    read(&fields).ok_or_else(|| {
        Failure::not_done(format!(
            "the sentinel {address} does not say where `{}` is",
            sentinels.master
        ))
    })
}

fn read(fields: &HashMap<String, String>) -> Option<Answer> {
    let address = Address {
        host: fields.get("ip").filter(|ip| !ip.is_empty())?.clone(),
        port: fields.get("port")?.parse().ok()?,
    };
    let epoch = fields.get("config-epoch")?.parse().ok()?;
    Some(Answer { address, epoch })
}

fn refused(sentinels: &Sentinels, address: &Address, error: redis::RedisError) -> Failure {
    let mut failure = Failure::from(error).before_call();
    if let Some(password) = sentinels
        .password
        .as_deref()
        .filter(|text| !text.is_empty())
    {
        failure.reason = failure.reason.replace(password, "***");
    }
    if failure.reason.contains("No such master") {
        let hint = "correct master= in the URI, or tell the sentinels of that primary";
        let master = &sentinels.master;
        let reason = format!("the sentinel {address} knows no primary `{master}`");
        return Failure::new(Class::Fatal { hint }, reason);
    }
    if matches!(failure.class, Class::Fatal { .. }) && failure.is_about_credentials() {
        failure.class = Class::Fatal {
            hint: "correct sentinel_username= and sentinel_password= in the URI: those before the \
                   hosts are for the primary",
        };
    }
    failure.reason = format!("sentinel {address}: {}", failure.reason);
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_no_answer() {
        let fields = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect::<HashMap<_, _>>()
        };
        let all = fields(&[("ip", "::1"), ("port", "7"), ("config-epoch", "3")]);
        let answer = read(&all).unwrap();
        assert_eq!((answer.address.port, answer.epoch), (7, 3));
        assert_eq!(
            read(&fields(&[("ip", ""), ("port", "7"), ("config-epoch", "3")])),
            None
        );
        assert_eq!(read(&fields(&[("ip", "a"), ("port", "7")])), None);
    }
}
