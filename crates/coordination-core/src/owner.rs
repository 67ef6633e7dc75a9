//! Who can hold a lock.

use std::fmt;

use kvcm_fence::Incarnation;
use serde::{Deserialize, Serialize};

use crate::NodeId;

/// A node in one life of its process. Two lives of a node are two owners.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Owner {
    /// The node.
    pub node: NodeId,
    /// The life of its process.
    pub incarnation: Incarnation,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.node, self.incarnation)
    }
}
