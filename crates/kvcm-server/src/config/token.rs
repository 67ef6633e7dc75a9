//! A bearer token.

use std::fmt;

/// A bearer token of the configuration. Nothing prints it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The token itself, to be hashed at once.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}
