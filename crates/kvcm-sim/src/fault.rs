//! What goes wrong on purpose, by name.

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// The coordination backend refuses everything.
    BackendDown,
    /// It does nothing for a while and then performs what has piled up.
    BackendHung,
    /// It takes long.
    BackendSlow,
    /// A request to it is lost.
    BackendRequestLost,
    /// It did what it was asked for, and the answer is lost.
    BackendAnswerLost,
    /// A command arrives long after its caller has given up.
    BackendCommandLate,
    /// A command arrives a second time, later.
    BackendCommandTwice,
    /// It loses all data.
    DataLost,
    /// It loses all data, and its wall clock is behind its former epochs.
    DataLostClockBehind,
    /// It loses its epoch counter alone.
    CounterLost,
    /// It goes back to an older state.
    DataRolledBack,
    /// Somebody deletes the lock under its holder.
    HolderForgotten,
    /// Somebody takes the time to live from the lock.
    TtlRemoved,
    /// The kernel proves the death of a holder.
    DeathProven,
    /// A process is killed and begins a new life under the same node id.
    Crash,
    /// A process is killed and another node takes its place.
    Replaced,
    /// A process is stopped in good order and started again.
    Restarted,
    /// A process does not run for a while.
    Pause,
    /// The timers of a process are late.
    LateTimers,
    /// A node and the coordination backend do not reach each other.
    BackendCut,
    /// A node reaches the coordination backend and hears nothing from it.
    BackendCutOneWay,
    /// A node and the stores do not reach each other.
    StoreCut,
    /// A node and the clients do not reach each other.
    ClientsCut,
    /// A node hears clients, and they do not hear it.
    ClientsCutOneWay,
    /// Packets are lost here and there.
    PacketsLost,
    /// Packets take long here and there.
    PacketsDelayed,
    /// Requests of clients arrive twice.
    PacketsTwice,
    /// A store refuses everything.
    StoreDown,
    /// A store does nothing for a while and then performs what has piled up.
    StoreHung,
    /// A store takes long.
    StoreSlow,
    /// A request to a store is lost.
    StoreRequestLost,
    /// A store did what it was asked for, and the answer is lost.
    StoreAnswerLost,
    /// A command arrives at a store long after its caller has given up.
    StoreCommandLate,
    /// A command arrives at a store a second time, later.
    StoreCommandTwice,
    /// The promote callback takes long.
    PromoteSlow,
    /// It fails.
    PromoteFails,
    /// It panics.
    PromotePanics,
    /// It makes no progress until it is cancelled.
    PromoteHangs,
    /// It goes on after it was cancelled.
    PromoteIgnoresCancel,
    /// The demote callback takes long.
    DemoteSlow,
    /// What a drain waits for takes long.
    DrainSlow,
    /// An operator asks the leader to step down.
    DemoteAsked,
    /// An operator sets how long a node stays out after that.
    ForbidSet,
    /// An operator hands the lock over to a named node.
    TransferAsked,
    /// And takes it back, sooner or later.
    TransferCancelled,
    /// The successor of a transfer is killed, before the release or under its reservation.
    SuccessorDies,
    /// The successor of a transfer can no longer serve.
    SuccessorUnready,
    /// While a transfer drains its lock vanishes, its node is cut off or does not run, or an
    /// operator demands a step-down.
    TransferCrossed,
    /// Stores hang, so that requests are in flight for long, when a transfer begins.
    TransferStuck,
    /// An operator keeps a node out of the race for a while, if it does not lead.
    KeptOut,
    /// An operator makes a leader step down and keeps it out of the race for a while.
    DemotedAndKeptOut,
    /// A node cannot serve for a while, by its own word.
    NotReady,
    /// A node's view of the others stands still.
    PeersStale,
    /// A node's view of the others is wrong: the dead live, the living are dead or not ready.
    PeersWrong,
    /// A store loses its fence.
    FenceLost,
    /// The lock vanishes when it was just won or a promotion has just begun, and a second copy of
    /// the command that won it arrives while callbacks run.
    AmbushPromotion,
    /// The lock vanishes while its holder is cut off from the backend.
    AmbushLeader,
    /// A process begins and finds an empty backend, while a leader that is cut off from it serves.
    AmbushStart,
}

impl Fault {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::BackendDown,
        Self::BackendHung,
        Self::BackendSlow,
        Self::BackendRequestLost,
        Self::BackendAnswerLost,
        Self::BackendCommandLate,
        Self::BackendCommandTwice,
        Self::DataLost,
        Self::DataLostClockBehind,
        Self::CounterLost,
        Self::DataRolledBack,
        Self::HolderForgotten,
        Self::TtlRemoved,
        Self::DeathProven,
        Self::Crash,
        Self::Replaced,
        Self::Restarted,
        Self::Pause,
        Self::LateTimers,
        Self::BackendCut,
        Self::BackendCutOneWay,
        Self::StoreCut,
        Self::ClientsCut,
        Self::ClientsCutOneWay,
        Self::PacketsLost,
        Self::PacketsDelayed,
        Self::PacketsTwice,
        Self::StoreDown,
        Self::StoreHung,
        Self::StoreSlow,
        Self::StoreRequestLost,
        Self::StoreAnswerLost,
        Self::StoreCommandLate,
        Self::StoreCommandTwice,
        Self::PromoteSlow,
        Self::PromoteFails,
        Self::PromotePanics,
        Self::PromoteHangs,
        Self::PromoteIgnoresCancel,
        Self::DemoteSlow,
        Self::DrainSlow,
        Self::DemoteAsked,
        Self::ForbidSet,
        Self::TransferAsked,
        Self::TransferCancelled,
        Self::SuccessorDies,
        Self::SuccessorUnready,
        Self::TransferCrossed,
        Self::TransferStuck,
        Self::KeptOut,
        Self::DemotedAndKeptOut,
        Self::NotReady,
        Self::PeersStale,
        Self::PeersWrong,
        Self::FenceLost,
        Self::AmbushPromotion,
        Self::AmbushLeader,
        Self::AmbushStart,
    ];
}
