//! Building a client.

use std::{sync::Arc, time::Duration};

use crate::{
    address::Address,
    client::Client,
    core::Core,
    error::{Error, ErrorKind},
    settings::Settings,
};

/// Settings of a client; made by [`Client::builder`].
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `connect` or `lazy`"]
pub struct ClientBuilder {
    endpoints: Vec<String>,
    settings: Settings,
}

impl ClientBuilder {
    /// `host:port` of the meta service (gRPC) of some nodes. Any node will do, and one is enough
    /// while it lives; give all that are known.
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

    /// The client, connected: a leader has been found.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] naming every endpoint or setting that is wrong;
    /// [`ErrorKind::NoLeader`] when no leader was found before the deadline, with what each node
    /// said.
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
        let mut mistakes = Vec::new();
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
        let core = Arc::new(Core::new(self.settings, seeds));
        Ok(Client::new(core, deadline))
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
            .lazy()
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        for part in ["\"bad\"", "\"worse:0\"", "deadline"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("good"), "{text}");
        let error = Client::builder().lazy().unwrap_err();
        assert!(error.message().contains("no endpoints"));
    }
}
