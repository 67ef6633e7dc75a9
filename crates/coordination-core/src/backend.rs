//! The contract.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use kvcm_clock::Moment;
use kvcm_fence::Epoch;

use crate::{
    DeleteOutcome, Error, Expect, HintStream, Holder, LockOutcome, Owner, RenewOutcome,
    Reservation, SetOutcome, TryLock, UnlockOutcome, Value,
};

/// What several processes share to agree on one leader.
///
/// To ensure correctness, for every operation:
///
/// - It is one atomic step at the backend, and returns by `deadline` (a moment of the clock that
///   the backend was built with) whatever the backend's server, disk or peers do; when the
///   deadline passes the result is [`Error::Unavailable`] with the outcome that is known.
/// - It is cancel-safe: dropping the future leaves the operation done or not done, never half.
/// - Owner **and** incarnation **and** epoch are compared, exactly. A lock held by another life of
///   the same node is held by another.
/// - No wall clock decides anything, but for the start of a lost epoch counter (`try_lock`).
/// - Unreadable is not free: damage is [`Error::Unavailable`] or set aside and reported; it never
///   gives the lock away.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// What it is and where, without secrets: for logs and status.
    fn describe(&self) -> String;

    /// Takes the lock when it is free, expired, reserved for the caller, or held by the life that
    /// the caller proves dead.
    ///
    /// The epoch is minted in the same step: `max(stored counter, floor) + 1`. A counter that is
    /// missing starts at `max(floor, the backend's wall-clock milliseconds)`, so that a backend
    /// that lost its data still mints higher. The counter survives release and expiry.
    ///
    /// The holder itself gets the lock again with the same epoch and a new lease
    /// ([`Acquired::repeated`](crate::Acquired::repeated)) and the same `previous` as the first
    /// time. Taking a reserved lock ends the reservation. A lock without a time to live
    /// (somebody's hand, a failed command) gets `ttl` from the first contender, which reports it
    /// as held.
    async fn try_lock(&self, request: TryLock<'_>, deadline: Moment) -> Result<LockOutcome, Error>;

    /// Starts the lease anew and replaces `info`, when the caller holds the lock in `epoch` and
    /// its lease has not ended. A changed `info` wakes watchers.
    async fn renew_lock(
        &self,
        key: &str,
        owner: &Owner,
        epoch: Epoch,
        ttl: Duration,
        info: &str,
        deadline: Moment,
    ) -> Result<RenewOutcome, Error>;

    /// Frees the lock when the caller holds it in `epoch`, and wakes watchers. With `reserve_for`
    /// only that node can acquire it for a while.
    async fn unlock(
        &self,
        key: &str,
        owner: &Owner,
        epoch: Epoch,
        reserve_for: Option<&Reservation>,
        deadline: Moment,
    ) -> Result<UnlockOutcome, Error>;

    /// Who holds the lock, or none when it is free, expired or reserved.
    async fn lock_holder(&self, key: &str, deadline: Moment) -> Result<Option<Holder>, Error>;

    /// Stores a value when `expect` holds. With `ttl` it vanishes unless it is set again in time.
    async fn set_value(
        &self,
        key: &str,
        text: &str,
        ttl: Option<Duration>,
        expect: Expect,
        deadline: Moment,
    ) -> Result<SetOutcome, Error>;

    /// The value under `key`, or none when there is none or it has expired.
    async fn get_value(&self, key: &str, deadline: Moment) -> Result<Option<Value>, Error>;

    /// Deletes the value under `key` when `expect` holds.
    async fn delete_value(
        &self,
        key: &str,
        expect: Expect,
        deadline: Moment,
    ) -> Result<DeleteOutcome, Error>;

    /// All values whose key starts with `prefix`, in the order of their keys. Not one snapshot:
    /// each value is one that its key had during the call.
    async fn list_values(
        &self,
        prefix: &str,
        deadline: Moment,
    ) -> Result<Vec<(String, Value)>, Error>;

    /// Hints about the lock `key`. Lossy: a caller polls as well.
    fn watch(&self, key: &str) -> HintStream;
}
