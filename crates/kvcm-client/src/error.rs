//! Errors that tell what was tried.

use std::fmt;

use crate::attempt::Attempt;

/// What kind of failure a call ended in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request or the configuration is wrong; the message names the field.
    InvalidArgument,
    /// The cluster does not know the instance, and registering it again did not help.
    InstanceNotExist,
    /// Something of that name exists and differs.
    Duplicate,
    /// A quota or limit is reached.
    Capacity,
    /// The write session is unknown: it expired, was finished before, or was lost with the
    /// leader that kept it. Nothing of it can be read; begin the write again.
    SessionGone,
    /// Nodes answer, and none of them knew a leader until the deadline: there is none.
    NoLeader,
    /// Nodes answer and name a leader, but the address that it advertises cannot be reached from
    /// here: check the leader's `kvcm.service.advertised_host` and the network.
    LeaderUnreachable,
    /// The node does not lead, or not with the expected epoch (calls that are never redirected).
    NotLeader,
    /// No answer before the deadline.
    DeadlineExceeded,
    /// No node could be reached, or connections failed, until the deadline.
    Transport,
    /// The credentials are missing or wrong, or do not allow the call.
    Unauthorized,
    /// The client was closed.
    Closed,
    /// The server does not offer this.
    Unsupported,
    /// Another failure of the server, by its number in the protocol's `ErrorCode`.
    Server(i32),
}

/// What is known of an operation whose call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It did not happen.
    NotDone,
    /// It may have happened, or may still happen.
    Unknown,
}

/// A call that failed, with everything that was tried for it.
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    outcome: Outcome,
    call: &'static str,
    message: String,
    attempts: Vec<Attempt>,
    attempts_total: u32,
}

impl Error {
    /// An error that did not reach any node.
    pub(crate) fn local(kind: ErrorKind, call: &'static str, message: impl Into<String>) -> Self {
        Self::new(kind, Outcome::NotDone, call, message)
    }

    pub(crate) fn new(
        kind: ErrorKind,
        outcome: Outcome,
        call: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self(Box::new(Inner {
            kind,
            outcome,
            call,
            message: message.into(),
            attempts: Vec::new(),
            attempts_total: 0,
        }))
    }

    pub(crate) fn with_attempts(mut self, attempts: Vec<Attempt>, total: u32) -> Self {
        self.0.attempts = attempts;
        self.0.attempts_total = total;
        self
    }

    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the operation may have happened all the same.
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// The remote call, as the protocol names it.
    pub fn call(&self) -> &'static str {
        self.0.call
    }

    /// What the server said, or why the client gave up, in one sentence.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What was tried, in order; of a long story only the beginning and the end.
    pub fn attempts(&self) -> &[Attempt] {
        &self.0.attempts
    }

    /// How many steps there were, those left out of [`attempts`](Self::attempts) included.
    pub fn attempts_total(&self) -> u32 {
        self.0.attempts_total
    }
}

impl std::error::Error for Error {}

// === impl Display ===

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidArgument => "invalid argument",
            Self::InstanceNotExist => "instance does not exist",
            Self::Duplicate => "differs from what exists",
            Self::Capacity => "a limit is reached",
            Self::SessionGone => "the write session is gone",
            Self::NoLeader => "no leader",
            Self::LeaderUnreachable => "the leader cannot be reached",
            Self::NotLeader => "not the leader",
            Self::DeadlineExceeded => "no answer before the deadline",
            Self::Transport => "connections fail",
            Self::Unauthorized => "not allowed",
            Self::Closed => "closed",
            Self::Unsupported => "not supported by the server",
            Self::Server(code) => return write!(f, "server error {code}"),
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotDone => "nothing happened",
            Self::Unknown => "it may have happened",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            kind,
            outcome,
            call,
            message,
            attempts,
            attempts_total,
        } = &*self.0;
        write!(f, "{call}: {kind} ({outcome})")?;
        if !message.is_empty() {
            write!(f, ": {message}")?;
        }
        if attempts.is_empty() {
            return Ok(());
        }
        write!(f, "; {attempts_total} steps: ")?;
        for (index, attempt) in attempts.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{attempt}")?;
        }
        Ok(())
    }
}
