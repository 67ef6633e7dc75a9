//! The tables.

use std::time::Duration;

use crate::{
    api::{
        CLIENTS, Options,
        call::{Call, Transport},
        cost::Switch,
        load::{Figures, Target},
    },
    machine,
    samples::Samples,
    table::{Column, table, thousands},
};

/// Calls of GetClusterInfo that one follower should answer in a second over gRPC.
const GOAL: f64 = 30_000.0;

/// Grows with the run.
pub(super) struct Report {
    conditions: String,
    load_before: String,
    calls: Vec<[String; 12]>,
    switches: Vec<[String; 9]>,
    once: Vec<[String; 7]>,
    /// The most calls of the goal's kind, here and of the bare server.
    best: (f64, f64),
}

impl Report {
    pub(super) fn start(options: &Options) -> Self {
        let Options { turns, turn_ms, .. } = options;
        let conditions = machine::conditions();
        Self {
            conditions: format!("{conditions}, {turns} turns of {turn_ms} ms for each server"),
            load_before: machine::load(),
            calls: Vec::new(),
            switches: Vec::new(),
            once: Vec::new(),
            best: (0.0, 0.0),
        }
    }

    pub(super) fn add_call(
        &mut self,
        target: &Target,
        clients: usize,
        ours: &Figures,
        bare: &Figures,
    ) {
        if (target.call, target.transport) == (Call::ClusterInfo, Transport::Grpc) {
            self.best.0 = self.best.0.max(ours.rate());
            self.best.1 = self.best.1.max(bare.rate());
        }
        self.calls.push([
            target.call.name().to_owned(),
            target.transport.name().to_owned(),
            clients.to_string(),
            thousands(ours.rate() as u64),
            thousands(bare.rate() as u64),
            ratio(Some(ours.rate()), Some(bare.rate())),
            micros(ours.samples.percentile(50)),
            micros(ours.samples.percentile(99)),
            micros(bare.samples.percentile(50)),
            micros(bare.samples.percentile(99)),
            cost(ours),
            cost(bare),
        ]);
    }

    pub(super) fn add_switch(
        &mut self,
        switch: Switch,
        call: Call,
        transport: Transport,
        on: &Figures,
        off: &Figures,
    ) {
        // On a node that leads itself there are no followers.
        let call = call.name().split(',').next().unwrap_or_default();
        self.switches.push([
            switch.name().to_owned(),
            call.to_owned(),
            transport.name().to_owned(),
            thousands(on.rate() as u64),
            thousands(off.rate() as u64),
            ratio(Some(on.rate()), Some(off.rate())),
            cost(on),
            cost(off),
            ratio(on.cost(), off.cost()),
        ]);
    }

    /// What is done once, beside something else.
    pub(super) fn add_once(&mut self, what: &str, beside: &str, this: &Samples, that: &Samples) {
        let (ours, theirs) = (this.percentile(50), that.percentile(50));
        self.once.push([
            what.to_owned(),
            micros(ours),
            micros(this.percentile(99)),
            beside.to_owned(),
            micros(theirs),
            micros(that.percentile(99)),
            ratio(Some(ours.as_secs_f64()), Some(theirs.as_secs_f64())),
        ]);
    }

    pub(super) fn finish(self) -> String {
        let calls = [
            Column::Text("call"),
            Column::Text("over"),
            Column::Number("clients"),
            Column::Number("per s"),
            Column::Number("bare"),
            Column::Number("ratio"),
            Column::Number("p50 us"),
            Column::Number("p99 us"),
            Column::Number("bare p50"),
            Column::Number("bare p99"),
            Column::Number("cpu us"),
            Column::Number("bare cpu"),
        ];
        let switches = [
            Column::Text("switched on"),
            Column::Text("call"),
            Column::Text("over"),
            Column::Number("per s"),
            Column::Number("off"),
            Column::Number("ratio"),
            Column::Number("cpu us"),
            Column::Number("off cpu"),
            Column::Number("ratio"),
        ];
        let once = [
            Column::Text("once, over HTTP"),
            Column::Number("p50 us"),
            Column::Number("p99 us"),
            Column::Text("beside"),
            Column::Number("p50 us"),
            Column::Number("p99 us"),
            Column::Number("ratio"),
        ];
        let (ours, bare) = self.best;
        format!(
            "{}\nload (1, 5, 15 minutes): {} before, {} after\n\n{}\n{CLIENTS} clients each:\n{}\n{}\n\
             GetClusterInfo over gRPC, most in a second: {}, bare {}; goal {}: {}\n",
            self.conditions,
            self.load_before,
            machine::load(),
            table(calls, &self.calls),
            table(switches, &self.switches),
            table(once, &self.once),
            thousands(ours as u64),
            thousands(bare as u64),
            thousands(GOAL as u64),
            if ours >= GOAL { "met" } else { "MISSED" },
        )
    }
}

fn micros(duration: Duration) -> String {
    thousands(duration.as_micros().try_into().unwrap_or(u64::MAX))
}

fn cost(figures: &Figures) -> String {
    let cost = figures.cost();
    cost.map_or_else(|| "-".to_owned(), |micros| format!("{micros:.1}"))
}

fn ratio(part: Option<f64>, whole: Option<f64>) -> String {
    match (part, whole) {
        (Some(part), Some(whole)) if whole > 0.0 => format!("{:.2}", part / whole),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_calls_over_the_time_of_the_turns() {
        let figures = |calls: usize| Figures {
            samples: vec![Duration::from_micros(50); calls].into_iter().collect(),
            time: Duration::from_millis(500),
            busy: Some(Duration::from_millis(10)),
        };
        let (on, off) = (figures(500), figures(1000));
        assert_eq!((on.rate(), off.rate()), (1000.0, 2000.0));
        assert_eq!(
            (cost(&on), cost(&off)),
            ("20.0".to_owned(), "10.0".to_owned())
        );
        assert_eq!(ratio(on.cost(), off.cost()), "2.00");
        assert_eq!(ratio(on.cost(), None), "-");
        assert_eq!(ratio(Some(1.0), Some(0.0)), "-");
    }
}
