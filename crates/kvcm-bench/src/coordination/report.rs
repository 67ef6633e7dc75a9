//! The tables.

use std::time::Duration;

use crate::{
    coordination::{Kind, Options, hand_over::HandOvers},
    machine,
    samples::Samples,
    table::{Column, table},
};

/// Samples with their name and goal.
pub(super) struct Measure {
    kind: Kind,
    what: String,
    samples: Samples,
    goal: Option<Goal>,
}

/// What a percentile should not exceed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    percent: usize,
    limit: Duration,
}

/// Grows with the run.
pub(super) struct Report {
    measures: Vec<Measure>,
    /// How much sooner a watch is than a poll.
    ratios: Vec<String>,
    conditions: String,
    load_before: String,
}

impl Measure {
    pub(super) fn new(kind: Kind, what: &str, samples: Samples) -> Self {
        Self {
            kind,
            what: what.to_owned(),
            samples,
            goal: None,
        }
    }

    pub(super) fn with(self, goal: Goal) -> Self {
        let goal = Some(goal);
        Self { goal, ..self }
    }

    fn row(&self) -> [String; 8] {
        let (goal, verdict) = match self.goal {
            None => (String::new(), ""),
            Some(goal) => (goal.to_string(), goal.judge(&self.samples)),
        };
        [
            self.kind.name().to_owned(),
            self.what.clone(),
            self.samples.len().to_string(),
            ms(self.samples.percentile(50)),
            ms(self.samples.percentile(99)),
            ms(self.samples.max()),
            goal,
            verdict.to_owned(),
        ]
    }
}

impl Goal {
    pub(super) const fn p50_ms(ms: u64) -> Self {
        let limit = Duration::from_millis(ms);
        Self { percent: 50, limit }
    }

    pub(super) const fn p99_ms(ms: u64) -> Self {
        let limit = Duration::from_millis(ms);
        Self { percent: 99, limit }
    }

    fn judge(self, samples: &Samples) -> &'static str {
        match samples.percentile(self.percent) <= self.limit {
            true => "met",
            false => "MISSED",
        }
    }
}

impl std::fmt::Display for Goal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "p{} <= {} ms", self.percent, self.limit.as_millis())
    }
}

impl Report {
    pub(super) fn start(options: &Options) -> Self {
        let dir = options.dir.clone().unwrap_or_else(std::env::temp_dir);
        Self {
            measures: Vec::new(),
            ratios: Vec::new(),
            conditions: format!("{}, files in {}", machine::conditions(), dir.display()),
            load_before: machine::load(),
        }
    }

    pub(super) fn add(&mut self, measure: Measure) {
        self.measures.push(measure);
    }

    pub(super) fn add_all(&mut self, measures: Vec<Measure>) {
        self.measures.extend(measures);
    }

    pub(super) fn add_hand_overs(&mut self, hand_overs: HandOvers) {
        let HandOvers { watch, poll } = hand_overs;
        let p50 = |measure: &Measure| measure.samples.percentile(50);
        let (soon, late) = (p50(&watch), p50(&poll));
        self.ratios.push(format!(
            "{}: a waiter woken by watch has the lock after {} ms, one that polls after {} ms: {:.0} x",
            watch.kind.name(),
            ms(soon),
            ms(late),
            late.as_secs_f64() / soon.as_secs_f64().max(1e-9)
        ));
        let watch = match watch.kind {
            Kind::Memory => watch,
            Kind::File => watch.with(Goal::p50_ms(5)),
            Kind::Redis => watch.with(Goal::p50_ms(1)),
        };
        self.measures.extend([watch, poll]);
    }

    pub(super) fn finish(self) -> String {
        let rows: Vec<_> = self.measures.iter().map(Measure::row).collect();
        let columns = [
            Column::Text("backend"),
            Column::Text("what"),
            Column::Number("n"),
            Column::Number("p50 ms"),
            Column::Number("p99 ms"),
            Column::Number("max ms"),
            Column::Text("goal"),
            Column::Text(""),
        ];
        format!(
            "{}\nload (1, 5, 15 minutes): {} before, {} after\n\n{}\n{}\n",
            self.conditions,
            self.load_before,
            machine::load(),
            table(columns, &rows),
            self.ratios.join("\n")
        )
    }
}

fn ms(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_up_to_its_limit() {
        let samples: Samples = [15, 15, 16]
            .map(Duration::from_millis)
            .into_iter()
            .collect();
        assert_eq!(Goal::p50_ms(15).judge(&samples), "met");
        assert_eq!(Goal::p99_ms(15).judge(&samples), "MISSED");
        let measure = Measure::new(Kind::Redis, "x", samples).with(Goal::p99_ms(15));
        let row = measure.row();
        assert_eq!(
            row[2..],
            ["3", "15.000", "16.000", "16.000", "p99 <= 15 ms", "MISSED"]
        );
    }
}
