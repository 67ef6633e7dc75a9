//! The tables.

use std::time::Duration;

use crate::{
    cache::Options,
    machine,
    samples::Samples,
    table::{Column, table, thousands},
};

/// Prefix match of 1000 keys of a million, all found: how long, and how much faster than the map.
const LOOKUP_GOAL: Duration = Duration::from_micros(2);
const FASTER_GOAL: f64 = 10.0;
const BYTES_GOAL: f64 = 100.0;
/// By how much the hit ratio may differ from the exact LRU's, in percent points.
const REPLAY_GOAL: f64 = 0.5;

/// Grows with the run.
pub(super) struct Report {
    conditions: String,
    load_before: String,
    memory: Vec<[String; 4]>,
    lookups: Vec<[String; 11]>,
    writes: Vec<[String; 5]>,
    recoveries: Vec<[String; 7]>,
    finishes: Vec<[String; 9]>,
    evictions: Vec<[String; 8]>,
    replays: Vec<[String; 11]>,
}

/// A line of the lookups: the index, a bare map, an open-addressing table.
pub(super) struct Lookup {
    pub(super) keys: usize,
    pub(super) length: usize,
    pub(super) found: &'static str,
    pub(super) threads: usize,
    pub(super) times: [Samples; 3],
}

/// A line of the writes.
pub(super) struct Write<'a> {
    pub(super) what: &'static str,
    pub(super) samples: &'a Samples,
    pub(super) bare: &'a Samples,
}

/// A line of the recoveries.
pub(super) struct Recovery {
    pub(super) store: &'static str,
    pub(super) what: &'static str,
    pub(super) keys: usize,
    pub(super) time: Duration,
    /// What this process was on a processor meanwhile.
    pub(super) busy: Option<Duration>,
    /// For a million keys.
    pub(super) goal: Option<Duration>,
}

/// A line of the durable finishes.
pub(super) struct Finishes<'a> {
    pub(super) store: &'a str,
    pub(super) callers: usize,
    pub(super) rate: f64,
    pub(super) samples: Samples,
    /// Write and fdatasync, or EVALSHA in pipelines of as many as there are callers.
    pub(super) bare: Option<f64>,
    /// MSETs of as many keys, on as many connections.
    pub(super) msets: Option<f64>,
}

/// A line of the evictions.
pub(super) struct Eviction {
    pub(super) keys: usize,
    /// When they were used last.
    pub(super) used: &'static str,
    /// In one pass.
    pub(super) evicted: usize,
    pub(super) passes: Samples,
    /// Lookups without passes, and beside them.
    pub(super) alone: Samples,
    pub(super) beside: Samples,
}

/// A line of the replays.
#[derive(Default)]
pub(super) struct Replay {
    /// Of a block.
    pub(super) tokens: u64,
    /// What part of the distinct keys is kept.
    pub(super) percent: usize,
    pub(super) distinct: usize,
    pub(super) requests: usize,
    pub(super) keys: usize,
    pub(super) hits: usize,
    pub(super) evicted: usize,
    pub(super) time: Duration,
    pub(super) lru_hits: usize,
    pub(super) lru_time: Duration,
}

impl Report {
    pub(super) fn start(options: &Options) -> Self {
        let conditions = machine::conditions();
        Self {
            conditions: format!("{conditions}, {} ms for each contender", options.time_ms),
            load_before: machine::load(),
            memory: Vec::new(),
            lookups: Vec::new(),
            writes: Vec::new(),
            recoveries: Vec::new(),
            finishes: Vec::new(),
            evictions: Vec::new(),
            replays: Vec::new(),
        }
    }

    pub(super) fn add_memory(&mut self, keys: usize, what: &str, bytes: f64) {
        let goal = match what.starts_with("index") {
            true => verdict(bytes <= BYTES_GOAL),
            false => "",
        };
        self.memory.push([
            what.to_owned(),
            thousands(keys as u64),
            format!("{bytes:.1}"),
            goal.to_owned(),
        ]);
    }

    pub(super) fn add_lookup(&mut self, lookup: Lookup) {
        let [index, bare, open] = lookup.times.map(|times| Times::of(&times));
        let is_goal = (lookup.keys, lookup.length) == (1_000_000, 1000)
            && (lookup.found, lookup.threads) == ("hit", 1);
        let goal = match is_goal {
            true => format!(
                "{}, {}",
                verdict(index.median <= micros(LOOKUP_GOAL)),
                verdict(bare.median >= FASTER_GOAL * index.median)
            ),
            false => String::new(),
        };
        self.lookups.push([
            thousands(lookup.keys as u64),
            lookup.length.to_string(),
            lookup.found.to_owned(),
            lookup.threads.to_string(),
            format!("{:.3}", index.median),
            format!("{:.3}", index.p99),
            format!("{:.3}", bare.median),
            format!("{:.3}", open.median),
            ratio(bare.median, index.median),
            ratio(open.median, index.median),
            goal,
        ]);
    }

    pub(super) fn add_write(&mut self, write: &Write<'_>) {
        let (times, bare) = (Times::of(write.samples), Times::of(write.bare));
        self.writes.push([
            write.what.to_owned(),
            format!("{:.2}", times.median),
            format!("{:.2}", times.p99),
            thousands((1e6 / times.median) as u64),
            ratio(times.median, bare.median),
        ]);
    }

    pub(super) fn add_recovery(&mut self, recovery: Recovery) {
        let per_million = |time: Duration| time.as_secs_f64() * 1e9 / recovery.keys as f64;
        let busy = recovery
            .busy
            .map(|busy| format!("{:.0}", per_million(busy)));
        let per_million = per_million(recovery.time);
        let (goal, met) = match recovery.goal.map(|goal| goal.as_secs_f64() * 1e3) {
            Some(goal) => (format!("<= {goal:.0}"), verdict(per_million <= goal)),
            None => (String::new(), ""),
        };
        self.recoveries.push([
            recovery.store.to_owned(),
            recovery.what.to_owned(),
            thousands(recovery.keys as u64),
            format!("{per_million:.0}"),
            busy.unwrap_or_else(|| "-".to_owned()),
            goal,
            met.to_owned(),
        ]);
    }

    pub(super) fn add_finishes(&mut self, finishes: &Finishes<'_>) {
        let times = Times::of(&finishes.samples);
        let optional = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        self.finishes.push([
            finishes.store.to_owned(),
            finishes.callers.to_string(),
            thousands(finishes.rate as u64),
            format!("{:.0}", times.median),
            format!("{:.0}", times.p99),
            optional(finishes.bare.map(|rate| thousands(rate as u64))),
            optional(finishes.bare.map(|rate| ratio(finishes.rate, rate))),
            optional(finishes.msets.map(|rate| thousands(rate as u64))),
            optional(finishes.msets.map(|rate| ratio(finishes.rate, rate))),
        ]);
    }

    pub(super) fn add_eviction(&mut self, eviction: &Eviction) {
        let pass = eviction.passes.percentile(50);
        let (alone, beside) = (Times::of(&eviction.alone), Times::of(&eviction.beside));
        self.evictions.push([
            thousands(eviction.keys as u64),
            eviction.used.to_owned(),
            thousands(eviction.evicted as u64),
            format!("{:.1}", pass.as_secs_f64() * 1e3),
            format!("{:.0}", micros(pass) * 1e3 / eviction.evicted.max(1) as f64),
            format!("{:.1} / {:.1}", alone.median, alone.p99),
            format!("{:.1} / {:.1}", beside.median, beside.p99),
            format!("{:.0}", micros(eviction.beside.max())),
        ]);
    }

    pub(super) fn add_replay(&mut self, replay: &Replay) {
        let share = |hits: usize| hits as f64 * 100.0 / (replay.keys as f64).max(1.0);
        let rate = |time: Duration| replay.requests as f64 / time.as_secs_f64();
        let (ours, exact) = (share(replay.hits), share(replay.lru_hits));
        self.replays.push([
            replay.tokens.to_string(),
            thousands(replay.distinct as u64),
            format!("{} %", replay.percent),
            format!("{ours:.2} %"),
            format!("{exact:.2} %"),
            format!("{:+.2}", ours - exact),
            verdict((ours - exact).abs() <= REPLAY_GOAL).to_owned(),
            thousands(replay.evicted as u64),
            thousands(rate(replay.time) as u64),
            thousands(rate(replay.lru_time) as u64),
            ratio(rate(replay.time), rate(replay.lru_time)),
        ]);
    }

    pub(super) fn finish(self) -> String {
        let mut text = format!(
            "{}\nload (1, 5, 15 minutes): {} before, {} after\n",
            self.conditions,
            self.load_before,
            machine::load(),
        );
        let mut add = |title: &str, table: String| {
            text.push_str(&format!("\n{title}\n{table}"));
        };
        if !self.memory.is_empty() {
            let columns = [
                Column::Text("what"),
                Column::Number("keys"),
                Column::Number("bytes per key"),
                Column::Text("<= 100"),
            ];
            add("memory, with locations", table(columns, &self.memory));
        }
        if !self.lookups.is_empty() {
            let columns = [
                Column::Number("keys"),
                Column::Number("asked"),
                Column::Text("found"),
                Column::Number("threads"),
                Column::Number("index us"),
                Column::Number("p99"),
                Column::Number("hashbrown us"),
                Column::Number("open us"),
                Column::Number("faster"),
                Column::Number("faster than open"),
                Column::Text("<= 2 us, >= 10 x"),
            ];
            let title = "prefix match, each query another chain; medians";
            add(title, table(columns, &self.lookups));
        }
        if !self.writes.is_empty() {
            let columns = [
                Column::Text("write of 128 new keys"),
                Column::Number("p50 us"),
                Column::Number("p99 us"),
                Column::Number("per s"),
                Column::Number("of hashbrown's time"),
            ];
            add("writes in memory, one thread", table(columns, &self.writes));
        }
        if !self.recoveries.is_empty() {
            let columns = [
                Column::Text("store"),
                Column::Text("recovery from"),
                Column::Number("keys"),
                Column::Number("ms per million"),
                Column::Number("cpu ms"),
                Column::Number("goal"),
                Column::Text(""),
            ];
            add("claim and recovery", table(columns, &self.recoveries));
        }
        if !self.finishes.is_empty() {
            let columns = [
                Column::Text("store"),
                Column::Number("callers"),
                Column::Number("per s"),
                Column::Number("p50 us"),
                Column::Number("p99 us"),
                Column::Number("bare"),
                Column::Number("of bare"),
                Column::Number("MSET"),
                Column::Number("of MSET"),
            ];
            let title = "finishes of 128 keys; bare: write and fdatasync one at a time, or EVALSHA \
                         in pipelines of as many as callers; MSET of 128 keys by as many connections";
            add(title, table(columns, &self.finishes));
        }
        if !self.evictions.is_empty() {
            let columns = [
                Column::Number("keys"),
                Column::Text("last used"),
                Column::Number("go in a pass"),
                Column::Number("ms"),
                Column::Number("ns a key"),
                Column::Number("lookup us alone"),
                Column::Number("beside"),
                Column::Number("longest"),
            ];
            let title = "eviction of one part in 64; lookups of 128 keys by another thread, p50 / \
                         p99";
            add(title, table(columns, &self.evictions));
        }
        if !self.replays.is_empty() {
            let columns = [
                Column::Number("tokens"),
                Column::Number("distinct"),
                Column::Number("kept"),
                Column::Number("hit ratio"),
                Column::Number("exact LRU"),
                Column::Number("points"),
                Column::Text("<= 0.5"),
                Column::Number("evicted"),
                Column::Number("requests/s"),
                Column::Number("LRU's"),
                Column::Number("of LRU's"),
            ];
            let title = "trace: prefix match, write of what is missing, eviction; one caller";
            add(title, table(columns, &self.replays));
        }
        text
    }
}

/// Microseconds.
struct Times {
    median: f64,
    p99: f64,
}

impl Times {
    fn of(samples: &Samples) -> Self {
        Self {
            median: micros(samples.percentile(50)),
            p99: micros(samples.percentile(99)),
        }
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

fn ratio(part: f64, whole: f64) -> String {
    if whole > 0.0 {
        format!("{:.2}", part / whole)
    } else {
        "-".to_owned()
    }
}
