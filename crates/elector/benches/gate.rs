//! What the gate costs each request, beside what the machine takes for its parts.
//!
//! A real election on a memory backend leads while it is measured, so the gate is renewed as in
//! production. All rows take turns in short batches, so that a noisy machine is noisy for all.
#![expect(clippy::unwrap_used, reason = "a bench that cannot start says so")]
#![expect(clippy::print_stdout, reason = "the table is the point")]

use std::{
    hint::black_box,
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use async_trait::async_trait;
use coordination_core::{LEADER_KEY, Owner};
use coordination_memory::MemoryBackend;
use elector::{
    Elector, Gate, Leadership, LossReason, Parts, PromoteError, Promotion, Role, Settings,
    threads::Control,
};
use kvcm_clock::{BootClock, Clock, TokioTimer};
use kvcm_fence::{Epoch, Incarnation};

/// Batches of each row.
const ROUNDS: usize = 400;

/// Calls in a batch: about a millisecond, so that few batches are interrupted.
const BATCH: u32 = 20_000;

/// The most that an admission, and a confirmation, may take.
const GOAL_NS: f64 = 40.0;

/// What is measured.
type Row = (&'static str, fn(&Gate, &AtomicU64));

const ROWS: &[Row] = &[
    ("the machine: one read of CLOCK_BOOTTIME", |_, _| {
        black_box(BootClock.now());
    }),
    ("the machine: one atomic increment", |_, counter| {
        black_box(counter.fetch_add(1, SeqCst));
    }),
    ("admit, and leave", |gate, _| {
        drop(black_box(gate.admit().unwrap()));
    }),
    ("admit, confirm, and leave", |gate, _| {
        let admission = black_box(gate.admit().unwrap());
        admission.confirm().unwrap();
    }),
];

/// Nothing to prepare.
struct Idle;

#[async_trait]
impl Leadership for Idle {
    async fn on_become_leader(&self, _: Promotion) -> Result<(), PromoteError> {
        Ok(())
    }
    async fn on_no_longer_leader(&self, _: Epoch, _: LossReason) {}
}

fn main() {
    let control = Control::start().unwrap();
    let elector = lead(&control);
    println!("ns per call, median (10th to 90th percentile) of {ROUNDS} batches of {BATCH}\n");
    println!("threads  what{:40}   median   p10 to p90", "");
    for threads in [1, 2] {
        let rows = measure(elector.gate(), threads);
        for ((name, _), [low, median, high]) in ROWS.iter().zip(&rows) {
            println!("{threads:7}  {name:44}   {median:6.1}   {low:.1} to {high:.1}");
        }
        let [_, _, admission, both] = [0, 1, 2, 3].map(|row| rows[row][1]);
        for (name, cost) in [("admission", admission), ("confirmation", both - admission)] {
            let met = if cost <= GOAL_NS { "met" } else { "missed" };
            println!("{threads:7}  {name:44}   {cost:6.1}   goal {GOAL_NS:.0}: {met}");
        }
        println!();
    }
    control.handle().block_on(elector.stop());
}

/// An election that leads.
fn lead(control: &Control) -> Elector {
    let clock = Arc::new(BootClock);
    let (elector, driver) = elector::start(Parts {
        settings: Settings::new(Duration::from_secs(10), Duration::from_millis(500)),
        owner: Owner {
            node: "bench".parse().unwrap(),
            incarnation: Incarnation::random(),
        },
        key: LEADER_KEY.to_owned(),
        endpoint: serde_json::Value::Null,
        backend: Arc::new(MemoryBackend::new(clock.clone())),
        leadership: Arc::new(Idle),
        timer: Arc::new(TokioTimer::new(*clock)),
        clock,
        spawner: Arc::new(control.handle().clone()),
    });
    control.run(driver).unwrap();
    let mut view = elector.watch();
    let leads = view.wait_for(|view| view.role == Role::Leader);
    drop(control.handle().block_on(leads).unwrap());
    elector
}

/// The 10th, 50th and 90th percentile of each row, in nanoseconds, with `threads` at it at once.
fn measure(gate: &Gate, threads: usize) -> Vec<[f64; 3]> {
    let counter = AtomicU64::new(0);
    let start = Barrier::new(threads);
    let run = || {
        let mut found = vec![Vec::with_capacity(ROUNDS); ROWS.len()];
        for _ in 0..ROUNDS {
            for ((_, call), found) in ROWS.iter().zip(&mut found) {
                start.wait();
                let began = BootClock.now();
                for _ in 0..BATCH {
                    call(gate, &counter);
                }
                let took = BootClock.now().since(began);
                found.push(took.as_secs_f64() * 1e9 / f64::from(BATCH));
            }
        }
        found
    };
    let found: Vec<Vec<Vec<f64>>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        running.into_iter().map(|t| t.join().unwrap()).collect()
    });
    (0..ROWS.len())
        .map(|row| {
            let mut all: Vec<f64> = found.iter().flat_map(|of| of[row].clone()).collect();
            all.sort_by(f64::total_cmp);
            [10, 50, 90].map(|percent| all[(all.len() - 1) * percent / 100])
        })
        .collect()
}
