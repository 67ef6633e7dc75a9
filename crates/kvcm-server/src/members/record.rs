//! What a node writes about itself.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::node::Endpoint;

/// Between two heartbeats.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(1);

/// A record that was not renewed for so long is of a node that is dead, stopped or cut off.
pub(crate) const RECORD_TTL: Duration = Duration::from_secs(3);

/// The backend forgets a record that was not renewed for so long. Until then operators see the node
/// as expired, instead of wondering whether there were two or three.
pub(crate) const RECORD_KEPT: Duration = Duration::from_secs(9);

/// What a node writes about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct NodeRecord {
    /// How to reach it; its fields stand at the top level, as the predecessor has them.
    #[serde(flatten)]
    pub(crate) endpoint: Endpoint,
    /// This life of its process.
    pub(crate) incarnation: String,
    /// What it is: `follower`, `leader`, …
    pub(crate) role: String,
    /// Whether it can answer discovery and could campaign.
    pub(crate) ready: bool,
    /// Whether it may campaign: nobody has paused it.
    pub(crate) eligible: bool,
    /// Nodes of a higher one are given the first chance.
    pub(crate) priority: u8,
    /// Its version.
    pub(crate) version: String,
}
