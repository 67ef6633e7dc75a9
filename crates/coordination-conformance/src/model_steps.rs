//! What happens in a random history.

use coordination_core::Expect;
use proptest::{collection::vec, option, prelude::*, sample::select};

/// The nodes of the four processes; the first two are lives of one node.
pub(crate) const NODES: [&str; 4] = ["n1", "n1", "n10", "n2"];
/// The keys of values; the first is the prefix that is listed.
pub(crate) const KEYS: [&str; 3] = ["v", "v/1", "w"];

/// One step of a history. Times are milliseconds, processes and keys are indices.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Elapse(u64),
    /// A process ends; its node starts again in a new life.
    Die {
        who: usize,
    },
    TryLock {
        who: usize,
        ttl: u64,
        /// Above the last epoch.
        floor: u64,
        info: &'static str,
        presume: Presume,
    },
    Renew {
        who: usize,
        epoch: EpochOf,
        ttl: u64,
        info: &'static str,
    },
    Unlock {
        who: usize,
        epoch: EpochOf,
        /// The process for whose node the lock is kept, and how long.
        keep: Option<(usize, u64)>,
    },
    Holder {
        who: usize,
    },
    Set {
        who: usize,
        key: usize,
        text: &'static str,
        ttl: Option<u64>,
        expect: ExpectOf,
    },
    Get {
        who: usize,
        key: usize,
    },
    Delete {
        who: usize,
        key: usize,
        expect: ExpectOf,
    },
    List {
        who: usize,
    },
}

/// Whom a contender presumes dead.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Presume {
    Nobody,
    /// The holder, if its process has ended.
    Dead,
    OlderEpoch,
    OtherLife,
}

/// Which epoch a caller believes in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EpochOf {
    Last,
    Older,
}

/// What a caller expects of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExpectOf {
    Any,
    Absent,
    Present,
    Stale,
}

impl ExpectOf {
    /// The argument, when the value has `version`.
    pub(crate) fn of(self, version: Option<u64>) -> Expect {
        match self {
            Self::Any => Expect::Any,
            Self::Absent => Expect::Absent,
            Self::Present => Expect::Version(version.unwrap_or(1)),
            Self::Stale => Expect::Version(version.unwrap_or(1).saturating_sub(1)),
        }
    }

    /// Whether the value is as expected.
    pub(crate) fn holds(expect: Expect, version: Option<u64>) -> bool {
        match expect {
            Expect::Any => true,
            Expect::Absent => version.is_none(),
            Expect::Version(version_expected) => version == Some(version_expected),
        }
    }
}

/// A history.
pub(crate) fn history() -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 1..60)
}

fn step() -> impl Strategy<Value = Step> {
    let who = || 0..NODES.len();
    let key = || 0..KEYS.len();
    let ms = || select(vec![1u64, 20, 300, 5000]);
    let text = || select(vec!["", "x", "serving"]);
    let epoch = || prop_oneof![4 => Just(EpochOf::Last), 1 => Just(EpochOf::Older)];
    let expect = || {
        select(vec![
            ExpectOf::Any,
            ExpectOf::Absent,
            ExpectOf::Present,
            ExpectOf::Stale,
        ])
    };
    let floor = prop_oneof![4 => Just(0u64), 1 => 1u64..1000];
    let presume = prop_oneof![
        2 => Just(Presume::Nobody),
        3 => Just(Presume::Dead),
        1 => Just(Presume::OlderEpoch),
        1 => Just(Presume::OtherLife),
    ];
    prop_oneof![
        4 => ms().prop_map(Step::Elapse),
        2 => who().prop_map(|who| Step::Die { who }),
        8 => (who(), ms(), floor, text(), presume).prop_map(|(who, ttl, floor, info, presume)| {
            Step::TryLock { who, ttl, floor, info, presume }
        }),
        4 => (who(), epoch(), ms(), text())
            .prop_map(|(who, epoch, ttl, info)| Step::Renew { who, epoch, ttl, info }),
        4 => (who(), epoch(), option::of((who(), ms())))
            .prop_map(|(who, epoch, keep)| Step::Unlock { who, epoch, keep }),
        1 => who().prop_map(|who| Step::Holder { who }),
        4 => (who(), key(), text(), option::of(ms()), expect()).prop_map(
            |(who, key, text, ttl, expect)| Step::Set { who, key, text, ttl, expect }
        ),
        2 => (who(), key()).prop_map(|(who, key)| Step::Get { who, key }),
        2 => (who(), key(), expect()).prop_map(|(who, key, expect)| {
            Step::Delete { who, key, expect }
        }),
        1 => who().prop_map(|who| Step::List { who }),
    ]
}
