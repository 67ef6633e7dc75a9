//! What the election looks like from outside.

use std::time::Duration;

use kvcm_clock::Moment;
use kvcm_fence::Epoch;

use coordination_core::Owner;

use crate::LossReason;

/// What a node is at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// It stands by.
    #[default]
    Follower,
    /// It holds the lock and prepares to serve.
    Promoting,
    /// Its gate is open while its lease lives.
    Leader,
    /// It no longer admits work and cleans up.
    Demoting,
}

impl Role {
    /// The word for people and for the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Follower => "follower",
            Self::Promoting => "promoting",
            Self::Leader => "leader",
            Self::Demoting => "demoting",
        }
    }
}

/// Who holds the lock, as this node last saw it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaderView {
    /// The holder.
    pub owner: Owner,
    /// Its epoch.
    pub epoch: Epoch,
    /// What it stored with the lock.
    pub info: String,
    /// When this was last seen to be so.
    pub seen_at: Moment,
    /// When its lease ends if it is not renewed.
    pub lease_end: Moment,
}

/// What has happened since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Totals {
    /// Locks won.
    pub acquired: u64,
    /// Won after an end of the previous reign that nobody can vouch for.
    pub unproven: u64,
    /// Reigns that ended without being asked to.
    pub lost: u64,
    /// Step-downs on request.
    pub released: u64,
    /// Promotions that failed.
    pub promote_failed: u64,
    /// Renewals without an answer.
    pub renew_errors: u64,
    /// Other calls without an answer.
    pub call_errors: u64,
    /// Locks handed over to a named successor, which took them.
    pub transferred: u64,
    /// Transfers that were given up before the lock was released.
    pub transfers_aborted: u64,
    /// How often this node had to wait because it had lost too often.
    pub damped: u64,
    /// The shortest time that was left of the lease of an open gate when it was renewed.
    pub worst_left: Option<Duration>,
}

/// What the election looks like from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct View {
    /// What this node is.
    pub role: Role,
    /// The epoch that this node holds.
    pub epoch: Option<Epoch>,
    /// When this node's own lease ends, as it counts.
    pub lease_end: Option<Moment>,
    /// Who holds the lock, this node included.
    pub leader: Option<LeaderView>,
    /// The highest epoch seen anywhere.
    pub highest: Epoch,
    /// This node stays out of the race until then.
    pub not_before: Option<Moment>,
    /// How its last reign ended.
    pub last_loss: Option<LossReason>,
    /// When the backend last answered.
    pub backend_seen_at: Option<Moment>,
    /// What went wrong with the backend, when its last answer was none.
    pub backend_error: Option<String>,
    /// When the election last turned.
    pub last_turn: Moment,
    /// Counters.
    pub totals: Totals,
    /// What keeps this node out of the race, when it does not hold the lock.
    pub standby: Option<Standby>,
    /// By order of the operator it does not campaign.
    pub paused: bool,
    /// It would be able to serve: it said so, and its stores answer.
    pub ready: bool,
    /// The election has ended: the process is stopping.
    pub stopped: bool,
}

/// What keeps a node out of the race although the lock may be free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standby {
    /// The process ends.
    Stopping,
    /// Its callbacks of the reign before are not through.
    CleaningUp,
    /// By order of the operator, until resumed.
    Paused,
    /// After a step-down, a failed promotion, or a lock that was taken away as soon as it was won.
    Forbidden {
        /// The end of it.
        until: Moment,
    },
    /// After a step-down, so that another node can take over.
    Yielding {
        /// The end of it; earlier when another node leads.
        until: Moment,
    },
    /// It has lost the lock too often by its own fault, and another node is ready.
    Damped {
        /// The end of it; earlier when no other node is ready any more.
        until: Moment,
    },
    /// It is not ready and another node is.
    NotReady {
        /// The end of it, once the lock was seen to be free.
        until: Option<Moment>,
    },
}

impl Standby {
    /// When it ends by time alone.
    pub const fn until(self) -> Option<Moment> {
        match self {
            Self::Stopping | Self::CleaningUp | Self::Paused => None,
            Self::Forbidden { until } | Self::Yielding { until } | Self::Damped { until } => {
                Some(until)
            }
            Self::NotReady { until } => until,
        }
    }

    /// Whether a lock that is held all the same is given back: it is not only a matter of who is
    /// given the first chance.
    pub const fn forbids(self) -> bool {
        !matches!(self, Self::Damped { .. } | Self::NotReady { .. })
    }

    /// One word, for people and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stopping => "stopping",
            Self::CleaningUp => "cleaning_up",
            Self::Paused => "paused",
            Self::Forbidden { .. } => "forbidden",
            Self::Yielding { .. } => "yielding",
            Self::Damped { .. } => "damped",
            Self::NotReady { .. } => "not_ready",
        }
    }
}
