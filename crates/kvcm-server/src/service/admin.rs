//! AdminService: what operators call. Any node answers these.

use std::time::Duration;

use coordination_core::NodeId;
use elector::{DemoteOutcome, PauseRefused, Record, Took, TransferOutcome, TransferRefused, Turn};
use kvcm_fence::Epoch;
use kvcm_proto::admin;

use super::Services;
use crate::{
    http::CallContext,
    members::Member,
    reply::{CallError, Code, Header, Reply as _, millis},
};

impl Services {
    /// Whether the node serves, and whether it does what its role asks for.
    pub(crate) fn check_health(
        &self,
        _context: &CallContext,
        request: admin::CheckHealthRequest,
    ) -> admin::CheckHealthResponse {
        let last_turn = self.cluster.elector().view().last_turn;
        let wall_ms = self.cluster.wall_ms(last_turn);
        admin::CheckHealthResponse {
            header: Some(Header::ok(&request.trace_id).into()),
            is_leader: self.cluster.leads(),
            is_health: self.cluster.healthy().is_ok(),
            elector_last_loop_time_ms: i64::try_from(wall_ms).unwrap_or(i64::MAX),
        }
    }

    /// Who leads, who is there, and how it came about.
    pub(crate) fn get_manager_cluster_info(
        &self,
        _context: &CallContext,
        request: admin::GetManagerClusterInfoRequest,
    ) -> admin::GetManagerClusterInfoResponse {
        let view = self.cluster.elector().view().clone();
        let leader = self.cluster.leader();
        let known = !leader.node_id.is_empty();
        let wall = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let expiration = view
            .lease_end
            .filter(|_| self.cluster.leads())
            .map_or(-1, |end| {
                wall(self.cluster.wall_ms(end).saturating_mul(1000))
            });
        let updated = view
            .backend_seen_at
            .map_or(0, |seen| wall(self.cluster.wall_ms(seen)));
        let role = self.cluster.role().as_str();
        admin::GetManagerClusterInfoResponse {
            header: Some(Header::ok(&request.trace_id).into()),
            info_updated_time: updated,
            self_leader_expiration_time: expiration,
            self_node_id: self.cluster.node().endpoint.node_id.clone(),
            leader_epoch: known.then(|| leader.epoch.get()),
            info_age_ms: known.then(|| millis(leader.age)),
            leader_node_id: leader.node_id,
            leader_endpoint: leader.endpoint.map(Into::into),
            self_role: Some(role.to_owned()),
            nodes: self.nodes(),
            history: changes(&self.cluster.elector().history()),
        }
    }

    /// Every node that is alive or died a short time ago.
    fn nodes(&self) -> Vec<admin::NodeStatus> {
        let cluster = &self.cluster;
        let now = cluster.now();
        let this_life = cluster.node().owner.incarnation.to_string();
        let own = cluster.condition();
        let status = |(member, alive): (&Member, bool)| {
            let record = &member.record;
            // Records say what was true at the last heartbeat; of itself a node knows better.
            let (role, ready) = match alive {
                true if record.incarnation == this_life => (own.role.as_str(), own.ready),
                true => (record.role.as_str(), record.ready),
                false => ("expired", false),
            };
            admin::NodeStatus {
                node_id: record.endpoint.node_id.clone(),
                endpoint: Some(record.endpoint.clone().into()),
                role: role.to_owned(),
                ready,
                version: record.version.clone(),
                incarnation: record.incarnation.clone(),
                last_heartbeat_age_ms: millis(now.since(member.beat_at)),
            }
        };
        cluster.members().roster().at(now).map(status).collect()
    }

    /// Steps down: drains, hands the lock over. The node stays out of the race for a while.
    pub(crate) async fn leader_demote(
        &self,
        _context: &CallContext,
        request: admin::LeaderDemoteRequest,
    ) -> admin::CommonResponse {
        let header = match self.demote(&request).await {
            Ok(()) => Header::ok(&request.trace_id),
            Err(error) if error.code == Code::NotLeader => {
                Header::not_leader(&request.trace_id, &self.cluster)
            }
            Err(error) => Header::refused(&request.trace_id, error),
        };
        admin::CommonResponse::only(header)
    }

    async fn demote(&self, request: &admin::LeaderDemoteRequest) -> Result<(), CallError> {
        let invalid = |message| CallError::new(Code::InvalidArgument, message);
        let expected = request.expected_epoch.map(Epoch::new).transpose();
        let expected = expected.map_err(|error| invalid(format!("expected_epoch: {error}")))?;
        let pause = request.pause.unwrap_or_default();
        if let Some(to) = &request.transfer_to {
            if pause {
                let message = "pause: not together with transfer_to; call SetCandidacy afterwards";
                return Err(invalid(message.to_owned()));
            }
            return self.transfer(to, expected).await;
        }
        tracing::info!(?expected, pause, "asked to step down");
        let elector = self.cluster.elector();
        let outcome = if pause {
            elector.demote_and_pause(expected).await
        } else {
            elector.demote(expected).await
        };
        match outcome {
            DemoteOutcome::Done(_) => Ok(()),
            DemoteOutcome::NotLeader => Err(CallError::new(Code::NotLeader, "")),
            DemoteOutcome::OtherEpoch(epoch) => Err(invalid(format!(
                "expected_epoch is {}, but this node leads in epoch {epoch}: nothing was done",
                expected.unwrap_or_default()
            ))),
        }
    }

    /// Hands leadership over to one node; when that cannot take it, everything stays as it is.
    async fn transfer(&self, to: &str, expected: Option<Epoch>) -> Result<(), CallError> {
        let invalid = |message| CallError::new(Code::InvalidArgument, message);
        let node: NodeId = to
            .parse()
            .map_err(|error| invalid(format!("transfer_to: {error}")))?;
        tracing::info!(to, ?expected, "asked to hand over");
        let nothing = |error: &TransferRefused| format!("{error}: nothing was done");
        let elector = self.cluster.elector();
        // What the last heartbeat has told it may be a second old, and one of them dead since.
        elector.set_peers(self.cluster.members().peers());
        match elector.transfer(node, expected).await {
            // Whoever should lead does.
            Ok(TransferOutcome::Transferred { .. }) | Err(TransferRefused::ToSelf) => Ok(()),
            Ok(TransferOutcome::Aborted(reason)) => {
                let message = format!("this node leads on in the same epoch: {reason}");
                Err(CallError::new(Code::Internal, message))
            }
            Ok(TransferOutcome::NotTaken { by }) => {
                let by = by.map_or_else(|| "nobody yet".to_owned(), |by| by.node.to_string());
                let message = format!("this node stepped down, `{to}` did not take over: {by} did");
                Err(CallError::new(Code::Io, message))
            }
            Ok(TransferOutcome::Ended(reason)) => {
                let reason = reason.as_str();
                let message = format!("the reign ended before it was handed over ({reason})");
                Err(CallError::new(Code::Io, message))
            }
            Err(TransferRefused::NotLeader) => Err(CallError::new(Code::NotLeader, "")),
            Err(error @ (TransferRefused::OtherEpoch(_) | TransferRefused::Successor(_))) => {
                Err(invalid(nothing(&error)))
            }
            Err(error) => Err(CallError::new(Code::Internal, nothing(&error))),
        }
    }

    /// How long this node stays out of the race after a step-down.
    pub(crate) fn get_leader_elector_config(
        &self,
        _context: &CallContext,
        request: admin::GetLeaderElectorConfigRequest,
    ) -> admin::GetLeaderElectorConfigResponse {
        admin::GetLeaderElectorConfigResponse {
            header: Some(Header::ok(&request.trace_id).into()),
            campaign_delay_time_ms: millis(*self.campaign_delay.lock()),
            paused: Some(self.cluster.elector().view().paused),
        }
    }

    /// Keeps this node out of the race, or lets it in again, for this life of its process.
    pub(crate) async fn set_candidacy(
        &self,
        _context: &CallContext,
        request: admin::SetCandidacyRequest,
    ) -> admin::CommonResponse {
        let elector = self.cluster.elector();
        let refused = if request.paused {
            elector.pause().await.err()
        } else {
            elector.resume().await;
            None
        };
        tracing::info!(paused = request.paused, ?refused, "candidacy set");
        admin::CommonResponse::only(match refused {
            None => Header::ok(&request.trace_id),
            Some(error) => {
                let code = match error {
                    PauseRefused::Leads(_) => Code::InvalidArgument,
                    PauseRefused::Stopped => Code::Internal,
                };
                Header::refused(&request.trace_id, CallError::new(code, error.to_string()))
            }
        })
    }

    /// Sets it, for this node and this life of its process.
    pub(crate) async fn update_leader_elector_config(
        &self,
        _context: &CallContext,
        request: admin::UpdateLeaderElectorConfigRequest,
    ) -> admin::CommonResponse {
        let delay = match u64::try_from(request.campaign_delay_time_ms) {
            Ok(ms) => Duration::from_millis(ms),
            Err(_) => {
                let message = format!(
                    "missing or invalid fields: {{campaign_delay_time_ms}}: {} is negative",
                    request.campaign_delay_time_ms
                );
                let error = CallError::new(Code::InvalidArgument, message);
                return admin::CommonResponse::only(Header::refused(&request.trace_id, error));
            }
        };
        *self.campaign_delay.lock() = delay;
        self.cluster.elector().set_forbid(delay).await;
        tracing::info!(?delay, "campaign delay set");
        admin::CommonResponse::only(Header::ok(&request.trace_id))
    }
}

/// Who has led since when, and how the reign before ended, as far as this node saw it.
fn changes(history: &[Record]) -> Vec<admin::LeaderChange> {
    let mut ended = "";
    let mut changes = Vec::new();
    for Record { wall_ms, change } in history {
        let reason = match &change.turn {
            Turn::Ended(reason) => {
                ended = reason.as_str();
                continue;
            }
            Turn::Won { .. } => change.turn.reason(),
            Turn::Seen => ended,
        };
        ended = "";
        changes.push(admin::LeaderChange {
            epoch: change.epoch.get(),
            node_id: change.owner.node.to_string(),
            reason: reason.to_owned(),
            at_ms: i64::try_from(*wall_ms).unwrap_or(i64::MAX),
            phases: phases(&change.took),
        });
    }
    changes
}

/// The parts of a change of leader that this node has seen.
fn phases(took: &Took) -> Vec<admin::LeaderChangePhase> {
    let seen = took.parts().filter_map(|(name, part)| {
        Some(admin::LeaderChangePhase {
            name: name.to_owned(),
            duration_us: i64::try_from(part?.as_micros()).unwrap_or(i64::MAX),
        })
    });
    seen.collect()
}
