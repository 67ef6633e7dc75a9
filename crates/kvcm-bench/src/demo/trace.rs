//! The requests to replay.

use std::{fs::File, io::BufReader, path::Path, time::Duration};

use anyhow::{Context, ensure};
use kvcm_trace::{Expansion, Generator, Reader, Request};

use super::Options;

/// How many requests of a generated trace are replayed unless the options say so.
const GENERATED: usize = 6000;
/// With fewer requests some phase would be empty.
const REQUESTS_MIN: usize = 20;

/// Requests with the pace at which they are replayed.
#[derive(Debug)]
pub(crate) struct Trace {
    /// In order of arrival.
    pub(crate) requests: Vec<Request>,
    /// How the ids become keys.
    pub(crate) expansion: Expansion,
    /// The trace is faster by this factor than life was; 0 for no waiting at all.
    speed: f64,
}

impl Trace {
    /// Reads or makes what the options ask for.
    pub(crate) fn load(options: &Options) -> anyhow::Result<Self> {
        let limit = options.requests.map(|count| count as usize);
        let requests = match &options.trace {
            Some(file) => read(file, limit.unwrap_or(usize::MAX))?,
            None => Generator::new(options.seed)
                .take(limit.unwrap_or(GENERATED))
                .collect(),
        };
        let span_ms = requests
            .iter()
            .map(|request| request.at_ms)
            .max()
            .unwrap_or(0);
        let speed = match options.seconds {
            0 => 0.0,
            seconds => span_ms as f64 / (f64::from(seconds) * 1000.0),
        };
        Ok(Self {
            requests,
            expansion: Expansion::new(options.expand)?,
            speed,
        })
    }

    /// When a request is due, after the start.
    pub(crate) fn due(&self, request: &Request) -> Duration {
        if self.speed == 0.0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(request.at_ms as f64 / 1000.0 / self.speed)
    }

    /// How many times faster than life it is replayed; `None` for no waiting at all.
    pub(crate) fn speed(&self) -> Option<f64> {
        (self.speed > 0.0).then_some(self.speed)
    }
}

fn read(path: &Path, limit: usize) -> anyhow::Result<Vec<Request>> {
    let file =
        File::open(path).with_context(|| format!("--trace: cannot open {}", path.display()))?;
    let requests: Vec<_> = Reader::new(BufReader::new(file))
        .take(limit)
        .collect::<Result<_, _>>()
        .with_context(|| format!("--trace: {}", path.display()))?;
    ensure!(
        requests.len() >= REQUESTS_MIN,
        "--trace: {} holds {} requests, and {REQUESTS_MIN} are needed",
        path.display(),
        requests.len()
    );
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;

    use super::*;

    fn load(args: &[&str]) -> anyhow::Result<Trace> {
        Trace::load(&Options::parse_from(["demo"].iter().chain(args)))
    }

    #[test]
    fn a_generated_trace_is_compressed_into_the_time_asked_for() {
        let trace = load(&["--requests", "100", "--seconds", "5"]).unwrap();
        assert_eq!(trace.requests.len(), 100);
        let last = trace.due(trace.requests.last().unwrap());
        assert!((4.99..5.01).contains(&last.as_secs_f64()), "{last:?}");
        let fast = load(&["--requests", "100", "--seconds", "0"]).unwrap();
        assert_eq!(fast.due(fast.requests.last().unwrap()), Duration::ZERO);
        assert_eq!(fast.speed(), None);
    }

    #[test]
    fn a_bad_file_is_named_with_line_and_field() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.jsonl");
        let args = ["--trace", path.to_str().unwrap()];
        let error = format!("{:#}", load(&args).unwrap_err());
        assert!(
            error.contains("cannot open") && error.contains("trace.jsonl"),
            "{error}"
        );
        fs::write(&path, "{\"timestamp\":1}\n").unwrap();
        let error = format!("{:#}", load(&args).unwrap_err());
        assert!(
            error.contains("trace.jsonl: line 1: field `input_length`"),
            "{error}"
        );
        fs::write(&path, "").unwrap();
        let error = format!("{:#}", load(&args).unwrap_err());
        assert!(error.contains("holds 0 requests"), "{error}");
    }
}
