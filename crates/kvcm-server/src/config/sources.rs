//! What the command line names as configuration.

use std::path::PathBuf;

/// The sources that the command line names. Defaults and environment come on top.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// A file of `key=value` lines.
    pub file: Option<PathBuf>,
    /// `key=value` texts, in the order of the command line.
    pub settings: Vec<String>,
    /// Treat unknown keys as mistakes, not as warnings.
    pub refuse_unknown: bool,
}
