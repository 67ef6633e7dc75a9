//! Which blocks clients ask for: a few that all of them write at the same time, and then others.

use kvcm_check::Key;

/// Keys that come into use together.
const GROUP: u64 = 12;
/// How long a group is the newest, in nanoseconds.
const PERIOD: u64 = 400_000_000;
/// How many of the newest groups are written.
const HOT: u64 = 3;

/// The keys of a run, by the time since its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    start: u64,
}

impl Keys {
    pub(super) fn new(start: u64) -> Self {
        Self { start }
    }

    /// Some neighbours of a group that is written now.
    pub(super) fn hot(self, now: u64, random: &mut fastrand::Rng) -> Vec<Key> {
        let newest = self.newest(now);
        let group = newest.saturating_sub(random.u64(..HOT));
        some_of(group, random)
    }

    /// Some neighbours of a group of any age.
    pub(super) fn cold(self, now: u64, random: &mut fastrand::Rng) -> Vec<Key> {
        some_of(random.u64(..=self.newest(now)), random)
    }

    /// All groups so far.
    pub(super) fn all(self, now: u64) -> impl Iterator<Item = Vec<Key>> {
        (0..=self.newest(now)).map(|group| (0..GROUP).map(|place| key(group, place)).collect())
    }

    fn newest(self, now: u64) -> u64 {
        now.saturating_sub(self.start) / PERIOD
    }
}

fn some_of(group: u64, random: &mut fastrand::Rng) -> Vec<Key> {
    let first = random.u64(..GROUP);
    let count = random.u64(1..=5);
    (first..GROUP.min(first + count))
        .map(|place| key(group, place))
        .collect()
}

fn key(group: u64, place: u64) -> Key {
    // Spread, as hashes are.
    let number = group * 1000 + place + 1;
    Key::from_ne_bytes(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_ne_bytes())
}
