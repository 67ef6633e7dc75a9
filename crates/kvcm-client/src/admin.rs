//! Calls to the admin service of one node.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use kvcm_proto::admin::{CheckHealthRequest, CheckHealthResponse, LeaderDemoteRequest};
use prost::Message;
use tokio::time::Instant;

use crate::{
    address::Address,
    attempt::{Attempt, Story},
    call::kind_of,
    core::Core,
    error::{Error, Outcome},
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
        let body = self.call(NAME, PATH, body.into(), false).await?;
        let response = CheckHealthResponse::decode(body)
            .map_err(|error| self.error(NAME, &Failed::garbled(&error.to_string()), None))?;
        Ok(Health {
            is_leader: response.is_leader,
            is_healthy: response.is_health,
        })
    }

    /// Makes the node step down if it leads, in epoch `expected_epoch` if one is given.
    ///
    /// # Errors
    /// [`ErrorKind::NotLeader`](crate::ErrorKind::NotLeader) when it does not.
    pub async fn demote(&self, expected_epoch: Option<u64>) -> Result<(), Error> {
        const NAME: &str = "LeaderDemote";
        const PATH: &str = "/kv_cache_manager.proto.admin.AdminService/LeaderDemote";
        let request = LeaderDemoteRequest {
            expected_epoch,
            ..LeaderDemoteRequest::default()
        };
        let body = request.encode_to_vec().into();
        self.call(NAME, PATH, body, true).await.map(|_| ())
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
