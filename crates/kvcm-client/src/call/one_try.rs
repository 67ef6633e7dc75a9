//! One try of a call at the leader, and what is learned from it.

use std::{sync::Arc, time::Duration};

use kvcm_clock::Backoff;
use kvcm_proto::meta::CommonResponseHeader;
use tokio::time::Instant;

use super::{Progress, Service, TRY_LEAST};
use crate::{
    address::Address,
    core::Core,
    leader::{Leader, Verdict},
    node::Node,
    policy::Failure,
    rpc::{Failed, Incoming, Outgoing},
    settings::{SEARCHES, SEARCHES_WHILE_PUSHED},
    stats::count,
};

impl Progress<'_> {
    /// One try. It ends early when a newer leader becomes known, whose epoch would make this
    /// one's answer worthless; and while it lasts longer than usual, the client asks around.
    pub(super) async fn attempt(&self, leader: &Arc<Leader>) -> Result<Incoming, Failed> {
        let outgoing = Outgoing {
            path: self.call.path,
            body: self.call.body.clone(),
            request_id: self.request_id.as_deref(),
            min_epoch: self.core.table.borrow().seen(),
            timeout: self.attempt_timeout(),
            reply_bytes_max: self.core.settings.reply_bytes_max,
        };
        let address = self.address(leader)?;
        let result = tokio::select! {
            biased;
            result = self.core.send(&address, &outgoing) => result,
            () = self.core.superseded(leader) => Err(Failed::local(
                Failure::Superseded,
                "abandoned for a newer leader",
            )),
            () = ask_around_while_silent(self.core) => Err(Failed::silent(outgoing.timeout)),
        };
        match result {
            Ok(incoming) => {
                self.believe(leader, &incoming.header)?;
                Ok(incoming)
            }
            Err(failed) => Err(self.learn(leader, failed)),
        }
    }

    /// Where the leader listens for this call.
    fn address(&self, leader: &Leader) -> Result<Address, Failed> {
        match self.call.service {
            Service::Meta => Ok(leader.address.clone()),
            Service::Admin => Address::parse(&leader.node.admin_endpoint)
                .map_err(|why| Failed::local(Failure::Unreachable, why)),
        }
    }

    /// A silent node must leave time for another one.
    fn attempt_timeout(&self) -> Duration {
        let remaining = self.remaining();
        let share = (remaining / 2).max(TRY_LEAST);
        self.core.settings.attempt_timeout.min(share).min(remaining)
    }

    /// Checks the epoch of an answer against what has been seen.
    fn believe(&self, leader: &Leader, header: &CommonResponseHeader) -> Result<(), Failed> {
        let cluster = header.cluster_id.as_deref();
        let epoch = header.epoch;
        if self.core.table.borrow().is_settled(cluster, epoch, leader) {
            return Ok(());
        }
        let mut verdict = Verdict::Fresh;
        self.core.table.send_if_modified(|table| {
            verdict = table.reply(cluster, epoch, leader);
            verdict == Verdict::Fresh
        });
        let Verdict::Stale { seen } = verdict else {
            return Ok(());
        };
        count(&self.core.counters.stale_replies);
        let epoch = epoch.unwrap_or(0);
        self.core.table.send_modify(|table| table.suspect(leader));
        Err(Failed::local(
            Failure::StaleReply,
            format!("a reply of epoch {epoch}, but epoch {seen} has been seen"),
        ))
    }

    /// Takes from a failure what it tells about leadership.
    fn learn(&self, leader: &Leader, failed: Failed) -> Failed {
        match (&failed.failure, &failed.header) {
            (Failure::NotLeader { .. }, Some(header)) => self.take_hint(header),
            (_, Some(header)) => {
                if let Err(stale) = self.believe(leader, header) {
                    return stale;
                }
            }
            (_, None) => {}
        }
        if matches!(failed.failure, Failure::NotLeader { .. }) {
            let mut is_news = false;
            self.core
                .table
                .send_modify(|table| is_news = table.refute(leader));
            if is_news {
                // Nothing is to wait behind it on a connection to a node that does not serve.
                self.core.transport.close(&leader.address);
            }
        } else if failed.failure.doubts_leader() {
            self.core.table.send_modify(|table| table.suspect(leader));
        }
        failed
    }

    fn take_hint(&self, header: &CommonResponseHeader) {
        let Some(hint) = &header.leader_hint else {
            return;
        };
        let endpoint = hint.endpoint.as_ref().and_then(Node::from_wire);
        let cluster = header.cluster_id.as_deref();
        let taken = self
            .core
            .table
            .send_if_modified(|table| table.hint(cluster, hint.epoch, endpoint));
        if !taken {
            count(&self.core.counters.stale_hints);
        }
    }
}

/// Never returns; what it finds wakes [`Core::superseded`].
async fn ask_around_while_silent(core: &Arc<Core>) {
    tokio::time::sleep(core.settings.silence_delay).await;
    let mut waits = Backoff::new(if core.is_pushed() {
        SEARCHES_WHILE_PUSHED
    } else {
        SEARCHES
    });
    loop {
        core.search(Instant::now(), true, None).await;
        let wait = core.next_wait(&mut waits);
        tokio::time::sleep(wait).await;
    }
}
