//! Many runs.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

use crate::{History, Mutant, Plan, Report, judge, run};

/// Many runs with one seed each.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The first seed.
    pub first: u64,
    /// How many.
    pub seeds: u64,
    /// How long things go wrong in each.
    pub chaos: Duration,
    /// What is broken on purpose.
    pub mutant: Mutant,
    /// Threads; a run needs one.
    pub jobs: usize,
}

impl Campaign {
    /// Runs all of them, shows each history and judges it.
    pub fn run(&self, show: impl Fn(&History) + Sync) -> Report {
        let next = AtomicU64::new(self.first);
        let total = Mutex::new(Report::default());
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.clamp(1, 64) {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Relaxed);
                        if seed >= self.first.saturating_add(self.seeds) {
                            return;
                        }
                        let (chaos, mutant) = (self.chaos, self.mutant);
                        let history = run(&Plan {
                            seed,
                            chaos,
                            mutant,
                        });
                        show(&history);
                        let verdict = judge(&history);
                        let simulated = Duration::from_nanos(history.end);
                        total.lock().add(seed, simulated, verdict);
                    }
                });
            }
        });
        let mut report = total.into_inner();
        report
            .violations
            .sort_by_key(|(seed, violation)| (*seed, violation.at));
        report
    }
}

/// The command that runs one seed again.
pub fn replay(seed: u64, chaos: Duration) -> String {
    let seconds = chaos.as_secs_f64();
    format!("cargo xtask sim --seed {seed} --virtual-seconds {seconds} --trace")
}
