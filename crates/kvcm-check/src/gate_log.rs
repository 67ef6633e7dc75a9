//! What the nodes' own logs tell of their gates.

use serde::Deserialize;

/// What happened to a gate. Moments are those of the node's clock, which is that of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateEvent {
    /// Leader-only work was let in from now on.
    Open {
        /// Under this epoch.
        epoch: u64,
        /// The moment.
        at: u64,
    },
    /// Nothing was let in or out any more.
    Shut {
        /// Under this epoch.
        epoch: u64,
        /// The moment, or the end of the lease when that came first.
        at: u64,
    },
}

/// A line of the log as far as it matters here.
#[derive(Deserialize)]
struct Line {
    gate: String,
    epoch: u64,
    at_ns: u64,
}

/// Reads the lines of a node's JSON log that have a field `gate`; `open` or `shut`. Others, also
/// torn ones, are passed over: a log ends anywhere when its process is killed.
pub fn read_gate_log(text: &str) -> Vec<GateEvent> {
    let lines = text.lines().filter(|line| line.contains("\"gate\""));
    let parsed = lines.filter_map(|line| serde_json::from_str::<Line>(line).ok());
    parsed
        .filter_map(|Line { gate, epoch, at_ns }| match gate.as_str() {
            "open" => Some(GateEvent::Open { epoch, at: at_ns }),
            "shut" => Some(GateEvent::Shut { epoch, at: at_ns }),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_about_gates_are_read() {
        let text = r#"starting
{"level":"INFO","message":"serving","gate":"open","epoch":7,"at_ns":100,"target":"elector"}
{"level":"INFO","message":"standing by"}
{"level":"INFO","message":"x","gate":"shut","epoch":7,"at_ns":200}
{"level":"INFO","message":"x","gate":"op"#;
        let events = [
            GateEvent::Open { epoch: 7, at: 100 },
            GateEvent::Shut { epoch: 7, at: 200 },
        ];
        assert_eq!(read_gate_log(text), events);
    }
}
