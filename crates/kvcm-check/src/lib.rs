//! Checks what clients of a cluster were told against what a correct one may say.
//!
//! A run leaves a folder: `history.jsonl`, one [`Record`] a line, and the nodes' logs. [`History`]
//! reads it, [`check`] names every [`Violation`] of the invariants, [`Summary`] counts what
//! happened. Nothing here knows the server or the client; whoever writes the format can be checked.
//! `docs/CHECKING.md` describes the format and the checks.

mod checks;
mod folder;
mod gate_log;
mod history;
mod key;
mod record;
mod report;
mod summary;
mod violation;

pub use checks::{check, stale_answers};
pub use folder::read_folder;
pub use gate_log::{GateEvent, read_gate_log};
pub use history::{GateInterval, History};
pub use key::{Entry, KeyOp, KeyState, Verdict, search};
pub use record::{Call, Ended, Fault, Floors, Key, Loss, Op, Outcome, Record, Route, Run};
pub use report::report;
pub use summary::{FaultLine, Summary};
pub use violation::{Invariant, Violation};
