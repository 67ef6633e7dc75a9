//! Building a client.

use std::{sync::Arc, time::Duration};

use crate::{
    address::Address,
    client::Client,
    core::Core,
    credentials::Credentials,
    error::{Error, ErrorKind},
    policy::{DefaultPolicy, RetryPolicy},
    seeds::Seeds,
    settings::Settings,
    tls::Tls,
    transport::Grpc,
};

/// What a semaphore can count.
const IN_FLIGHT_MOST: usize = 1 << 20;

/// Settings of a client; made by [`Client::builder`].
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `connect` or `lazy`"]
pub struct ClientBuilder {
    endpoints: Vec<String>,
    settings: Settings,
    policy: Option<Arc<dyn RetryPolicy>>,
    mistakes: Vec<String>,
}

impl ClientBuilder {
    /// `host:port` of the meta service (gRPC) of some nodes. Any node will do, and one is enough
    /// while it lives; give all that are known. A name that resolves to several addresses stands
    /// for all of them.
    pub fn endpoints(mut self, endpoints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.endpoints.extend(endpoints.into_iter().map(Into::into));
        self
    }

    /// How long a call may take, all its tries and waits included; 5 s by default. Longer than
    /// the cluster's lease, so that a call can outlive the death of a leader.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = deadline;
        self
    }

    /// How long one try may take; 1 s by default, and never more than half of what is left until
    /// the deadline, so that a silent node leaves time for another one.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.settings.attempt_timeout = timeout;
        self
    }

    /// How long making a connection may take; 500 ms by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// How often a connection is checked, and how long its answer may take; 2 s and 1 s by
    /// default. Cannot be switched off: a connection that is never checked does not notice a
    /// partition.
    pub fn keep_alive(mut self, interval: Duration, timeout: Duration) -> Self {
        self.settings.keep_alive_interval = interval;
        self.settings.keep_alive_timeout = timeout;
        self
    }

    /// How often a client in use asks who leads although nothing failed; 30 s by default.
    pub fn refresh_interval(mut self, interval: Duration) -> Self {
        self.settings.refresh_interval = interval;
        self
    }

    /// The longest reply taken, bytes; 64 MiB by default.
    pub fn reply_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.reply_bytes_max = bytes;
        self
    }

    /// How many calls may be under way at a time; 4096 by default. Others wait, within their
    /// deadlines.
    pub fn in_flight_max(mut self, calls: usize) -> Self {
        self.settings.in_flight_max = calls;
        self
    }

    /// Whether a node is asked to push changes of leader, which costs one stream per client; true
    /// by default. Without, the client finds out when a call fails or the refresh is due.
    pub fn pushes(mut self, pushes: bool) -> Self {
        self.settings.pushes = pushes;
        self
    }

    /// What to show with each call, see [`Credentials`].
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.settings.credentials = Some(credentials);
        self
    }

    /// Connects over TLS; plain text by default.
    pub fn tls(mut self, tls: &Tls) -> Self {
        match tls.ready() {
            Ok(ready) => self.settings.tls = Some(ready),
            Err(error) => self.mistakes.push(format!("tls: {error}")),
        }
        self
    }

    /// What follows the failures of calls, see [`RetryPolicy`]; the
    /// [`DefaultPolicy`](crate::DefaultPolicy) fits nearly all.
    pub fn retry_policy(mut self, policy: impl RetryPolicy) -> Self {
        self.policy = Some(Arc::new(policy));
        self
    }

    /// The client, connected: a leader has been found.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] naming every endpoint or setting that is wrong;
    /// [`ErrorKind::NoLeader`], [`ErrorKind::LeaderUnreachable`] or [`ErrorKind::Transport`] when
    /// no leader was found before the deadline, with what each node said.
    pub async fn connect(self) -> Result<Client, Error> {
        let client = self.lazy()?;
        client.find_leader().await?;
        Ok(client)
    }

    /// The client, not connected yet: its first call finds the leader.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] naming every endpoint or setting that is wrong.
    pub fn lazy(self) -> Result<Client, Error> {
        let mut mistakes = self.mistakes;
        let mut seeds = Vec::new();
        for endpoint in &self.endpoints {
            match Address::parse(endpoint) {
                Ok(address) if seeds.contains(&address) => {}
                Ok(address) => seeds.push(address),
                Err(mistake) => mistakes.push(mistake),
            }
        }
        if self.endpoints.is_empty() {
            mistakes.push("no endpoints: give host:port of at least one node".to_owned());
        }
        let settings = &self.settings;
        if !(1..=IN_FLIGHT_MOST).contains(&settings.in_flight_max) {
            mistakes.push(format!("in_flight_max is not from 1 to {IN_FLIGHT_MOST}"));
        }
        for (name, value) in [
            ("deadline", settings.deadline),
            ("attempt_timeout", settings.attempt_timeout),
            ("connect_timeout", settings.connect_timeout),
            ("keep_alive interval", settings.keep_alive_interval),
            ("keep_alive timeout", settings.keep_alive_timeout),
            ("refresh_interval", settings.refresh_interval),
        ] {
            if value.is_zero() {
                mistakes.push(format!("{name} is 0: give a duration"));
            }
        }
        if !mistakes.is_empty() {
            let message = mistakes.join("; ");
            return Err(Error::local(ErrorKind::InvalidArgument, "connect", message));
        }
        let deadline = self.settings.deadline;
        let core = Core::new(
            self.settings.clone(),
            self.policy.unwrap_or_else(DefaultPolicy::shared),
            Seeds::new(seeds),
            Arc::new(Grpc::new(self.settings)),
            Box::new(fastrand::Rng::new()),
        );
        Ok(Client::new(Arc::new(core), deadline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_is_named_at_once() {
        let error = Client::builder()
            .endpoints(["good:1", "bad", "worse:0"])
            .deadline(Duration::ZERO)
            .in_flight_max(0)
            .lazy()
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        for part in ["\"bad\"", "\"worse:0\"", "deadline", "in_flight_max"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("good"), "{text}");
        let error = Client::builder().lazy().unwrap_err();
        assert!(error.message().contains("no endpoints"));
    }
}
