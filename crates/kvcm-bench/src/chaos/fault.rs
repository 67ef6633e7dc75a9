//! What can go wrong.

use serde::Serialize;

use super::{Options, Store, links::Trouble, options::Backend};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Fault {
    KillLeader,
    KillFollower,
    KillAll,
    TermLeader,
    RollingRestart,
    StopLeader,
    StopFollower,
    Demote,
    Transfer,
    BackendKill,
    BackendStop,
    BackendEmpty,
    BackendFailOver,
    BackendReadOnly,
    BackendFull,
    ReplicaKill,
    ReplicaStop,
    CoordinationWiped,
    StoreWiped,
    DiskFull,
    DiskReadOnly,
    CutNodeFromClients,
    DeafenNode,
    MuteNode,
    CutNodeFromServers,
    CutNodeFromStore,
    CutNodeFromCoordination,
    DeafenServers,
    MuteServers,
    SlowLinks,
    StallLinks,
    ResetLinks,
    Swizzle,
    CpuHogs,
    FewFiles,
}

impl Fault {
    const ALL: [Self; 35] = [
        Self::KillLeader,
        Self::KillFollower,
        Self::KillAll,
        Self::TermLeader,
        Self::RollingRestart,
        Self::StopLeader,
        Self::StopFollower,
        Self::Demote,
        Self::Transfer,
        Self::BackendKill,
        Self::BackendStop,
        Self::BackendEmpty,
        Self::BackendFailOver,
        Self::BackendReadOnly,
        Self::BackendFull,
        Self::ReplicaKill,
        Self::ReplicaStop,
        Self::CoordinationWiped,
        Self::StoreWiped,
        Self::DiskFull,
        Self::DiskReadOnly,
        Self::CutNodeFromClients,
        Self::DeafenNode,
        Self::MuteNode,
        Self::CutNodeFromServers,
        Self::CutNodeFromStore,
        Self::CutNodeFromCoordination,
        Self::DeafenServers,
        Self::MuteServers,
        Self::SlowLinks,
        Self::StallLinks,
        Self::ResetLinks,
        Self::Swizzle,
        Self::CpuHogs,
        Self::FewFiles,
    ];

    /// Those that this run can have. `small_disk`: there is one that can be filled.
    pub(super) fn of(options: &Options, small_disk: bool) -> Vec<Self> {
        let redis = options.has_redis();
        let both = options.backend == Backend::Redis && options.store() == Store::Redis;
        let can = |fault: &Self| match fault {
            Self::BackendKill
            | Self::BackendStop
            | Self::BackendEmpty
            | Self::BackendFailOver
            | Self::BackendReadOnly
            | Self::BackendFull
            | Self::ReplicaKill
            | Self::ReplicaStop
            | Self::CutNodeFromServers
            | Self::DeafenServers
            | Self::MuteServers => redis,
            Self::CutNodeFromStore | Self::CutNodeFromCoordination => both,
            Self::CoordinationWiped => options.backend == Backend::File,
            Self::StoreWiped => options.store() == Store::Local,
            Self::DiskFull | Self::DiskReadOnly => options.has_files() && small_disk,
            _ => true,
        };
        let wanted = |fault: &Self| {
            let only = options.only.as_deref().unwrap_or_default();
            fault.as_str().contains(only)
        };
        Self::ALL.into_iter().filter(can).filter(wanted).collect()
    }

    /// How likely it is beside the others. Those that end a reign for sure come more often.
    pub(super) const fn weight(self) -> u32 {
        match self {
            Self::KillLeader | Self::StopLeader => 8,
            Self::TermLeader | Self::Demote | Self::Transfer | Self::CutNodeFromServers => 5,
            Self::RollingRestart | Self::KillAll | Self::BackendFailOver => 3,
            Self::StoreWiped | Self::BackendEmpty => 1,
            _ => 2,
        }
    }

    /// For people and tables.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::KillLeader => "kill -9 the leader",
            Self::KillFollower => "kill -9 a follower",
            Self::KillAll => "kill -9 all nodes",
            Self::TermLeader => "SIGTERM the leader",
            Self::RollingRestart => "rolling restart",
            Self::StopLeader => "SIGSTOP the leader",
            Self::StopFollower => "SIGSTOP a follower",
            Self::Demote => "demote the leader",
            Self::Transfer => "transfer the leadership",
            Self::BackendKill => "kill -9 redis",
            Self::BackendStop => "SIGSTOP redis",
            Self::BackendEmpty => "redis restarted empty",
            Self::BackendFailOver => "redis fail-over",
            Self::BackendReadOnly => "redis read-only",
            Self::BackendFull => "redis out of memory",
            Self::ReplicaKill => "kill -9 the replica",
            Self::ReplicaStop => "SIGSTOP the replica",
            Self::CoordinationWiped => "coordination removed",
            Self::StoreWiped => "store removed",
            Self::DiskFull => "disk full",
            Self::DiskReadOnly => "disk read-only",
            Self::CutNodeFromClients => "node cut from clients",
            Self::DeafenNode => "requests to node lost",
            Self::MuteNode => "answers of node lost",
            Self::CutNodeFromServers => "leader cut from redis",
            Self::CutNodeFromStore => "leader cut from store",
            Self::CutNodeFromCoordination => "leader cut from coordination",
            Self::DeafenServers => "requests to redis lost",
            Self::MuteServers => "answers of redis lost",
            Self::SlowLinks => "slow links",
            Self::StallLinks => "stalled links",
            Self::ResetLinks => "connections reset",
            Self::Swizzle => "swizzle",
            Self::CpuHogs => "cpu hogs",
            Self::FewFiles => "64 open files",
        }
    }

    /// What it does to links, if that is all it does.
    pub(super) const fn trouble(self) -> Option<Trouble> {
        Some(match self {
            Self::CutNodeFromClients
            | Self::CutNodeFromServers
            | Self::CutNodeFromStore
            | Self::CutNodeFromCoordination => Trouble::Cut,
            Self::DeafenNode | Self::DeafenServers => Trouble::Deaf,
            Self::MuteNode | Self::MuteServers => Trouble::Mute,
            Self::SlowLinks => Trouble::Slow,
            Self::StallLinks => Trouble::Stalled,
            _ => return None,
        })
    }
}
