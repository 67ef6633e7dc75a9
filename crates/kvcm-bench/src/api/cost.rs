//! What can be switched on for every call.

/// A switch. One more is one more variant, with its key; a switch that clients must know of (a
/// token, a certificate) gives `Target` what `Caller` then sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    AccessLog,
    Metrics,
}

impl Switch {
    pub(super) const ALL: [Self; 2] = [Self::AccessLog, Self::Metrics];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::AccessLog => "access log",
            Self::Metrics => "metrics page",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::AccessLog => "kvcm.logger.access_log",
            Self::Metrics => "kvcm.metrics.enable_prometheus",
        }
    }

    /// Key and value of the configuration that has it on.
    pub(super) fn on(self) -> (&'static str, &'static str) {
        (self.key(), "true")
    }

    /// The configuration without any.
    pub(super) fn all_off() -> Vec<(&'static str, &'static str)> {
        Self::ALL.map(|switch| (switch.key(), "false")).to_vec()
    }
}
