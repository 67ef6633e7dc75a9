//! What is wrong with a URI.

use std::fmt;

use thiserror::Error;

/// A URI that cannot be used, with every mistake in it. Prints without its password.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct UriError {
    /// The URI, its userinfo replaced.
    pub uri: String,
    /// At least one.
    pub mistakes: Vec<Mistake>,
}

/// One mistake in a URI.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Mistake {
    /// The text is no URI at all.
    #[error("it is not a URI: {0}")]
    Syntax(String),
    /// A parameter with a value that it cannot have.
    #[error("parameter `{name}` is `{value}`, expected {expected}")]
    Parameter {
        /// The parameter.
        name: String,
        /// What was written.
        value: String,
        /// What can be written.
        expected: String,
    },
    /// A parameter that is written twice.
    #[error("parameter `{0}` is given more than once")]
    Repeated(String),
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: ", self.uri)?;
        for (index, mistake) in self.mistakes.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{mistake}")?;
        }
        Ok(())
    }
}
