//! What happens in a run: the evidence for the checks, and the log that `--trace` prints.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use coordination_core::ReignEnd;
use elector::Role;
use parking_lot::Mutex;

use crate::{fault::Fault, world::World};

/// One life of the process in one place of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Life {
    /// The place, from 0.
    pub node: usize,
    /// The life, from 0.
    pub life: u32,
}

/// Names one request of a client across its tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Append `value` to the list `key`. No value is written twice.
    Write {
        /// The list.
        key: u32,
        /// The value.
        value: u32,
    },
    /// The whole list `key`.
    Read {
        /// The list.
        key: u32,
    },
}

impl Ask {
    /// The list.
    pub const fn key(&self) -> u32 {
        match self {
            Self::Write { key, .. } | Self::Read { key } => *key,
        }
    }
}

/// What a client was told in the end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    /// The write is done.
    Written {
        /// By the leader of this epoch.
        epoch: u64,
        /// The place of the value in its list.
        place: u32,
    },
    /// The list.
    Values {
        /// By the leader of this epoch.
        epoch: u64,
        /// The values in their order.
        values: Arc<Vec<u32>>,
    },
    /// Nothing until its deadline: it may have happened.
    Nothing,
}

/// What became of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transferred {
    /// It was not begun.
    Refused,
    /// The successor was seen to hold the lock in this epoch.
    Taken(u64),
    /// It was released for the successor, which did not take it.
    NotTaken,
    /// The operator took it back.
    Cancelled,
    /// It was given up, for the successor could no longer take over.
    Unfit,
    /// It was given up, for requests were in flight for too long.
    InFlight,
    /// It became a step-down.
    SteppedDown,
    /// The lock was lost meanwhile.
    Lost,
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "the fields are what their names say; epochs are plain numbers"
)]
pub enum Event {
    /// A process has begun.
    Started { life: Life, name: String },
    /// A process was killed, or has ended.
    Ended { life: Life },
    /// Nothing of a process runs for a while.
    Paused { life: Life },
    /// It runs again.
    Resumed { life: Life },
    /// A fault has come (or its first effect), and lasts until it is over.
    FaultBegan { fault: Fault, number: u64 },
    /// It is over.
    FaultEnded { number: u64 },
    /// A fault that is over in the moment in which it comes.
    FaultHit { fault: Fault },
    /// From here on nothing goes wrong any more.
    Healed,
    /// The coordination backend gave the lock.
    Acquired {
        life: Life,
        epoch: u64,
        previous: Option<ReignEnd>,
        repeated: bool,
    },
    /// The coordination backend freed the lock on its holder's demand.
    Released { life: Life, epoch: u64 },
    /// The answer to a renewal reached its process, so long after it was asked for.
    RenewalHeard {
        life: Life,
        epoch: u64,
        took: Duration,
    },
    /// What a node believes to be.
    Role {
        life: Life,
        role: Role,
        epoch: Option<u64>,
    },
    /// A node won the lock without knowing how the reign before had ended, so often by now.
    Unproven { life: Life, total: u64 },
    /// A node's idea of who leads.
    LeaderSeen { life: Life, epoch: u64 },
    /// The promote callback has begun.
    PromoteBegan {
        life: Life,
        epoch: u64,
        cancelled: bool,
    },
    /// The promote callback has returned.
    PromoteEnded { life: Life, epoch: u64, done: bool },
    /// The demote callback has begun.
    DemoteBegan { life: Life, epoch: u64 },
    /// The demote callback has returned.
    DemoteEnded { life: Life, epoch: u64 },
    /// An operator asks a leader to hand over to the node in the place `to`.
    TransferAsked { life: Life, to: usize },
    /// An operator asks a node to take its transfer back.
    TransferCancelled { life: Life },
    /// The answer to a transfer.
    TransferEnded { life: Life, end: Transferred },
    /// The coordination backend freed the lock and keeps it for a successor.
    Reserved { life: Life, epoch: u64, to: usize },
    /// A drain stopped the background work of a reign.
    Quiesced { life: Life, epoch: u64 },
    /// It was taken up again.
    TakenUp { life: Life, epoch: u64 },
    /// An operator was told that a node stays out of the race.
    KeptOut { life: Life, stepped_down: bool },
    /// An operator was told that a node leads and so cannot be kept out.
    KeepingRefused { life: Life },
    /// An operator lets a node into the race again.
    LetIn { life: Life },
    /// Whether a node can serve, by its own word.
    Ready { life: Life, ready: bool },
    /// An election asked the stores of its node before it tried, and they did not answer.
    ProbeFailed { life: Life },
    /// A callback ignored its cancellation for too long.
    Aborted { life: Life },
    /// A drain ended with requests in flight.
    DrainedLate { life: Life, epoch: u64 },
    /// A store was claimed.
    Claimed {
        store: usize,
        life: Life,
        epoch: u64,
    },
    /// A store refused a claim.
    ClaimRefused {
        store: usize,
        life: Life,
        epoch: u64,
        by: u64,
    },
    /// A store took a record.
    Appended {
        store: usize,
        life: Life,
        epoch: u64,
        request: RequestId,
    },
    /// A store refused a record.
    AppendRefused {
        store: usize,
        life: Life,
        epoch: u64,
    },
    /// The gate let a request in.
    Admitted {
        life: Life,
        epoch: u64,
        request: RequestId,
    },
    /// The gate confirmed a read after its evaluation.
    Confirmed {
        life: Life,
        epoch: u64,
        request: RequestId,
    },
    /// The gate did not: its reign was over.
    Unconfirmed { life: Life, epoch: u64 },
    /// A node answered a write, to whomever.
    Answered {
        life: Life,
        request: RequestId,
        place: u32,
    },
    /// A client begins a call.
    Invoked {
        client: usize,
        request: RequestId,
        ask: Ask,
    },
    /// A client tries a node.
    Tried {
        client: usize,
        request: RequestId,
        node: usize,
    },
    /// A client goes where it was sent.
    Redirected {
        client: usize,
        epoch: u64,
        node: usize,
    },
    /// A client's call has ended.
    Returned {
        client: usize,
        request: RequestId,
        told: Told,
    },
}

/// All events of a run in their order. Clones share them.
#[derive(Clone)]
pub(crate) struct Log {
    world: World,
    entries: Arc<Mutex<Vec<Entry>>>,
}

/// An event and its moment, in nanoseconds of the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Nanoseconds since the beginning.
    pub at: u64,
    /// What happened.
    pub event: Event,
}

impl Log {
    pub(crate) fn new(world: World) -> Self {
        Self {
            world,
            entries: Arc::default(),
        }
    }

    pub(crate) fn add(&self, event: Event) {
        let at = self.world.now();
        self.entries.lock().push(Entry { at, event });
    }

    pub(crate) fn hit(&self, fault: Fault) {
        self.add(Event::FaultHit { fault });
    }

    pub(crate) fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.entries.lock())
    }
}

/// One number for all that happened: two runs with the same number went the same way.
pub fn fingerprint(entries: &[Entry]) -> u64 {
    let mut hasher = DefaultHasher::new();
    entries.hash(&mut hasher);
    hasher.finish()
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} life {}", self.node, self.life)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.at / 1_000_000_000, self.at / 1000 % 1_000_000);
        write!(f, "{seconds:>4}.{micros:06} {:?}", self.event)
    }
}
