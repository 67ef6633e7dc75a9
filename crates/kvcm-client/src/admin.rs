//! Calls to the admin service of one node.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use kvcm_proto::admin::{
    CheckHealthRequest, CheckHealthResponse, GetLeaderElectorConfigRequest,
    GetLeaderElectorConfigResponse, GetManagerClusterInfoRequest, GetManagerClusterInfoResponse,
    GetMetricsRequest, GetMetricsResponse, LeaderDemoteRequest, SetCandidacyRequest,
    UpdateLeaderElectorConfigRequest, UpdateLoggerRequest, metric_value::Value,
};
use prost::Message;
use tokio::time::Instant;

use crate::{
    address::Address,
    attempt::{Attempt, Story},
    call::kind_of,
    core::Core,
    error::{Error, Outcome},
    members::Members,
    policy::Failure,
    rpc::{Failed, Outgoing},
};

/// The admin service of one node. Its calls are made once, at this node: they are neither
/// retried nor redirected.
#[derive(Clone, Debug)]
pub struct Admin {
    core: Arc<Core>,
    address: Address,
    deadline: Duration,
}

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether the node serves as leader.
    pub is_leader: bool,
    /// Whether it is in order.
    pub is_healthy: bool,
}

/// How a leader is asked to step down. The default: whoever leads when the call arrives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demotion {
    expected_epoch: Option<u64>,
    transfer_to: Option<String>,
    pause: bool,
}

/// How a node campaigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ElectionConfig {
    /// How long a node that lost or gave up leadership stays out of the race.
    pub campaign_delay: Duration,
    /// Whether an operator keeps the node out of the race.
    pub paused: bool,
}

/// What a node logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// What is worth knowing, and all below.
    Info,
    /// What may need attention, and all below.
    Warn,
    /// What needs attention.
    Error,
}

/// A number or text that a node counts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerMetric {
    /// Its name.
    pub name: String,
    /// Its labels, names and values.
    pub labels: Vec<(String, String)>,
    /// Its value, as text.
    pub value: String,
}

impl Demotion {
    /// Whoever leads in `expected_epoch`, if that is given.
    pub(crate) fn of(expected_epoch: Option<u64>) -> Self {
        Self {
            expected_epoch,
            ..Self::default()
        }
    }

    /// Refused when the node leads under another epoch, so that a repeat cannot demote a
    /// successor.
    #[must_use]
    pub fn expecting(mut self, epoch: u64) -> Self {
        self.expected_epoch = Some(epoch);
        self
    }

    /// The node that should lead next.
    #[must_use]
    pub fn transfer_to(mut self, node_id: impl Into<String>) -> Self {
        self.transfer_to = Some(node_id.into());
        self
    }

    /// The node stays out of the race afterwards, until [`Admin::set_candidacy`].
    #[must_use]
    pub fn pausing(mut self) -> Self {
        self.pause = true;
        self
    }
}

impl Admin {
    pub(crate) fn new(core: Arc<Core>, address: Address, deadline: Duration) -> Self {
        Self {
            core,
            address,
            deadline,
        }
    }

    /// Asks how the node is.
    ///
    /// # Errors
    /// When the node does not answer before the deadline.
    pub async fn check_health(&self) -> Result<Health, Error> {
        const NAME: &str = "CheckHealth";
        const PATH: &str = "/kv_cache_manager.proto.admin.AdminService/CheckHealth";
        let body = CheckHealthRequest::default().encode_to_vec();
        let response: CheckHealthResponse = self.ask(NAME, PATH, body.into(), false).await?;
        Ok(Health {
            is_leader: response.is_leader,
            is_healthy: response.is_health,
        })
    }

    /// Makes the node step down if it leads.
    ///
    /// # Errors
    /// [`ErrorKind::NotLeader`](crate::ErrorKind::NotLeader) when it does not, or not in the
    /// expected epoch.
    pub async fn demote(&self, demotion: &Demotion) -> Result<(), Error> {
        const NAME: &str = "LeaderDemote";
        const PATH: &str = "/kv_cache_manager.proto.admin.AdminService/LeaderDemote";
        let request = LeaderDemoteRequest {
            expected_epoch: demotion.expected_epoch,
            transfer_to: demotion.transfer_to.clone(),
            pause: demotion.pause.then_some(true),
            ..LeaderDemoteRequest::default()
        };
        let body = request.encode_to_vec().into();
        self.call(NAME, PATH, body, true).await.map(|_| ())
    }

    /// Who leads since when, who else is there, and how leaders changed before.
    ///
    /// # Errors
    /// When the node does not answer before the deadline.
    pub async fn members(&self) -> Result<Members, Error> {
        const NAME: &str = "GetManagerClusterInfo";
        const PATH: &str = "/kv_cache_manager.proto.admin.AdminService/GetManagerClusterInfo";
        let body = GetManagerClusterInfoRequest::default().encode_to_vec();
        let response: GetManagerClusterInfoResponse =
            self.ask(NAME, PATH, body.into(), false).await?;
        Ok(Members::from_wire(response))
    }

    /// Keeps the node out of the race, or lets it in again, until it restarts.
    ///
    /// # Errors
    /// When the node leads: [`demote`](Self::demote) it with [`Demotion::pausing`].
    pub async fn set_candidacy(&self, paused: bool) -> Result<(), Error> {
        const NAME: &str = "SetCandidacy";
        const PATH: &str = "/kv_cache_manager.proto.admin.AdminService/SetCandidacy";
        let request = SetCandidacyRequest {
            paused,
            ..SetCandidacyRequest::default()
        };
        let body = request.encode_to_vec().into();
        self.call(NAME, PATH, body, true).await.map(|_| ())
    }

    /// How the node campaigns.
    ///
    /// # Errors
    /// When the node does not answer before the deadline.
    pub async fn election_config(&self) -> Result<ElectionConfig, Error> {
        const NAME: &str = "GetLeaderElectorConfig";
        const PATH: &str = "/kv_cache_manager.proto.admin.AdminService/GetLeaderElectorConfig";
        let body = GetLeaderElectorConfigRequest::default().encode_to_vec();
        let response: GetLeaderElectorConfigResponse =
            self.ask(NAME, PATH, body.into(), false).await?;
        let delay = u64::try_from(response.campaign_delay_time_ms).unwrap_or(0);
        Ok(ElectionConfig {
            campaign_delay: Duration::from_millis(delay),
            paused: response.paused.unwrap_or(false),
        })
    }

    /// How long the node stays out of the race after it lost or gave up leadership, until it
    /// restarts; whole milliseconds.
    ///
    /// # Errors
    /// When the node does not answer before the deadline.
    pub async fn set_campaign_delay(&self, delay: Duration) -> Result<(), Error> {
        const NAME: &str = "UpdateLeaderElectorConfig";
        const PATH: &str = "/kv_cache_manager.proto.admin.AdminService/UpdateLeaderElectorConfig";
        let request = UpdateLeaderElectorConfigRequest {
            campaign_delay_time_ms: i64::try_from(delay.as_millis()).unwrap_or(i64::MAX),
            ..UpdateLeaderElectorConfigRequest::default()
        };
        let body = request.encode_to_vec().into();
        self.call(NAME, PATH, body, true).await.map(|_| ())
    }

    /// What the node logs, until it restarts.
    ///
    /// # Errors
    /// When the node does not answer before the deadline.
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), Error> {
        const NAME: &str = "UpdateLogger";
        const PATH: &str = "/kv_cache_manager.proto.admin.AdminService/UpdateLogger";
        let level = match level {
            LogLevel::Debug => "DEBUG",
            LogLevel::Info => "INFO",
            LogLevel::Warn => "WARN",
            LogLevel::Error => "ERROR",
        };
        let request = UpdateLoggerRequest {
            log_level: level.to_owned(),
            ..UpdateLoggerRequest::default()
        };
        let body = request.encode_to_vec().into();
        self.call(NAME, PATH, body, true).await.map(|_| ())
    }

    /// What the node counts. Prometheus reads more of it from `/metrics` of the admin HTTP port.
    ///
    /// # Errors
    /// When the node does not answer before the deadline.
    pub async fn metrics(&self) -> Result<Vec<ServerMetric>, Error> {
        const NAME: &str = "GetMetrics";
        const PATH: &str = "/kv_cache_manager.proto.admin.AdminService/GetMetrics";
        let body = GetMetricsRequest::default().encode_to_vec();
        let response: GetMetricsResponse = self.ask(NAME, PATH, body.into(), false).await?;
        let metrics = response.metrics.into_iter().map(|metric| ServerMetric {
            name: metric.metric_name,
            labels: metric
                .metric_tags
                .into_iter()
                .map(|tag| (tag.tag_key, tag.tag_value))
                .collect(),
            value: match metric.metric_value.and_then(|value| value.value) {
                Some(Value::IntValue(value)) => value.to_string(),
                Some(Value::FloatValue(value)) => value.to_string(),
                Some(Value::StringValue(value)) => value,
                None => String::new(),
            },
        });
        Ok(metrics.collect())
    }

    async fn ask<R: Message + Default>(
        &self,
        name: &'static str,
        path: &'static str,
        body: Bytes,
        mutating: bool,
    ) -> Result<R, Error> {
        let body = self.call(name, path, body, mutating).await?;
        R::decode(body)
            .map_err(|error| self.error(name, &Failed::garbled(&error.to_string()), None))
    }

    async fn call(
        &self,
        name: &'static str,
        path: &'static str,
        body: Bytes,
        mutating: bool,
    ) -> Result<Bytes, Error> {
        let started = Instant::now();
        let request_id = mutating.then(|| self.core.next_request_id());
        let outgoing = Outgoing {
            path,
            body,
            request_id: request_id.as_deref(),
            min_epoch: 0,
            timeout: self.deadline,
            reply_bytes_max: self.core.settings.reply_bytes_max,
        };
        match self.core.send(&self.address, &outgoing).await {
            Ok(incoming) => Ok(incoming.body),
            Err(failed) => Err(self.error(name, &failed, Some(started))),
        }
    }

    fn error(&self, name: &'static str, failed: &Failed, started: Option<Instant>) -> Error {
        let kind = match failed.failure {
            Failure::Silent => crate::ErrorKind::DeadlineExceeded,
            _ => kind_of(failed),
        };
        let outcome = if failed.failure.may_have_happened() {
            Outcome::Unknown
        } else {
            Outcome::NotDone
        };
        let mut story = Story::default();
        story.push(Attempt {
            node: Some(self.address.as_str().to_owned()),
            epoch: 0,
            code: Some(failed.code).filter(|code| *code != 0),
            result: failed.text.clone(),
            elapsed: started.map_or(Duration::ZERO, |started| started.elapsed()),
            wait: Duration::ZERO,
        });
        let (attempts, total) = story.into_parts();
        Error::new(kind, outcome, name, failed.text.clone()).with_attempts(attempts, total)
    }
}
