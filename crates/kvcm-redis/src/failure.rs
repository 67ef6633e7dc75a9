//! A call that gave no answer.

use redis::RedisError;
use thiserror::Error;

use crate::{
    Class, Outcome,
    class::{CREDENTIALS, said},
};

/// A call that gave no answer, with what follows from it. Its text holds no credentials.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct Failure {
    /// What the caller can do.
    pub class: Class,
    /// What happened.
    pub reason: String,
}

impl Failure {
    /// A failure of a known class.
    pub fn new(class: Class, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { class, reason }
    }

    /// A call that did not happen; a later one may.
    pub fn not_done(reason: impl Into<String>) -> Self {
        let outcome = Outcome::NotDone;
        Self::new(Class::Retryable { outcome }, reason)
    }

    /// A call that may have happened.
    pub fn unknown(reason: impl Into<String>) -> Self {
        let outcome = Outcome::Unknown;
        Self::new(Class::Retryable { outcome }, reason)
    }

    /// Whether the server refused the login.
    pub(crate) fn is_about_credentials(&self) -> bool {
        self.class == Class::Fatal { hint: CREDENTIALS }
    }

    /// The same failure of something that came before the call itself: nothing has happened.
    pub(crate) fn before_call(mut self) -> Self {
        if let Class::Retryable { outcome } = &mut self.class {
            *outcome = Outcome::NotDone;
        }
        self
    }

    /// The same failure when an earlier try of the same call may have happened.
    pub(crate) fn after_unknown(mut self) -> Self {
        if let Class::Retryable { outcome } = &mut self.class {
            *outcome = Outcome::Unknown;
        }
        self
    }
}

// === impl From ===

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        // What a server has said stands as it said it.
        let reason = said(&error).unwrap_or_else(|| error.to_string());
        Self::new(Class::of(&error), reason)
    }
}
