//! Accounts of what happened, for those who ask later. No decision looks at anything in here.

use coordination_core::{Holder, Owner, Previous, ReignEnd};
use kvcm_clock::Moment;
use kvcm_fence::Epoch;

use super::{
    Command, Core, LossReason,
    lock::{Held, Lock},
};
use crate::{Change, Took, Turn};

/// When what happened in a reign.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Times {
    /// The last sign of life of the leader before.
    pub(super) last_sign: Option<Moment>,
    /// The try that won was sent.
    pub(super) asked: Option<Moment>,
    /// Its answer came.
    pub(super) won: Option<Moment>,
    /// The promote callback returned.
    pub(super) recovered: Option<Moment>,
    /// The guard of an unproven end lasted until then.
    pub(super) guarded: Option<Moment>,
    /// The gate opened.
    pub(super) opened: Option<Moment>,
    /// Requests in flight began to be waited for.
    pub(super) drained_since: Option<Moment>,
    /// The lock began to be released.
    pub(super) released_since: Option<Moment>,
}

/// How the reign before one of ours ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Before {
    pub(super) end: Option<ReignEnd>,
    pub(super) evidence: String,
}

impl Before {
    /// From what the backend tells of it; `is_new` when the backend has no record at all and this
    /// process has never known a holder.
    pub(super) fn new(previous: Option<&Previous>, is_new: bool) -> Self {
        let Some(Previous {
            owner,
            epoch,
            end,
            lease_left,
        }) = previous
        else {
            return Self {
                end: (!is_new).then_some(ReignEnd::Unknown),
                evidence: if is_new {
                    "the backend has no record of a leader before".to_owned()
                } else {
                    "the backend has lost its record of the leader before".to_owned()
                },
            };
        };
        let evidence = match end {
            ReignEnd::Released => format!("{owner} released the lock of epoch {epoch}"),
            ReignEnd::Expired => format!("the lease of {owner} in epoch {epoch} ended"),
            ReignEnd::Dead => format!("the process of {owner}, which led in epoch {epoch}, died"),
            ReignEnd::Unknown => format!(
                "nobody can vouch for the end of {owner} in epoch {epoch}, {lease_left:?} before \
                 its lease would have ended"
            ),
        };
        Self {
            end: Some(*end),
            evidence,
        }
    }
}

fn between(from: Option<Moment>, to: Option<Moment>) -> Option<std::time::Duration> {
    Some(to?.since(from?))
}

impl Times {
    fn took(&self, now: Moment) -> Took {
        let opening = between(self.recovered, self.opened);
        Took {
            detect: between(self.last_sign, self.asked),
            win: between(self.asked, self.won),
            recover: between(self.won, self.recovered),
            open: opening,
            guard: opening.and_then(|_| between(self.recovered, self.guarded)),
            drain: between(self.drained_since, self.released_since.or(Some(now))),
            release: between(self.released_since, Some(now)),
        }
    }
}

impl Core {
    /// Another node holds the lock.
    pub(super) fn record_seen(&mut self, now: Moment, holder: &Holder, out: &mut Vec<Command>) {
        if holder.epoch <= self.recorded || holder.owner == self.me {
            return;
        }
        let evidence = format!(
            "the backend names it, with {:?} of its lease left",
            holder.remaining
        );
        let (owner, epoch) = (holder.owner.clone(), holder.epoch);
        self.record(
            now,
            owner,
            epoch,
            Turn::Seen,
            evidence,
            Took::default(),
            out,
        );
    }

    /// The gate has just opened.
    pub(super) fn record_won(&mut self, now: Moment, out: &mut Vec<Command>) {
        let Lock::Held(held) = &mut self.lock else {
            return;
        };
        held.times.opened = Some(now);
        let took = held.times.took(now);
        let epoch = held.epoch;
        let Before { end, evidence } = held.before.clone();
        let (me, turn) = (self.me.clone(), Turn::Won { after: end });
        self.record(now, me, epoch, turn, evidence, took, out);
    }

    /// A reign of this node has ended.
    pub(super) fn record_ended(
        &mut self,
        now: Moment,
        held: &Held,
        reason: &LossReason,
        out: &mut Vec<Command>,
    ) {
        let mut took = held.times.took(now);
        if held.times.opened.is_some() {
            // These were told when the gate opened.
            took = Took {
                drain: took.drain,
                release: took.release,
                ..Took::default()
            };
        }
        let evidence = match &held.evidence {
            Some(evidence) => evidence.clone(),
            None if *reason == LossReason::LeaseExpired => {
                let local = self.settings.local_lease(self.margin);
                let silent = now.since(held.lease_end) + local;
                let error = self.backend_error.as_deref();
                format!(
                    "no renewal that was sent in the last {silent:?} has counted: {}",
                    error.unwrap_or("the backend has reported no error")
                )
            }
            None => reason.to_string(),
        };
        let (me, turn) = (self.me.clone(), Turn::Ended(reason.clone()));
        self.record(now, me, held.epoch, turn, evidence, took, out);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one record")]
    fn record(
        &mut self,
        at: Moment,
        owner: Owner,
        epoch: Epoch,
        turn: Turn,
        evidence: String,
        took: Took,
        out: &mut Vec<Command>,
    ) {
        self.recorded = self.recorded.max(epoch);
        out.push(Command::Record(Change {
            at,
            owner,
            epoch,
            turn,
            evidence,
            took,
        }));
    }
}
