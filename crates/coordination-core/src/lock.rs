//! What the lock operations take and return.

use std::time::Duration;

use kvcm_fence::{Epoch, Incarnation};

use crate::{NodeId, Owner};

/// The arguments of [`Backend::try_lock`](crate::Backend::try_lock).
#[derive(Clone, Debug)]
pub struct TryLock<'a> {
    /// The lock: 1 to 255 bytes without control characters.
    pub key: &'a str,
    /// Who wants it.
    pub owner: &'a Owner,
    /// How long it stays without renewal; at least 1 ms.
    pub ttl: Duration,
    /// The highest epoch that the caller has seen anywhere: the new one will be higher.
    pub floor: Epoch,
    /// Stored with the lock, for [`Holder::info`].
    pub info: &'a str,
    /// The caller has proof that this life of the holder has ended: if the lock is still held by
    /// exactly this incarnation in this epoch, it is taken over now instead of after its lease.
    pub presumed_dead: Option<(Incarnation, Epoch)>,
}

/// The answer of [`Backend::try_lock`](crate::Backend::try_lock).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LockOutcome {
    /// The caller holds the lock.
    Acquired(Acquired),
    /// Another holds it.
    Held(Holder),
    /// Nobody holds it, but the last holder left it to another node for a while.
    Reserved(Reserved),
}

/// A lock that the caller holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquired {
    /// The epoch of the new reign.
    pub epoch: Epoch,
    /// The reign before it, or none when the backend has no record at all.
    pub previous: Option<Previous>,
    /// The caller held it already (an earlier answer was lost, for instance): the epoch is the
    /// same as then, the lease starts anew.
    pub repeated: bool,
}

/// A reign that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Previous {
    /// Who led.
    pub owner: Owner,
    /// Its epoch.
    pub epoch: Epoch,
    /// How it ended.
    pub end: ReignEnd,
    /// What may be left of its lease: not zero only when it was proven dead, or the end is unknown.
    pub lease_left: Duration,
}

/// How a reign ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReignEnd {
    /// Its owner released the lock.
    Released,
    /// Its lease ran out by the backend's own record.
    Expired,
    /// The caller proved that its process is dead.
    Dead,
    /// The backend cannot vouch for any of these: its record may have gone back in time (another
    /// boot, another server, lost data). The owner may still believe that it leads.
    Unknown,
}

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The owner.
    pub owner: Owner,
    /// The epoch of its reign.
    pub epoch: Epoch,
    /// What it stored with the lock, in the same atomic step.
    pub info: String,
    /// Until its lease ends. Never an absolute time: clocks of hosts differ.
    pub remaining: Duration,
}

/// A lock that is kept free for one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reserved {
    /// Who may take it.
    pub node: NodeId,
    /// How long it is kept.
    pub remaining: Duration,
    /// The epoch of the reign that ended.
    pub epoch: Epoch,
}

/// A wish that a released lock be kept for one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// The only node that can acquire the lock for a while.
    pub node: NodeId,
    /// How long; after it the lock is free for all.
    pub duration: Duration,
}

/// The answer of [`Backend::renew_lock`](crate::Backend::renew_lock).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RenewOutcome {
    /// The lease starts anew.
    Renewed,
    /// Nobody holds the lock, or its lease has ended: the caller has lost it.
    NotHeld,
    /// Another owner, incarnation or epoch holds it: the caller has lost it.
    HeldByOther(Holder),
}

/// The answer of [`Backend::unlock`](crate::Backend::unlock).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UnlockOutcome {
    /// The lock is free, and waiters are woken.
    Unlocked,
    /// Nobody held it.
    NotHeld,
    /// Another owner, incarnation or epoch holds it; nothing was changed.
    HeldByOther(Holder),
}
