//! The table.

use std::time::Duration;

use crate::{
    machine,
    serve::{Options, Over, lines::Lookup, turn::Figures},
    table::{Column, table, thousands},
};

/// What is asked of a hit of 1000 keys: the rate by that of the bare server, and of Redis.
const BARE_GOAL: f64 = 0.9;
const REDIS_GOAL: f64 = 10.0;

/// One line of the table.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) over: Over,
    pub(super) clients: usize,
    pub(super) ours: Figures,
    /// No turns where it has nothing to send.
    pub(super) bare: Figures,
    pub(super) redis: Figures,
}

/// Grows with the run.
#[derive(Debug)]
pub(super) struct Report {
    conditions: String,
    load_before: String,
    lines: Vec<Line>,
}

impl Report {
    pub(super) fn start(options: &Options) -> Self {
        let conditions = machine::conditions();
        let keys = thousands(options.keys.into());
        let (turns, turn_ms) = (options.turns, options.turn_ms);
        Self {
            conditions: format!("{conditions}, {keys} keys, {turns} turns of {turn_ms} ms each"),
            load_before: machine::load(),
            lines: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, line: Line) {
        self.lines.push(line);
    }

    pub(super) fn finish(self) -> String {
        let columns = [
            Column::Text("call"),
            Column::Text("over"),
            Column::Number("clients"),
            Column::Number("per s"),
            Column::Number("p50 us"),
            Column::Number("p99 us"),
            Column::Number("cpu us"),
            Column::Number("bare"),
            Column::Number("cpu us"),
            Column::Number("of bare"),
            Column::Number("redis"),
            Column::Number("p50 us"),
            Column::Number("cpu us"),
            Column::Number("of redis"),
        ];
        let rows: Vec<_> = self.lines.iter().map(Line::row).collect();
        let goals: Vec<_> = self.lines.iter().filter_map(Line::goal).collect();
        format!(
            "{}\nload (1, 5, 15 minutes): {} before, {} after\n\n{}\n{}",
            self.conditions,
            self.load_before,
            machine::load(),
            table(columns, &rows),
            goals.concat(),
        )
    }
}

impl Line {
    fn row(&self) -> [String; 14] {
        let Self {
            ours, bare, redis, ..
        } = self;
        let samples = ours.samples();
        [
            self.name.clone(),
            self.over.to_string(),
            self.clients.to_string(),
            rate(ours),
            micros(samples.percentile(50)),
            micros(samples.percentile(99)),
            cost(ours),
            rate(bare),
            cost(bare),
            ratio(ours.ratio(bare)),
            rate(redis),
            micros(redis.samples().percentile(50)),
            cost(redis),
            ratio(ours.ratio(redis)),
        ]
    }

    fn goal(&self) -> Option<String> {
        if self.name != Lookup::Hit1000.name() {
            return None;
        }
        let median = |ratio: Option<[f64; 3]>| ratio.map_or(0.0, |[_, median, _]| median);
        let (bare, redis) = (
            median(self.ours.ratio(&self.bare)),
            median(self.ours.ratio(&self.redis)),
        );
        let word = |is_met| if is_met { "met" } else { "MISSED" };
        Some(format!(
            "{} over {}: {bare:.2} of bare, goal {BARE_GOAL}: {}; {redis:.1} of Redis, goal \
             {REDIS_GOAL}: {}\n",
            self.name,
            self.over,
            word(bare >= BARE_GOAL),
            word(redis >= REDIS_GOAL),
        ))
    }
}

fn rate(figures: &Figures) -> String {
    match figures.rate() {
        0.0 => "-".to_owned(),
        rate => thousands(rate as u64),
    }
}

fn micros(duration: Duration) -> String {
    thousands(duration.as_micros().try_into().unwrap_or(u64::MAX))
}

fn cost(figures: &Figures) -> String {
    let cost = figures.cost().filter(|cost| *cost > 0.0);
    cost.map_or_else(|| "-".to_owned(), |micros| format!("{micros:.1}"))
}

fn ratio(ratio: Option<[f64; 3]>) -> String {
    ratio.map_or_else(
        || "-".to_owned(),
        |[least, median, most]| format!("{median:.2} ({least:.2}-{most:.2})"),
    )
}
