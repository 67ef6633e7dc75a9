//! What many runs add up to.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{
    check::{Race, Verdict, Violation},
    fault::Fault,
};

/// The share of calls that must have been answered, chaos included.
const ANSWERED_MIN: f64 = 0.5;

/// Reigns that a run must have on average.
const REIGNS_MIN: f64 = 3.0;

/// The sum of many runs.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Runs.
    pub seeds: u64,
    /// Virtual time of all of them.
    pub simulated: Duration,
    /// Faults that had an effect.
    pub faults: BTreeMap<Fault, u64>,
    /// Races that came about.
    pub races: BTreeMap<Race, u64>,
    /// Reigns that served.
    pub reigns: u64,
    /// Locks won after an end that nobody could vouch for.
    pub unproven: u64,
    /// Calls of clients.
    pub calls: u64,
    /// Those that were answered.
    pub answered: u64,
    /// How often one process was given the lock within a tenth of a lease, at most.
    pub busiest: u64,
    /// The longest time from the end of all faults to an answer.
    pub slowest_heal: Duration,
    /// What was broken, by seed.
    pub violations: Vec<(u64, Violation)>,
}

impl Report {
    /// Adds a run.
    pub fn add(&mut self, seed: u64, simulated: Duration, verdict: Verdict) {
        self.seeds += 1;
        self.simulated += simulated;
        for (fault, count) in verdict.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        for (race, count) in verdict.races {
            *self.races.entry(race).or_default() += count;
        }
        self.reigns += verdict.reigns;
        self.unproven += verdict.unproven;
        self.calls += verdict.calls;
        self.answered += verdict.answered;
        self.busiest = self.busiest.max(verdict.busiest);
        let heal = Duration::from_nanos(verdict.healed_after.unwrap_or(0));
        self.slowest_heal = self.slowest_heal.max(heal);
        let violations = verdict.violations.into_iter();
        self.violations
            .extend(violations.map(|violation| (seed, violation)));
    }

    /// What the runs together lack: faults and races that never came about, answers, reigns.
    pub fn lacks(&self) -> Vec<String> {
        let mut lacks = Vec::new();
        for fault in Fault::ALL
            .iter()
            .filter(|fault| !self.faults.contains_key(fault))
        {
            lacks.push(format!("fault {fault:?} never came about"));
        }
        for race in Race::ALL
            .iter()
            .filter(|race| !self.races.contains_key(race))
        {
            lacks.push(format!("race {race:?} never came about"));
        }
        let share = self.answered as f64 / self.calls.max(1) as f64;
        if share < ANSWERED_MIN {
            lacks.push(format!("{:.0} % of the calls were answered", 100.0 * share));
        }
        let reigns = self.reigns as f64 / self.seeds.max(1) as f64;
        if reigns < REIGNS_MIN {
            lacks.push(format!("{reigns:.1} reigns per run"));
        }
        lacks
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.simulated.as_secs_f64() / 3600.0;
        let share = 100.0 * self.answered as f64 / self.calls.max(1) as f64;
        writeln!(f, "{} seeds, {hours:.2} simulated hours", self.seeds)?;
        writeln!(f, "{} reigns, {} unproven ends", self.reigns, self.unproven)?;
        writeln!(f, "{} calls, {share:.1} % answered", self.calls)?;
        writeln!(f, "slowest recovery {} ms", self.slowest_heal.as_millis())?;
        writeln!(
            f,
            "a process was given the lock {} times within a tenth of a lease at most",
            self.busiest
        )?;
        writeln!(f, "faults:")?;
        for fault in Fault::ALL {
            let count = self.faults.get(fault).copied().unwrap_or(0);
            writeln!(f, "  {count:>9}  {fault:?}")?;
        }
        writeln!(f, "races:")?;
        for race in Race::ALL {
            let count = self.races.get(race).copied().unwrap_or(0);
            writeln!(f, "  {count:>9}  {race:?}")?;
        }
        write!(f, "violations: {}", self.violations.len())
    }
}
