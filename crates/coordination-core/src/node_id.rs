//! The name of a node.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Names a node across restarts: 1 to 255 bytes without white space, control characters,
/// slashes or backslashes (it becomes part of keys and file names).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeId(Arc<str>);

/// A text that cannot be a node id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a node id (1 to 255 bytes without white space, control characters, / or \\)")]
pub struct InvalidNodeId(pub String);

impl NodeId {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// === impl conversions ===

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for NodeId {
    type Err = InvalidNodeId;

    fn from_str(text: &str) -> Result<Self, InvalidNodeId> {
        let refused = |c: char| c.is_whitespace() || c.is_control() || c == '/' || c == '\\';
        if text.is_empty() || text.len() > 255 || text.contains(refused) {
            return Err(InvalidNodeId(text.chars().take(80).collect()));
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for NodeId {
    type Error = InvalidNodeId;

    fn try_from(text: String) -> Result<Self, InvalidNodeId> {
        text.parse()
    }
}

impl From<NodeId> for String {
    fn from(id: NodeId) -> Self {
        id.0.as_ref().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_would_break_keys_are_refused() {
        for text in ["", "a b", "a/b", "a\\b", "a\nb", &"x".repeat(256)] {
            assert!(text.parse::<NodeId>().is_err(), "{text:?}");
        }
        assert_eq!(
            "10.0.0.1:6492_k3".parse::<NodeId>().unwrap().as_str(),
            "10.0.0.1:6492_k3"
        );
    }
}
