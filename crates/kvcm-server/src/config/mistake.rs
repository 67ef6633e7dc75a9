//! What is wrong with a configuration.

use std::fmt;

use thiserror::Error;

/// One mistake. Prints without passwords.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Mistake {
    /// A key has a value that it cannot have.
    #[error("{key} = `{value}` ({origin}): {problem}")]
    Value {
        /// The key.
        key: &'static str,
        /// Its value, passwords replaced.
        value: String,
        /// Where the value comes from.
        origin: String,
        /// What is wrong, and what was expected.
        problem: String,
    },
    /// A source, or a part of one, cannot be read.
    #[error("{origin}: {problem}")]
    Source {
        /// Which source, with its line.
        origin: String,
        /// What is wrong, and what was expected.
        problem: String,
    },
}

/// Every mistake of a configuration, at least one. Whoever gets it ends with exit code 2.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        let noun = if count == 1 { "mistake" } else { "mistakes" };
        write!(f, "{count} configuration {noun}:")?;
        for mistake in &self.0 {
            write!(f, "\n  {mistake}")?;
        }
        Ok(())
    }
}
