//! The tables.

use std::time::Duration;

use super::{Fault, Options, Outcome, case::Seen, idle::Idle};
use crate::{
    machine,
    samples::Samples,
    table::{Column, table, thousands},
};

/// Grows with the run.
pub(super) struct Report {
    rows: Vec<[String; 9]>,
    errors: Vec<String>,
    idle: Option<Idle>,
    conditions: String,
}

/// Errors that are shown.
const ERRORS_SHOWN: usize = 5;

impl Report {
    pub(super) fn start(options: &Options) -> Self {
        Self {
            rows: Vec::new(),
            errors: Vec::new(),
            idle: None,
            conditions: format!(
                "three nodes, Redis coordination, lease {} ms, {} clients, deadline {} ms, {} \
                 rounds; {}, load {}",
                options.lease_ms,
                options.clients,
                options.deadline_ms,
                options.rounds,
                machine::conditions(),
                machine::load(),
            ),
        }
    }

    pub(super) fn add(&mut self, fault: Fault, seen: &Seen) {
        let gaps: Samples = seen.gaps.iter().copied().collect();
        let connects: Samples = seen.connects.iter().copied().collect();
        self.rows.push([
            fault.title().to_owned(),
            thousands(seen.operations as u64),
            seen.errors.len().to_string(),
            seen.retried.to_string(),
            seen.attempts_max.to_string(),
            ms(gaps.percentile(50)),
            ms(gaps.max()),
            ms(seen.slowest),
            ms(connects.max()),
        ]);
        self.errors.extend(seen.errors.iter().cloned());
    }

    pub(super) fn add_idle(&mut self, idle: &Idle) {
        self.idle = Some(*idle);
    }

    pub(super) fn finish(self) -> Outcome {
        let mut tables = format!("{}; {} at the end\n\n", self.conditions, machine::load());
        tables.push_str(&table(
            [
                Column::Text("fault"),
                Column::Number("operations"),
                Column::Number("errors"),
                Column::Number("retried"),
                Column::Number("most tries"),
                Column::Number("gap p50 ms"),
                Column::Number("gap max ms"),
                Column::Number("slowest ms"),
                Column::Number("connect max ms"),
            ],
            &self.rows,
        ));
        if let Some(idle) = self.idle {
            let clients = idle.clients;
            tables.push_str(&format!(
                "\nan idle client, of {clients}: {} KiB, {:.1} connections, {:.2} round trips/s, \
                 {:.0} bytes/s\n",
                idle.memory / 1024,
                idle.connections,
                idle.round_trips,
                idle.bytes,
            ));
        }
        for error in self.errors.iter().take(ERRORS_SHOWN) {
            tables.push_str(&format!("\nerror: {error}\n"));
        }
        Outcome {
            tables,
            errors: self.errors.len(),
        }
    }
}

fn ms(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1000.0)
}
