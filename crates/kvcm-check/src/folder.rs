//! Reading what a run left.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::Path,
};

use anyhow::{Context, bail};

use crate::{History, Record, read_gate_log};

const FILE: &str = "history.jsonl";

/// Reads `history.jsonl` and the logs `node-*.log` of `folder`.
///
/// # Errors
/// A file that cannot be read, or a line that is none; the error names it.
pub fn read_folder(folder: &Path) -> anyhow::Result<History> {
    let mut history = read_history(&folder.join(FILE))?;
    let mut logs = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()));
    for entry in entries? {
        let path = entry?.path();
        let is_log = path.extension().is_some_and(|extension| extension == "log");
        let name = path.file_stem().and_then(|name| name.to_str());
        if let Some(name) = name.filter(|name| is_log && name.starts_with("node-")) {
            let text =
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let events = read_gate_log(&String::from_utf8_lossy(&text));
            logs.push((name.to_owned(), events));
        }
    }
    logs.sort_unstable_by(|(a, _): &(String, _), (b, _)| a.cmp(b));
    history.gates = logs;
    Ok(history)
}

fn read_history(path: &Path) -> anyhow::Result<History> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut history = History::default();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let place = || format!("line {} of {}", number + 1, path.display());
        let line = line.with_context(place)?;
        let record: Record = serde_json::from_str(&line).with_context(place)?;
        if (number == 0) != matches!(record, Record::Run(_)) {
            bail!("{}: a history begins with its one `run`", place());
        }
        history.add(record);
    }
    Ok(history)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GateEvent, Run};

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let run = Record::Run(Run {
            seed: 7,
            ..Run::default()
        });
        let call = r#"{"type":"call","client":1,"invoke":5,"return":9,"op":{"kind":"remove","keys":[-3]},"outcome":"ok"}"#;
        let text = format!("{}\n{call}\n", serde_json::to_string(&run).unwrap());
        fs::write(folder.path().join(FILE), text).unwrap();
        let log = r#"{"gate":"open","epoch":7,"at_ns":1}"#;
        fs::write(folder.path().join("node-2.log"), log).unwrap();
        fs::write(folder.path().join("redis.log"), log).unwrap();
        let history = read_folder(folder.path()).unwrap();
        assert_eq!((history.run.seed, history.calls.len()), (7, 1));
        assert_eq!(
            (history.calls[0].attempts, history.calls[0].returned),
            (1, Some(9))
        );
        let events = vec![GateEvent::Open { epoch: 7, at: 1 }];
        assert_eq!(history.gates, [("node-2".into(), events)]);
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let run = serde_json::to_string(&Record::Run(Run::default())).unwrap();
        for (text, place) in [("{}".to_owned(), "line 1"), (format!("{run}\nx"), "line 2")] {
            fs::write(folder.path().join(FILE), text).unwrap();
            let error = format!("{:#}", read_folder(folder.path()).unwrap_err());
            assert!(error.contains(place), "{error}");
        }
        fs::write(folder.path().join(FILE), format!("{run}\n{run}")).unwrap();
        let error = read_folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains("begins with"), "{error}");
    }
}
