//! All that the model remembers.

use std::time::Duration;

use coordination_core::{
    Holder, LockOutcome, LockState, NodeId, Owner, Phase, RenewOutcome, Reservation, UnlockOutcome,
};
use elector::{Core, Settings};
use kvcm_clock::Moment;
use kvcm_fence::{Epoch, Fence, Incarnation};

/// The present. Time passes by moving everything else into the past, so that two states that
/// differ only in when they happen are one.
pub(crate) const NOW: Moment = Moment::from_nanos(1_000_000_000_000);

/// How far time moves at once.
pub(crate) const STEP: Duration = Duration::from_millis(100);

/// The lease. Two lost renewals are survived, three are not.
pub(crate) const LEASE: Duration = Duration::from_millis(300);

/// How long a call may take: it is answered, or has failed, before time passes a second time.
pub(crate) const CALL: Duration = STEP;

/// How many steps a paused process sleeps at most: past every lease.
pub(crate) const NAP: u8 = 4;

/// The whole world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) nodes: Vec<Node>,
    /// The backend.
    pub(crate) lock: LockState,
    /// The backend before the present reign began: what a rollback brings back.
    pub(crate) older: LockState,
    /// The store that leaders claim and write to.
    pub(crate) store: Fence,
    /// Requests whose caller no longer waits. They may still reach the backend.
    pub(crate) strays: Vec<(Owner, Ask)>,
    /// What may still go wrong.
    pub(crate) left: Budget,
    pub(crate) ghost: Ghost,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    /// None while it is down.
    pub(crate) core: Option<Core>,
    pub(crate) owner: Owner,
    pub(crate) wake: Moment,
    /// How many more steps it may sleep, while it is paused.
    pub(crate) nap: Option<u8>,
    /// Cut off from the backend.
    pub(crate) cut: bool,
    pub(crate) calls: Vec<Call>,
    pub(crate) gate: Gate,
    pub(crate) worker: Worker,
    /// A drain that the driver performs, and its bound.
    pub(crate) drain: Option<(Epoch, Moment)>,
    pub(crate) probing: bool,
    /// A write that was let in under this epoch.
    pub(crate) admitted: Option<Epoch>,
    /// An operator keeps it out of the race.
    pub(crate) held_back: bool,
    /// Would be able to serve, by its own word.
    pub(crate) ready: bool,
    /// The successor of a transfer that is not answered yet.
    pub(crate) handing_to: Option<NodeId>,
    /// The highest epoch that was promoted in this life.
    pub(crate) led: Epoch,
    /// For mutants.
    pub(crate) mark: bool,
}

/// A call to the backend.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    pub(crate) ask: Ask,
    pub(crate) sent: Moment,
    /// What the backend has answered, when the answer is still under way.
    pub(crate) answer: Option<Answer>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ask {
    TryLock {
        floor: Epoch,
        presumed_dead: Option<(Incarnation, Epoch)>,
    },
    Observe,
    Renew(Epoch),
    Unlock(Epoch, Option<Reservation>),
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Lock(LockOutcome),
    Holder(Option<Holder>),
    Renew(RenewOutcome),
    Unlock(UnlockOutcome),
}

/// The gate: flags, epoch and the deadline that it looks at itself. (The real one is made of
/// atomics, which cannot be part of a state; `gate.rs` tests it.)
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Gate {
    pub(crate) epoch: Epoch,
    pub(crate) admit: bool,
    pub(crate) serve: bool,
    pub(crate) deadline: Moment,
}

/// What the callbacks do, as the driver runs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Worker {
    Idle,
    Promoting { epoch: Epoch, claimed: bool },
    Promoted { epoch: Epoch },
    Demoting { epoch: Epoch },
}

/// How often what may still happen; each use takes one away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// A process dies, or is stopped in good order.
    pub(crate) crash: u8,
    /// A process sleeps while time passes.
    pub(crate) pause: u8,
    /// A node is cut off from the backend for a while.
    pub(crate) cut: u8,
    /// A call fails: it never arrived, or its answer is lost.
    pub(crate) lost: u8,
    /// An answer takes its time.
    pub(crate) slow: u8,
    /// A request arrives when its caller no longer waits (or arrives twice).
    pub(crate) late: u8,
    /// A hint for no reason, or a proof of death.
    pub(crate) hint: u8,
    /// Somebody asks a leader to step down.
    pub(crate) demote: u8,
    /// A promotion fails, or a drain hangs.
    pub(crate) fail: u8,
    /// Somebody asks a leader to hand over to another node.
    pub(crate) transfer: u8,
    /// An operator keeps a node out of the race for a while.
    pub(crate) hold_back: u8,
    /// A node is told of the others, rightly or not.
    pub(crate) peers: u8,
    /// A node is not ready for a while.
    pub(crate) unready: u8,
    /// A write is let in.
    pub(crate) admit: u8,
    /// Somebody deletes the lock; the backend knows that it did not end by itself.
    pub(crate) vanish: u8,
    /// The backend loses everything; its clock makes new epochs higher.
    pub(crate) flush: u8,
    /// The same, and its clock is wrong as well: epochs start from the caller's floor.
    pub(crate) flush_low: u8,
    /// The backend goes back in time and says so.
    pub(crate) restore: u8,
    /// The backend goes back in time and does not know it.
    pub(crate) lie: u8,
}

/// What properties need to know of the past.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ghost {
    /// The highest epoch that was minted.
    pub(crate) minted: Epoch,
    /// The last claim that the store accepted.
    pub(crate) claimed: Option<(Epoch, Incarnation)>,
    /// The highest epoch in which work could be let in.
    pub(crate) served: Epoch,
    /// Who let it in.
    pub(crate) server: Option<Incarnation>,
    /// The backend has lost data.
    pub(crate) lost: bool,
    /// The lock was released for this node, which alone may take it until then.
    pub(crate) kept_for: Option<(NodeId, Moment)>,
    /// A missing counter starts at zero.
    pub(crate) clock_wrong: bool,
    /// Something has happened that the rules are known not to cover: the backend went back in
    /// time without knowing it, for instance. Only the fence helps then.
    pub(crate) excused: bool,
    pub(crate) broken: Option<Broken>,
}

/// The properties, as what breaks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Broken {
    ExclusiveEpoch,
    StaleServe,
    Alternation,
    GateWithoutLock,
    GateOutlivesLock,
    EpochLedTwice,
    ClaimsRise,
    WriteOfOther,
    BusyWait,
    Stuck,
    KeptLockTaken,
    HeldBackCampaigns,
}

impl Broken {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ExclusiveEpoch => "I1 epochs rise",
            Self::EpochLedTwice => "I1 no node leads in an epoch twice",
            Self::ClaimsRise => "I1 accepted claims rise",
            Self::StaleServe => "I2 nothing stale is served",
            Self::GateOutlivesLock => "I2 the gate is shut before the lock is free",
            Self::WriteOfOther => "I2 a store takes writes of the last claim only",
            Self::Alternation => "I5 callbacks alternate",
            Self::GateWithoutLock => "I5 an open gate has its lock",
            Self::Stuck => "I6 a leader serves when faults end",
            Self::BusyWait => "I8 no timer fires for ever",
            Self::KeptLockTaken => "a lock that is kept for a successor goes to no other node",
            Self::HeldBackCampaigns => "a node that is held back does not campaign",
        }
    }
}

impl Budget {
    pub(crate) const NOTHING: Self = Self {
        crash: 0,
        pause: 0,
        cut: 0,
        lost: 0,
        slow: 0,
        late: 0,
        hint: 0,
        demote: 0,
        fail: 0,
        transfer: 0,
        hold_back: 0,
        peers: 0,
        unready: 0,
        admit: 0,
        vanish: 0,
        flush: 0,
        flush_low: 0,
        restore: 0,
        lie: 0,
    };
}

impl State {
    pub(crate) fn new(nodes: usize, left: Budget) -> Self {
        Self {
            nodes: (0..nodes).map(|id| Node::new(owner(id, 1))).collect(),
            lock: LockState::default(),
            older: LockState::default(),
            store: Fence::default(),
            strays: Vec::new(),
            left,
            ghost: Ghost::default(),
        }
    }

    pub(crate) fn broken(&mut self, broken: Broken) {
        self.ghost.broken.get_or_insert(broken);
    }

    /// One step of time.
    pub(crate) fn pass(&mut self) {
        let now = NOW + STEP;
        for node in &mut self.nodes {
            if let Some(core) = &mut node.core {
                core.make_canonical(now, NOW);
            }
            node.nap = node.nap.map(|left| left - 1);
            node.wake = back(node.wake);
            node.gate.deadline = back(node.gate.deadline);
            node.drain = node.drain.map(|(epoch, until)| (epoch, back(until)));
            for call in &mut node.calls {
                call.sent = call.sent - STEP;
            }
        }
        for lock in [&mut self.lock, &mut self.older] {
            if let Some(reign) = &mut lock.reign {
                reign.ends = back(reign.ends);
                if let Phase::Released { reserved } = &mut reign.phase {
                    *reserved = keep(reserved.take());
                }
            }
        }
        self.ghost.kept_for = keep(self.ghost.kept_for.take());
    }
}

/// What is kept one step longer; nothing when that is too long.
fn keep(kept: Option<(NodeId, Moment)>) -> Option<(NodeId, Moment)> {
    let (node, until) = kept?;
    let until = back(until);
    (until > NOW).then_some((node, until))
}

/// One step nearer; what has passed stays where it is.
fn back(moment: Moment) -> Moment {
    if moment == Moment::NEVER {
        return moment;
    }
    NOW + (NOW + STEP).until(moment)
}

impl Node {
    pub(crate) fn new(owner: Owner) -> Self {
        let mut core = Core::new(settings(), owner.clone(), NOW);
        core.make_canonical(NOW, NOW);
        Self {
            core: Some(core),
            owner,
            wake: NOW,
            nap: None,
            cut: false,
            calls: Vec::new(),
            gate: Gate::SHUT,
            worker: Worker::Idle,
            drain: None,
            probing: false,
            admitted: None,
            held_back: false,
            ready: true,
            handing_to: None,
            led: Epoch::ZERO,
            mark: false,
        }
    }

    /// The process is gone.
    pub(crate) fn die(&mut self) {
        let owner = self.owner.clone();
        *self = Self {
            core: None,
            wake: Moment::NEVER,
            ..Self::new(owner)
        };
    }

    pub(crate) fn is_up(&self) -> bool {
        self.core.is_some()
    }

    /// The epoch whose lock the core believes to hold.
    pub(crate) fn held(&self) -> Option<Epoch> {
        self.core.as_ref()?.view().epoch
    }
}

impl Gate {
    pub(crate) const SHUT: Self = Self {
        epoch: Epoch::ZERO,
        admit: false,
        serve: false,
        deadline: NOW,
    };
}

/// The `life`-th life of a node.
pub(crate) fn owner(id: usize, life: u128) -> Owner {
    let names = ["a", "b", "c"];
    Owner {
        node: names[id].parse().unwrap(),
        incarnation: Incarnation::from_bits(id as u128 * 100 + life),
    }
}

pub(crate) fn settings() -> Settings {
    let mut settings = Settings::new(LEASE, STEP);
    settings.call_timeout = CALL;
    settings.drain = STEP;
    settings.yield_after_demote = STEP;
    settings.cooldown = STEP;
    settings.reservation = STEP;
    settings.deference = STEP;
    settings.peers_max_age = 2 * STEP;
    // Losses are remembered for minutes: no search would end.
    settings.damp_after = None;
    settings
}
