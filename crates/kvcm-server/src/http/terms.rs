//! On which terms connections are served.

use std::sync::Arc;

use super::{ConnectionLimits, Refusals};
use crate::tls::Tls;

/// On which terms a listener serves its connections.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Limits on them.
    pub limits: ConnectionLimits,
    /// They speak TLS; none: plain text.
    pub tls: Option<Tls>,
    /// Where refusals are counted.
    pub refusals: Arc<Refusals>,
}

impl From<ConnectionLimits> for Terms {
    /// Plain text, counted for nobody.
    fn from(limits: ConnectionLimits) -> Self {
        Self {
            limits,
            tls: None,
            refusals: Arc::default(),
        }
    }
}
