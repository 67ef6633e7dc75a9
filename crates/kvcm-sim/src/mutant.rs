//! Ingredients that are broken on purpose: the checks must find each of them.

/// What is broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Mutant {
    /// Nothing.
    #[default]
    None,
    /// Stores do not look at their fence.
    StoreWithoutFence,
    /// Nodes serve by the role that they believe to have, not by the gate's deadline.
    GateWithoutDeadline,
    /// Clients take a new request id for each try.
    NewIdPerTry,
    /// A new leader does not know the requests of the reigns before.
    RequestsForgotten,
    /// Writes are acknowledged before the store has them.
    AcknowledgedEarly,
    /// A new leader reads the stores before it claims them.
    ReadBeforeClaim,
    /// The coordination backend mints the same epoch again and again.
    SameEpochAgain,
    /// The coordination backend gives the lock away before the lease has ended.
    LeaseCutShort,
    /// The coordination backend vouches for ends of which it knows nothing.
    FalseProof,
    /// A leader whose transfer was taken back lets nobody in again.
    AbortStaysShut,
    /// A leader whose transfer is cancelled lets everybody in again, although its lock is released.
    ReopensAfterUnlock,
    /// A node that was told to stay out of the race campaigns.
    PauseForgotten,
    /// The coordination backend keeps the lock for nobody. That breaks no promise.
    ReservationIgnored,
    /// What nodes know of each other is wrong all the time. That breaks no promise.
    PeersAlwaysWrong,
    /// Clients follow every hint, however old.
    OldHintsFollowed,
    /// Nodes answer no request.
    RefusesAll,
    /// Demote callbacks are run twice.
    DemotesTwice,
    /// The coordination backend takes the lock away from time to time, with nothing wrong.
    Restless,
    /// The coordination backend never recovers from its last fault.
    NeverHeals,
}
