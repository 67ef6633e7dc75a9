//! Which nodes are worth a connection: a circuit breaker per node.

use std::{collections::HashMap, time::Duration};

use kvcm_clock::{Backoff, BackoffPolicy, Random};
use tokio::time::Instant;

use crate::address::Address;

/// How long a node that failed is left alone: longer each time, up to half a minute.
const REST: BackoffPolicy = BackoffPolicy {
    first: Duration::from_millis(200),
    cap: Duration::from_secs(30),
    factor: 2.0,
    jitter: 0.5,
};

/// Failures in a row that open a breaker. One alone may be a connection that was reset.
const FAILURES_MIN: u32 = 2;

/// Nodes that are remembered; far more than a client meets.
const NODES_MAX: usize = 256;

/// The breakers of all nodes. A node without one is fine.
///
/// *Closed*: the node is used. *Open*: it failed and is left alone. *Half-open*: its rest is over
/// and one probe goes there, whose end closes the breaker or opens it for longer.
#[derive(Debug, Default)]
pub(crate) struct Breakers(HashMap<Address, Breaker>);

#[derive(Debug)]
struct Breaker {
    failures: u32,
    rest: Backoff,
    /// Nothing goes there before; `None` while closed.
    until: Option<Instant>,
}

impl Breakers {
    /// Whether `address` may be used now. When its rest is over, true for one caller only, whose
    /// probe may take `probe` before the next is let through.
    pub(crate) fn admit(&mut self, address: &Address, now: Instant, probe: Duration) -> bool {
        let Some(until) = self
            .0
            .get_mut(address)
            .and_then(|breaker| breaker.until.as_mut())
        else {
            return true;
        };
        let is_due = now >= *until;
        if is_due {
            *until = now + probe;
        }
        is_due
    }

    /// Whether the node has failed at all since it last answered.
    pub(crate) fn has(&self, address: &Address) -> bool {
        self.0.contains_key(address)
    }

    /// Whether nothing is known against `address`.
    pub(crate) fn is_closed(&self, address: &Address) -> bool {
        self.0
            .get(address)
            .is_none_or(|breaker| breaker.until.is_none())
    }

    /// The node did not answer. True when that opened its breaker.
    pub(crate) fn failed(
        &mut self,
        address: &Address,
        now: Instant,
        random: &mut dyn Random,
    ) -> bool {
        if self.0.len() >= NODES_MAX && !self.0.contains_key(address) {
            self.0.clear();
        }
        let breaker = self.0.entry(address.clone()).or_insert_with(|| Breaker {
            failures: 0,
            rest: Backoff::new(REST),
            until: None,
        });
        breaker.failures = breaker.failures.saturating_add(1);
        if breaker.failures < FAILURES_MIN {
            return false;
        }
        let was_closed = breaker.until.is_none();
        breaker.until = Some(now + breaker.rest.next(random));
        was_closed
    }

    /// The node answered, or is named as the leader of a newer epoch: it has a clean slate.
    pub(crate) fn close(&mut self, address: &Address) {
        self.0.remove(address);
    }

    /// How many nodes are left alone.
    pub(crate) fn open(&self) -> usize {
        let open = self.0.values().filter(|breaker| breaker.until.is_some());
        open.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn a_node_that_goes_on_failing_is_probed_ever_more_rarely() {
        let mut random = fastrand::Rng::with_seed(1);
        let address = Address::parse("n:1").unwrap();
        let mut breakers = Breakers::default();
        let start = Instant::now();
        let mut probes = Vec::new();
        for ms in 0..60_000 {
            let now = start + MS * ms;
            if breakers.admit(&address, now, MS * 500) {
                probes.push(ms);
                breakers.failed(&address, now, &mut random);
            }
        }
        assert_eq!(probes[..2], [0, 1], "one failure is no reason");
        assert!((6..14).contains(&probes.len()), "{probes:?}");
        assert_eq!(breakers.open(), 1);
        breakers.close(&address);
        assert!(breakers.is_closed(&address) && breakers.admit(&address, start, MS));
    }

    #[tokio::test(start_paused = true)]
    async fn one_probe_goes_to_a_half_open_node_at_a_time() {
        let mut random = fastrand::Rng::with_seed(2);
        let address = Address::parse("n:1").unwrap();
        let mut breakers = Breakers::default();
        let now = Instant::now();
        assert!(!breakers.failed(&address, now, &mut random));
        assert!(breakers.failed(&address, now, &mut random));
        assert!(!breakers.admit(&address, now, MS * 500), "open");
        let later = now + MS * 300;
        assert!(breakers.admit(&address, later, MS * 500), "half-open");
        assert!(!breakers.admit(&address, later + MS * 499, MS * 500));
        assert!(
            breakers.admit(&address, later + MS * 500, MS * 500),
            "the probe got lost"
        );
    }
}
