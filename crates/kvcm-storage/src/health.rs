//! Whether a storage takes blocks, as its probes and its calls found.

use std::{
    fmt, io,
    sync::atomic::{AtomicU8, Ordering},
};

use parking_lot::Mutex;
use rustix::io::Errno;

/// Probes in a row that must fail before a storage that worked counts as down.
const DOWN_AFTER: u32 = 3;
/// Probes in a row that must succeed before a storage that was down counts as up.
const UP_AFTER: u32 = 2;

/// What a storage is good for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Neither for new blocks nor for reading.
    Down,
    /// For reading only.
    Readable,
    /// For everything.
    Up,
}

/// What is wrong with a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It has not been looked at yet, and is to be before it is used.
    Unproven,
    /// It does not answer in time.
    Hung,
    /// It is not there: no such directory, not mounted, connection lost.
    Missing,
    /// There is too little room, or too few files may be made.
    Full,
    /// It may only be read.
    ReadOnly,
    /// Anything else.
    Failing,
}

/// Something that is wrong, with what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What kind it is.
    pub reason: Reason,
    /// What was seen, with the path.
    pub detail: String,
}

/// That a storage has become good for more or less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) to: Level,
    pub(crate) problem: Option<Problem>,
}

/// The state, with hysteresis: one hiccup neither takes a storage away nor gives it back.
#[derive(Debug)]
pub(crate) struct Health {
    /// The state's level, to be read often.
    level: AtomicU8,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Any probe has succeeded. Before, the first finding counts at once.
    proven: bool,
    failures: u32,
    successes: u32,
    /// Why it is not up.
    problem: Option<Problem>,
    /// How often it ceased to be up.
    times_down: u64,
}

// === impl Reason ===

impl Reason {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Unproven,
        Self::Hung,
        Self::Missing,
        Self::Full,
        Self::ReadOnly,
        Self::Failing,
    ];

    /// The word for logs and labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unproven => "unproven",
            Self::Hung => "hung",
            Self::Missing => "missing",
            Self::Full => "full",
            Self::ReadOnly => "read_only",
            Self::Failing => "failing",
        }
    }

    /// What an error of the file system means.
    pub(crate) fn of(error: &io::Error) -> Self {
        match Errno::from_io_error(error) {
            Some(Errno::NOSPC | Errno::DQUOT) => Self::Full,
            Some(Errno::ROFS) => Self::ReadOnly,
            // A FUSE file system whose process has ended is not connected.
            Some(Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::NODEV | Errno::NOTCONN) => {
                Self::Missing
            }
            Some(Errno::TIMEDOUT) => Self::Hung,
            _ if error.kind() == io::ErrorKind::NotFound => Self::Missing,
            _ => Self::Failing,
        }
    }

    /// Whether it is certain at once, and no hiccup.
    const fn is_certain(self) -> bool {
        matches!(self, Self::Full | Self::ReadOnly)
    }

    const fn level(self) -> Level {
        match self {
            Self::Unproven | Self::Full | Self::ReadOnly => Level::Readable,
            Self::Hung | Self::Missing | Self::Failing => Level::Down,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.as_str(), self.detail)
    }
}

// === impl Health ===

impl Health {
    /// Nothing was found yet: it is up.
    pub(crate) fn new() -> Self {
        Self {
            level: AtomicU8::new(Level::Up as u8),
            state: Mutex::new(State {
                proven: false,
                failures: 0,
                successes: 0,
                problem: None,
                times_down: 0,
            }),
        }
    }

    pub(crate) fn level(&self) -> Level {
        match self.level.load(Ordering::Acquire) {
            0 => Level::Down,
            1 => Level::Readable,
            _ => Level::Up,
        }
    }

    /// Why it is not up.
    pub(crate) fn problem(&self) -> Option<Problem> {
        self.state.lock().problem.clone()
    }

    /// How often it ceased to be up.
    pub(crate) fn times_down(&self) -> u64 {
        self.state.lock().times_down
    }

    /// It takes no blocks until a probe succeeds, when none has yet.
    pub(crate) fn require_proof(&self) {
        let mut state = self.state.lock();
        if !state.proven && state.problem.is_none() {
            state.problem = Some(Problem {
                reason: Reason::Unproven,
                detail: "its first check has not ended".to_owned(),
            });
            self.level.store(Level::Readable as u8, Ordering::Release);
        }
    }

    /// A probe succeeded.
    pub(crate) fn succeeded(&self) -> Option<Change> {
        let mut state = self.state.lock();
        let first = !std::mem::replace(&mut state.proven, true);
        state.failures = 0;
        state.successes = state.successes.saturating_add(1);
        let was = state.problem.as_ref()?;
        if state.successes < UP_AFTER && !(first && was.reason == Reason::Unproven) {
            return None;
        }
        state.problem = None;
        self.level.store(Level::Up as u8, Ordering::Release);
        Some(Change {
            to: Level::Up,
            problem: None,
        })
    }

    /// A probe or a call failed. What is `certain` counts at once.
    pub(crate) fn failed(&self, problem: Problem, certain: bool) -> Option<Change> {
        let mut state = self.state.lock();
        state.successes = 0;
        state.failures = state.failures.saturating_add(1);
        let at_once = certain || problem.reason.is_certain() || !state.proven;
        if state.problem.is_none() && !at_once && state.failures < DOWN_AFTER {
            return None;
        }
        // One that is down already goes by what was found last.
        let (was, to) = (self.level(), problem.reason.level());
        self.level.store(to as u8, Ordering::Release);
        let former = state.problem.replace(problem.clone());
        state.times_down += u64::from(former.is_none());
        let same = former.is_some_and(|former| former.reason == problem.reason);
        (was != to || !same).then_some(Change {
            to,
            problem: Some(problem),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn problem(reason: Reason) -> Problem {
        Problem {
            reason,
            detail: "d".to_owned(),
        }
    }

    fn hung() -> Problem {
        problem(Reason::Hung)
    }

    fn proven() -> Health {
        let health = Health::new();
        assert_eq!(health.succeeded(), None);
        health
    }

    #[test]
    fn three_failures_in_a_row_take_it_down_and_two_successes_bring_it_back() {
        let health = proven();
        for _ in 0..5 {
            assert_eq!(health.failed(hung(), false), None);
            assert_eq!(health.failed(hung(), false), None);
            assert_eq!(health.succeeded(), None);
        }
        assert_eq!(health.failed(hung(), false), None);
        assert_eq!(health.failed(hung(), false), None);
        assert_eq!(health.level(), Level::Up);
        let change = health.failed(hung(), false).unwrap();
        assert_eq!((change.to, health.level()), (Level::Down, Level::Down));
        assert_eq!(health.failed(hung(), false), None, "told once");
        assert_eq!(health.problem(), Some(hung()));

        for _ in 0..5 {
            assert_eq!(health.succeeded(), None);
            assert_eq!(health.failed(hung(), false), None);
        }
        assert_eq!(health.succeeded(), None);
        assert_eq!(health.level(), Level::Down);
        assert_eq!(health.succeeded().unwrap().to, Level::Up);
        assert_eq!((health.level(), health.problem()), (Level::Up, None));
    }

    #[test]
    fn a_full_or_read_only_one_takes_no_blocks_at_once_and_stays_readable() {
        for reason in [Reason::Full, Reason::ReadOnly] {
            let health = proven();
            let change = health.failed(problem(reason), false).unwrap();
            assert_eq!(
                (change.to, health.level()),
                (Level::Readable, Level::Readable)
            );
            assert_eq!(health.succeeded(), None);
            assert_eq!(health.succeeded().unwrap().to, Level::Up);
        }
    }

    #[test]
    fn one_that_is_down_goes_by_what_was_found_last() {
        let health = proven();
        health.failed(hung(), true).unwrap();
        let full = problem(Reason::Full);
        assert_eq!(health.failed(full, false).unwrap().to, Level::Readable);
        assert_eq!(health.failed(hung(), false).unwrap().to, Level::Down);
    }

    #[test]
    fn the_first_finding_counts_at_once() {
        let health = Health::new();
        assert_eq!(health.level(), Level::Up);
        assert_eq!(health.failed(hung(), false).unwrap().to, Level::Down);

        let health = Health::new();
        health.require_proof();
        assert_eq!(health.level(), Level::Readable);
        assert_eq!(health.succeeded().unwrap().to, Level::Up);
        health.require_proof();
        assert_eq!(health.level(), Level::Up, "it is proven");
    }

    #[test]
    fn errors_of_file_systems_have_their_meaning() {
        let of = |errno: Errno| Reason::of(&errno.into());
        assert_eq!(of(Errno::NOSPC), Reason::Full);
        assert_eq!(of(Errno::DQUOT), Reason::Full);
        assert_eq!(of(Errno::ROFS), Reason::ReadOnly);
        assert_eq!(of(Errno::NOTCONN), Reason::Missing);
        assert_eq!(of(Errno::STALE), Reason::Missing);
        assert_eq!(of(Errno::ACCESS), Reason::Failing);
        let made_up = io::Error::new(io::ErrorKind::NotFound, "gone");
        assert_eq!(Reason::of(&made_up), Reason::Missing);
    }

    proptest! {
        #[test]
        fn the_level_is_that_of_the_problem(findings: Vec<Option<u8>>) {
            let health = Health::new();
            let mut level = health.level();
            for finding in findings {
                let reasons = [Reason::Hung, Reason::Missing, Reason::Full, Reason::Failing];
                let change = match finding {
                    None => health.succeeded(),
                    Some(at) => {
                        let reason = reasons[usize::from(at) % reasons.len()];
                        health.failed(problem(reason), false)
                    }
                };
                if let Some(change) = change {
                    level = change.to;
                }
                prop_assert_eq!(health.level(), level, "each change is told");
                let found = health.problem();
                let expected = found.map_or(Level::Up, |problem| problem.reason.level());
                prop_assert_eq!(level, expected);
            }
        }
    }
}
