//! The tables that are printed at the end.

use std::time::Duration;

use kvcm_clock::Moment;

use super::{
    outcome::Outcome,
    phase::{Phase, Tally},
};
use crate::{
    Change, Reign, carried, gap, reigns,
    table::{
        Column::{Number, Text},
        percent, table, thousands,
    },
};

impl Outcome {
    /// What happened, by phase, by leader and by change of leader.
    pub(crate) fn tables(&self) -> String {
        let mut text = String::new();
        self.write_phases(&mut text);
        self.write_counts(&mut text);
        self.write_reigns(&mut text);
        self.write_changes(&mut text);
        text
    }

    fn write_phases(&self, text: &mut String) {
        let row = |title: &str, tally: &Tally| {
            [
                title.to_owned(),
                thousands(tally.requests),
                thousands(tally.blocks),
                percent(tally.hits, tally.blocks),
                thousands(tally.written),
            ]
        };
        let phases = Phase::ALL.iter().zip(&self.tallies);
        let mut rows: Vec<_> = phases
            .map(|(phase, tally)| row(phase.title(), tally))
            .collect();
        let mut all = Tally::default();
        self.tallies.iter().for_each(|tally| all.add(*tally));
        rows.push(row("all", &all));
        let columns = [
            Text("phase"),
            Number("requests"),
            Number("blocks looked up"),
            Number("hit ratio"),
            Number("blocks written"),
        ];
        text.push_str(&table(columns, &rows));
    }

    fn write_counts(&self, text: &mut String) {
        let seconds = self.elapsed.as_secs_f64();
        let rate = self.calls as f64 / seconds.max(0.001);
        let row = |title: &str, count: u64, note: &str| {
            [title.to_owned(), thousands(count), note.to_owned()]
        };
        let lost = self.lost_blocks();
        let acknowledged = self.acknowledged_blocks();
        let rows = [
            row(
                "calls",
                self.calls,
                &format!("in {seconds:.1} s, {rate:.0} a second"),
            ),
            row("errors that reached an engine", self.errors, ""),
            row("retries and redirects inside calls", self.retries, ""),
            row(
                "blocks lost",
                lost,
                &format!("of {} that were acknowledged", thousands(acknowledged)),
            ),
            row("write sessions redone", self.sessions_redone, ""),
            row("registrations redone", self.registrations_redone, ""),
        ];
        text.push('\n');
        text.push_str(&table([Text(""), Number(""), Text("")], &rows));
    }

    fn write_reigns(&self, text: &mut String) {
        let row = |reign: &Reign| {
            let nodes: Vec<_> = reign.nodes.iter().map(|node| self.name(node)).collect();
            [
                reign.epoch.to_string(),
                nodes.join(" and "),
                self.since_start(reign.first),
                self.since_start(reign.last),
                thousands(reign.calls),
                thousands(reign.writes),
            ]
        };
        let rows: Vec<_> = reigns(&self.history).iter().map(row).collect();
        let columns = [
            Number("epoch"),
            Text("leader"),
            Number("first answer"),
            Number("last answer"),
            Number("answers"),
            Number("writes"),
        ];
        text.push('\n');
        text.push_str(&table(columns, &rows));
    }

    fn write_changes(&self, text: &mut String) {
        let row = |change: &Change| {
            let cause = match &change.cause {
                Some((at, what)) => format!("{what} at {}", self.since_start(*at)),
                None => "nothing that was done here".to_owned(),
            };
            let gap = gap(&self.history, change);
            let carried = carried(&self.history, change.to);
            let (found, asked) = (carried.found as u64, carried.asked as u64);
            [
                format!("{} to {}", change.from, change.to),
                cause,
                gap.map_or_else(|| "-".to_owned(), |gap| milliseconds(gap.length)),
                format!(
                    "{} of {} asked for again",
                    thousands(found),
                    thousands(asked)
                ),
            ]
        };
        let rows: Vec<_> = self.changes().iter().map(row).collect();
        let columns = [
            Text("epochs"),
            Text("leader change set off by"),
            Number("longest gap without a write"),
            Number("blocks carried over"),
        ];
        text.push('\n');
        text.push_str(&table(columns, &rows));
    }

    fn name(&self, address: &str) -> String {
        let known = self.names.iter().find(|(known, _)| known == address);
        known.map_or_else(|| address.to_owned(), |(_, name)| name.clone())
    }

    fn since_start(&self, moment: Moment) -> String {
        format!("{:.2} s", moment.since(self.start).as_secs_f64())
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::super::outcome::tests::good;

    #[test]
    fn the_tables_hold_what_was_promised() {
        let text = good().tables();
        for line in [
            "phase               requests  blocks looked up  hit ratio  blocks written\n",
            "all                        4                 8     50.0 %               4\n",
            "errors that reached an engine       0\n",
            "blocks lost                         0  of 2 that were acknowledged\n",
            "    3  node-1             0.01 s       0.01 s        1       1\n",
            "3 to 8  SIGKILL of node-1 at 0.50 s                    1100.0 ms  2 of 2 asked for again\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
