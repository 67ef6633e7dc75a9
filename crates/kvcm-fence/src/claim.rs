//! What a leader writes into a store.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ClusterId, Epoch, Incarnation};

/// What a new leader writes into a store to shut out older epochs, and what every write of its
/// reign carries.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// The cluster that the store belongs to.
    pub cluster: ClusterId,
    /// The epoch of the reign.
    pub epoch: Epoch,
    /// The process that leads.
    pub incarnation: Incarnation,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "epoch {} of {} in cluster {}",
            self.epoch, self.incarnation, self.cluster
        )
    }
}
