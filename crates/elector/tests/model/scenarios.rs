//! What is searched.

use crate::state::Budget;

/// One search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) nodes: usize,
    /// How many epochs may be minted.
    pub(crate) epochs: u64,
    pub(crate) budget: Budget,
}

const NO: Budget = Budget::NOTHING;

const fn two(name: &'static str, budget: Budget) -> Scenario {
    Scenario {
        name,
        nodes: 2,
        epochs: 4,
        budget,
    }
}

const fn three(name: &'static str, budget: Budget) -> Scenario {
    Scenario {
        name,
        nodes: 3,
        epochs: 3,
        budget,
    }
}

/// Searched to the end by every test run.
#[rustfmt::skip]
pub(crate) const COMPLETE: &[Scenario] = &[
    two("lost call, late request", Budget { late: 1, lost: 1, ..NO }),
    two("crash, stop, restart", Budget { crash: 1, slow: 1, ..NO }),
    two("proof of death", Budget { crash: 1, hint: 2, ..NO }),
    two("pause with a write", Budget { pause: 1, admit: 1, ..NO }),
    two("step-down, failed promotion", Budget { demote: 1, fail: 1, ..NO }),
    two("step-down with a write", Budget { demote: 1, admit: 1, ..NO }),
    two("deleted lock", Budget { vanish: 1, ..NO }),
    two("lost data", Budget { flush: 1, ..NO }),
    two("lost data, wrong clock", Budget { flush_low: 1, ..NO }),
    two("unknown data of yesterday", Budget { lie: 1, admit: 1, ..NO }),
    three("three nodes", Budget { demote: 1, ..NO }),
    two("transfer", Budget { transfer: 1, peers: 2, ..NO }),
    two("transfer with a write", Budget { transfer: 1, peers: 1, admit: 1, ..NO }),
    three("transfer among three", Budget { transfer: 1, peers: 1, ..NO }),
    two("held back", Budget { hold_back: 1, ..NO }),
    two("not ready, wrong about the other", Budget { unready: 1, peers: 1, ..NO }),
];

/// Searched besides by `cargo xtask model`, as far as it is told to.
#[rustfmt::skip]
pub(crate) const DEEP: &[Scenario] = &[
    two("lost calls", Budget { lost: 2, ..NO }),
    two("pause, slow answers", Budget { pause: 1, slow: 1, ..NO }),
    two("step-down with writes, slow answers", Budget { demote: 1, admit: 2, slow: 1, ..NO }),
    two("lost data, step-down", Budget { flush: 1, demote: 1, ..NO }),
    two("data of yesterday, step-down", Budget { restore: 1, demote: 1, ..NO }),
    two("transfer to a node that dies", Budget { transfer: 1, peers: 1, crash: 1, ..NO }),
    two("transfer, drain that hangs", Budget { transfer: 1, peers: 1, fail: 1, ..NO }),
    two("not ready, crash", Budget { unready: 1, peers: 1, crash: 1, ..NO }),
    two("held back, step-down", Budget { hold_back: 1, demote: 1, ..NO }),
    two("lost calls, slow answers", Budget { lost: 2, slow: 1, ..NO }),
    two("deleted lock, failed promotion", Budget { vanish: 1, fail: 1, ..NO }),
    two("messages", Budget { lost: 3, slow: 1, late: 1, ..NO }),
    two("partition, deleted lock", Budget { cut: 1, vanish: 1, fail: 1, ..NO }),
    two("partition, lost data", Budget { cut: 1, flush: 1, demote: 1, ..NO }),
    two("partition, lost data, wrong clock, crash", Budget { cut: 1, flush_low: 1, crash: 1, ..NO }),
    two("partition, data of yesterday", Budget { cut: 1, restore: 1, demote: 1, ..NO }),
    two("partition, unknown data of yesterday", Budget { cut: 1, lie: 1, admit: 1, ..NO }),
    two("crash, pause", Budget { crash: 1, pause: 1, hint: 1, ..NO }),
    two("pause, late requests", Budget { pause: 1, late: 1, slow: 1, ..NO }),
    two("pause, step-down, write", Budget { pause: 1, demote: 1, admit: 1, ..NO }),
    two("pause, lost data", Budget { pause: 1, flush: 1, hint: 1, ..NO }),
    three("three nodes, lost data", Budget { flush: 1, ..NO }),
    three("three nodes, deleted lock", Budget { vanish: 1, fail: 1, ..NO }),
    three("three nodes, partition", Budget { cut: 1, ..NO }),
    three("three nodes, pause", Budget { pause: 1, ..NO }),
    two("transfer, step-down", Budget { transfer: 1, peers: 1, demote: 1, ..NO }),
    two("transfer, slow and lost release", Budget { transfer: 1, peers: 1, lost: 1, slow: 1, ..NO }),
    two("held back, transfer", Budget { hold_back: 1, transfer: 1, peers: 1, ..NO }),
    two("transfer, pause", Budget { transfer: 1, peers: 1, pause: 1, ..NO }),
    two("transfer, deleted lock", Budget { transfer: 1, peers: 1, vanish: 1, ..NO }),
    two("transfer, partition", Budget { transfer: 1, peers: 1, cut: 1, ..NO }),
    two("transfer, lost data", Budget { transfer: 1, peers: 1, flush: 1, ..NO }),
    three("transfer among three, crash", Budget { transfer: 1, peers: 1, crash: 1, ..NO }),
    three("not ready among three", Budget { unready: 1, peers: 1, demote: 1, ..NO }),
];

/// What random walks draw from.
pub(crate) const EVERYTHING: Budget = Budget {
    crash: 3,
    pause: 3,
    cut: 3,
    lost: 6,
    slow: 6,
    late: 3,
    hint: 6,
    demote: 3,
    fail: 2,
    transfer: 4,
    hold_back: 3,
    peers: 8,
    unready: 3,
    admit: 8,
    vanish: 1,
    flush: 1,
    flush_low: 1,
    restore: 1,
    lie: 0,
};
