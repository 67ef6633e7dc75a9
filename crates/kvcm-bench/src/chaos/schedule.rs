//! Which faults come, from one seed.

use std::time::Duration;

use serde::Serialize;

use super::fault::Fault;

/// One fault, and the calm after it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Step {
    pub(super) fault: Fault,
    /// How long it lasts.
    pub(super) lasts: Duration,
    /// How long nothing happens once a leader serves again.
    pub(super) calm: Duration,
    /// Decides what else there is to decide.
    pub(super) salt: u64,
}

/// The steps of a run, without end. Lengths are in leases: 0.3 to 5 for what stops a process, most
/// of them short.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    random: fastrand::Rng,
    faults: Vec<Fault>,
    lease: Duration,
}

impl Schedule {
    pub(super) fn new(seed: u64, faults: Vec<Fault>, lease: Duration) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            faults,
            lease,
        }
    }
}

impl Iterator for Schedule {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let total: u32 = self.faults.iter().map(|fault| fault.weight()).sum();
        if total == 0 {
            return None;
        }
        let mut ticket = self.random.u32(..total);
        let fault = self.faults.iter().find(|fault| {
            let is_it = ticket < fault.weight();
            ticket = ticket.saturating_sub(fault.weight());
            is_it
        })?;
        let leases = match self.random.u8(..10) {
            0..=5 => 0.3 + self.random.f64() * 1.2,
            6..=8 => 1.5 + self.random.f64(),
            _ => 2.5 + self.random.f64() * 2.5,
        };
        Some(Step {
            fault: *fault,
            lasts: self.lease.mul_f64(leases),
            calm: self.lease.mul_f64(1.3 + self.random.f64()),
            salt: self.random.u64(..),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_everything_and_every_fault_comes() {
        let faults = vec![Fault::KillLeader, Fault::StoreWiped, Fault::Swizzle];
        let steps = |seed| {
            let schedule = Schedule::new(seed, faults.clone(), Duration::from_secs(1));
            schedule.take(300).collect::<Vec<_>>()
        };
        assert_eq!(steps(7), steps(7));
        assert_ne!(steps(7), steps(8));
        for fault in &faults {
            assert!(
                steps(7).iter().any(|step| step.fault == *fault),
                "{fault:?}"
            );
        }
        for step in steps(7) {
            let leases = step.lasts.as_secs_f64();
            assert!((0.3..=5.0).contains(&leases), "{leases}");
        }
    }

    #[test]
    fn without_faults_there_are_no_steps() {
        assert_eq!(
            Schedule::new(1, Vec::new(), Duration::from_secs(1)).next(),
            None
        );
    }
}
