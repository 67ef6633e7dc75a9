//! The tables.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Fault, Kind, Lane,
    record::{Line, Round},
};
use crate::{
    samples::Samples,
    table::{Column, table},
};

const MS: Duration = Duration::from_millis(1);

/// The rounds of one system at one lease under one fault.
pub(super) struct Case<'a> {
    pub(super) lane: Lane,
    pub(super) lease_ms: u64,
    pub(super) system: Kind,
    pub(super) gaps: Samples,
    rounds: Vec<&'a Round>,
}

/// All rounds in the order of the tables.
pub(super) fn cases(lines: &[Line], fault: Fault) -> Vec<Case<'_>> {
    let mut found = BTreeMap::<_, Vec<&Round>>::new();
    for line in lines {
        if let Line::Round(round) = line
            && round.fault == fault
        {
            let place = (round.lane, round.lease_of_table(), round.system);
            found.entry(place).or_default().push(round);
        }
    }
    let cases = found.into_iter().map(|((lane, _, system), rounds)| Case {
        lane,
        lease_ms: rounds[0].lease_ms,
        system,
        gaps: rounds.iter().map(|round| round.gap()).collect(),
        rounds,
    });
    cases.collect()
}

impl Round {
    pub(super) fn gap(&self) -> Duration {
        Duration::from_micros(self.gap_us)
    }

    /// Systems stand together by lease, but for those that come with different ones.
    fn lease_of_table(&self) -> u64 {
        match self.lane {
            Lane::Tuned => self.lease_ms,
            Lane::Defaults => 0,
        }
    }
}

impl Case<'_> {
    /// The lease, and what of it was granted.
    pub(super) fn lease(&self) -> String {
        let asked = seconds(self.lease_ms);
        let granted = self.rounds[0].granted_ms;
        match granted == self.lease_ms {
            true => asked,
            false => format!("{asked}, granted {}", seconds(granted)),
        }
    }

    fn row(&self) -> [String; 11] {
        let total = |count: fn(&Round) -> u64| {
            let total: u64 = self.rounds.iter().map(|round| count(round)).sum();
            total.to_string()
        };
        [
            self.lane.name().to_owned(),
            self.lease(),
            self.system.name().to_owned(),
            ms(self.gaps.percentile(0)),
            ms(self.gaps.percentile(50)),
            ms(self.gaps.percentile(99)),
            ms(self.gaps.max()),
            self.gaps.len().to_string(),
            total(|round| round.changed.into()),
            total(|round| round.unknown),
            total(|round| round.stale),
        ]
    }
}

/// Runs, a table for each fault, and where others are faster.
pub(super) fn tables(lines: &[Line]) -> String {
    let mut text = String::new();
    let mut versions = BTreeMap::new();
    for line in lines {
        if let Line::Run(run) = line {
            text.push_str(&format!("{run}\n"));
            versions.extend(run.versions().iter().cloned());
        }
    }
    for (kind, version) in versions {
        text.push_str(&format!("{}: {version}\n", kind.name()));
    }
    let mut faster = Vec::new();
    for fault in Fault::ALL {
        let cases = cases(lines, fault);
        if cases.is_empty() {
            continue;
        }
        let rows: Vec<_> = cases.iter().map(Case::row).collect();
        let columns = [
            Column::Text("lane"),
            Column::Text("lease"),
            Column::Text("system"),
            Column::Number("min ms"),
            Column::Number("p50 ms"),
            Column::Number("p99 ms"),
            Column::Number("max ms"),
            Column::Number("rounds"),
            Column::Number("new leader"),
            Column::Number("unknown"),
            Column::Number("stale"),
        ];
        text.push_str(&format!(
            "\n{}: longest gap between two writes\n\n",
            fault.title()
        ));
        text.push_str(&table(columns, &rows));
        faster.extend(faster_peers(fault, &cases));
        faster.extend(given_up(fault, &cases));
    }
    if !faster.is_empty() {
        text.push_str(
            "\nwhere a peer is faster than kvcm, by median, by more than 1 ms and 2 %:\n",
        );
        text.push_str(&faster.join(""));
    }
    text
}

fn faster_peers(fault: Fault, cases: &[Case<'_>]) -> Vec<String> {
    let mut lines = Vec::new();
    for ours in cases.iter().filter(|case| case.system.is_ours()) {
        let own = ours.gaps.percentile(50);
        let rivals = cases.iter().filter(|case| {
            let is_same = case.lane == ours.lane
                && (case.lane == Lane::Defaults || case.lease_ms == ours.lease_ms);
            let gap = case.gaps.percentile(50);
            is_same && !case.system.is_ours() && gap.mul_f64(1.02) + MS < own
        });
        for rival in rivals {
            lines.push(format!(
                "  {}, {} ({}): {} {} ms, {} {} ms\n",
                fault.title(),
                ours.lease(),
                ours.lane.name(),
                rival.system.name(),
                ms(rival.gaps.percentile(50)),
                ours.system.name(),
                ms(own),
            ));
        }
    }
    lines
}

fn given_up(fault: Fault, cases: &[Case<'_>]) -> Vec<String> {
    let lost = cases.iter().filter_map(|case| {
        let count = case.rounds.iter().filter(|round| !round.recovered).count();
        let (lease, system) = (case.lease(), case.system.name());
        (count > 0).then(|| {
            format!(
                "  given up: {}, {lease}, {system}: {count}\n",
                fault.title()
            )
        })
    });
    lost.collect()
}

fn seconds(ms: u64) -> String {
    format!("{} s", ms as f64 / 1000.0)
}

fn ms(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::{super::record::tests::round, *};

    #[test]
    fn a_row_tells_the_spread_and_peers_that_are_faster_are_named() {
        let mut lines = Vec::new();
        for gap in [5_000, 7_000, 900_000] {
            lines.push(Line::Round(round(Kind::KvcmRedis, Fault::Kill, gap)));
        }
        let mut other = round(Kind::Plain, Fault::Kill, 5_500);
        other.granted_ms = 2000;
        other.stale = 3;
        lines.push(Line::Round(other));
        let text = tables(&lines);
        let row = |name: &str| {
            let line = text.lines().find(|line| line.contains(name)).unwrap();
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let ours = row("kvcm-redis").join(" ");
        assert_eq!(ours, "tuned 1 s kvcm-redis 5.0 7.0 900.0 900.0 3 3 0 0");
        let plain = row("plain-lock").join(" ");
        assert_eq!(
            plain,
            "tuned 1 s, granted 2 s plain-lock 5.5 5.5 5.5 5.5 1 1 0 3"
        );
        assert!(
            text.contains("1 s (tuned): plain-lock 5.5 ms, kvcm-redis 7.0 ms"),
            "{text}"
        );
    }

    #[test]
    fn what_was_given_up_is_said() {
        let mut lost = round(Kind::Sentinel, Fault::Stop, 1);
        lost.recovered = false;
        let text = tables(&[Line::Round(lost)]);
        assert!(
            text.contains("given up: SIGSTOP of the leader, 1 s, sentinel: 1"),
            "{text}"
        );
    }
}
