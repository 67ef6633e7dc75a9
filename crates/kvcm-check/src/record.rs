//! The lines of a history.

use serde::{Deserialize, Serialize};

/// A block's key.
pub type Key = i64;

/// One line of `history.jsonl`. All moments are nanoseconds of one monotonic clock, which the
/// nodes' logs use as well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Record {
    /// What was run; the first line.
    Run(Run),
    /// A call of a client.
    Call(Call),
    /// Something was done to the cluster.
    Fault(Fault),
    /// The store was made to forget, in part or all.
    Loss(Loss),
    /// The process of a node was killed or has ended.
    Ended(Ended),
}

/// What was run, and what may be expected of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Decides the faults.
    pub seed: u64,
    /// How to do it again.
    pub command: String,
    /// A leader's lease, in nanoseconds.
    pub lease: u64,
    /// Blocks and write sessions outlive their leader.
    pub durable_blocks: bool,
    /// Registered instances outlive their leader.
    pub durable_registry: bool,
    /// A repeat of a request id gets the same answer from a later leader too.
    pub durable_answers: bool,
    /// How long it may take from the end of a fault until a leader serves, in nanoseconds; 0: that
    /// was not looked at.
    #[serde(default)]
    pub recovery: u64,
    /// What the run must have reached, so that a cluster that refuses everything does not pass.
    pub floors: Floors,
}

/// What a run must have reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Floors {
    /// Changes of leader.
    pub leader_changes: usize,
    /// Share of calls outside all fault windows that went well, 0 to 1.
    pub ok_share: f64,
}

/// A call of a client, retries included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Who made it; one client makes one call at a time.
    pub client: u32,
    /// Taken before it was sent.
    pub invoke: u64,
    /// Taken when its answer was there; absent when the caller went on without one.
    #[serde(rename = "return", default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<u64>,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The leader's epoch, as the answer tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// The same over all repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// How often it was sent, at most; more than 1 when a client tries by itself.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub attempts: u32,
    /// What it was for, and what was answered.
    pub op: Op,
    /// What is known of it.
    pub outcome: Outcome,
    /// Of a refusal that names a leader: that leader's epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<u64>,
    /// What the client knew of the leader afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a client that follows the leader by itself knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Epoch of the leader that it would ask next; 0 when it knows none.
    pub epoch: u64,
    /// How often it has followed a hint so far.
    pub redirects: u64,
}

/// What a call was for. Lists of answers are empty unless the outcome is OK.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Op {
    /// Where are these blocks?
    Lookup {
        /// The blocks.
        keys: Vec<Key>,
        /// For each the place that it can be read from, or null.
        uris: Vec<Option<String>>,
    },
    /// Reserves places for blocks.
    Start {
        /// The blocks.
        keys: Vec<Key>,
        /// For each the place granted, or null when it is stored or being written.
        granted: Vec<Option<String>>,
        /// The write session.
        session: Option<String>,
        /// How long the session lives, in nanoseconds.
        timeout: u64,
    },
    /// Ends a session.
    Finish {
        /// The write session.
        session: String,
        /// The blocks that it was granted.
        keys: Vec<Key>,
        /// Their places.
        uris: Vec<String>,
        /// Which of them were written; the others are given up.
        written: Vec<bool>,
        /// The answer was that there is no such session.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        gone: bool,
    },
    /// Forgets blocks.
    Remove {
        /// The blocks.
        keys: Vec<Key>,
    },
    /// Registers an instance.
    Register {
        /// Its id.
        instance: String,
    },
    /// Is this instance registered?
    Instance {
        /// Its id.
        instance: String,
        /// The answer.
        known: bool,
    },
    /// Anything else.
    Other {
        /// What it is called.
        name: String,
    },
}

/// What is known of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was done.
    Ok,
    /// It was not done, and will not be.
    Fail,
    /// It may have been done, or may still be.
    Unknown,
}

/// Something that was done to the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// When it began.
    pub at: u64,
    /// When it was over, as far as whoever did it is concerned.
    pub until: u64,
    /// When a leader served again, all nodes being up; absent when that took too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered: Option<u64>,
    /// Its kind, the same word each time.
    pub kind: String,
    /// To whom, and how much.
    pub target: String,
}

/// The store was made to forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// When it began.
    pub at: u64,
    /// When it was done. When readers see it is not known.
    pub until: u64,
}

/// The process of a node was killed, or has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Its name, as in the name of its log.
    pub node: String,
    /// Until then it may have served.
    pub at: u64,
}

impl Call {
    /// Whether it was answered with OK.
    pub fn is_ok(&self) -> bool {
        self.outcome == Outcome::Ok
    }

    /// Whether a user would call it an error: not OK, and neither sent on nor told to begin again.
    pub fn is_error(&self) -> bool {
        let is_gone = matches!(self.op, Op::Finish { gone: true, .. });
        !self.is_ok() && self.hint.is_none() && !is_gone
    }

    /// When its effect and answer are settled; never for what is unknown.
    pub fn settled(&self) -> Option<u64> {
        self.returned.filter(|_| self.outcome != Outcome::Unknown)
    }
}

const fn one() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
const fn is_one(attempts: &u32) -> bool {
    *attempts == 1
}
