//! What a test and the connections of its proxy share.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
};

use tokio::sync::watch;

use super::{Direction, Rule};

/// What all connections obey. Every change wakes them.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    /// Where new connections go.
    pub(super) target: Option<SocketAddr>,
    pub(super) rules: [Rule; 2],
    /// How often each rule was set.
    pub(super) settings: [u64; 2],
    /// How often held chunks were released.
    pub(super) releases: u64,
    /// How often all connections were cut.
    pub(super) cuts: u64,
    /// How often all connections were forgotten.
    pub(super) forgets: u64,
    pub(super) is_over: bool,
}

#[derive(Debug, Default)]
pub(super) struct Control {
    pub(super) script: watch::Sender<Script>,
    pub(super) held: watch::Sender<usize>,
    pub(super) open: watch::Sender<usize>,
    accepted: AtomicU64,
    round_trips: AtomicU64,
    bytes: [AtomicU64; 2],
}

/// A rule at the moment when a chunk came.
#[derive(Debug)]
pub(super) struct Ruling {
    pub(super) rule: Rule,
    /// Which setting of the rule it is.
    pub(super) setting: u64,
    pub(super) releases: u64,
    pub(super) forgets: u64,
}

impl Control {
    pub(super) fn set(&self, direction: Direction, rule: Rule) {
        self.script.send_modify(|script| {
            script.rules[direction.index()] = rule;
            script.settings[direction.index()] += 1;
        });
    }

    pub(super) fn aim(&self, target: SocketAddr) {
        self.script
            .send_modify(|script| script.target = Some(target));
    }

    pub(super) fn release(&self) {
        self.script.send_modify(|script| script.releases += 1);
    }

    pub(super) fn cut_all(&self) {
        self.script.send_modify(|script| script.cuts += 1);
    }

    pub(super) fn forget_all(&self) {
        self.script.send_modify(|script| script.forgets += 1);
    }

    pub(super) fn end(&self) {
        self.script.send_modify(|script| script.is_over = true);
    }

    pub(super) fn rule(&self, direction: Direction) -> Rule {
        self.script.borrow().rules[direction.index()].clone()
    }

    /// What to do with `chunk`. A rule to hold one chunk is used up by the one that it is for.
    pub(super) fn judge(&self, direction: Direction, chunk: &[u8]) -> Ruling {
        let index = direction.index();
        let mut ruling = None;
        self.script.send_if_modified(|script| {
            let mut rule = script.rules[index].clone();
            let mut is_used_up = false;
            if let Rule::Hold { containing } = &rule {
                is_used_up = contains(chunk, containing.as_bytes());
                if !is_used_up {
                    rule = Rule::Pass;
                }
            }
            if is_used_up {
                script.rules[index] = Rule::Pass;
                // In the same step, so that no release can come in between unnoticed.
                self.held.send_modify(|held| *held += 1);
            }
            ruling = Some(Ruling {
                rule,
                setting: script.settings[index],
                releases: script.releases,
                forgets: script.forgets,
            });
            is_used_up
        });
        ruling.unwrap_or_else(|| unreachable!("the closure has run"))
    }

    pub(super) fn opened(&self) -> u64 {
        self.open.send_modify(|open| *open += 1);
        self.accepted.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn closed(&self) {
        self.open.send_modify(|open| *open -= 1);
    }

    pub(super) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(super) fn count_round_trip(&self) {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    pub(super) fn count(&self, direction: Direction, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.bytes[direction.index()].fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self, direction: Direction) -> u64 {
        self.bytes[direction.index()].load(Ordering::Relaxed)
    }
}

fn contains(chunk: &[u8], part: &[u8]) -> bool {
    part.is_empty() || chunk.windows(part.len()).any(|window| window == part)
}
