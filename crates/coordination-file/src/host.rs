//! Which boot of which host this is, and which process.

use std::{fs, io, path::Path};

use coordination_core::Error;
use serde::{Deserialize, Serialize};

use crate::error::file_error;

/// Names the clock that leases are measured on: the boot, and the time namespace, in which
/// `CLOCK_BOOTTIME` may have another origin. Moments under another name mean nothing here.
pub(crate) fn clock_name() -> Result<String, Error> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let boot = fs::read_to_string(path).map_err(|error| {
        let hint = "mount /proc: the file backend tells boots apart by it";
        Error::fatal(hint, file_error("read", path, error))
    })?;
    // Kernels before 5.6 have no time namespaces, so nothing to tell apart.
    let namespace = namespace("time").unwrap_or_default();
    Ok(format!("{} {namespace}", boot.trim()))
}

/// Whether two clocks are of one boot of one host, so that one kernel knows of all locks of files.
pub(crate) fn same_boot(one: &str, other: &str) -> bool {
    let boot = |clock: &str| clock.split(' ').next().map(str::to_owned);
    boot(one) == boot(other)
}

/// A process, as far as others can find it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// In which namespace the number counts; empty when that is not known.
    pub(crate) pid_namespace: String,
}

impl Process {
    /// The process that runs this.
    pub(crate) fn own() -> Self {
        Self {
            pid: std::process::id(),
            pid_namespace: namespace("pid").unwrap_or_default(),
        }
    }

    /// Whether the number of `other` counts here, too.
    pub(crate) fn can_see(&self, other: &Self) -> bool {
        !self.pid_namespace.is_empty() && self.pid_namespace == other.pid_namespace
    }
}

fn namespace(kind: &str) -> io::Result<String> {
    let link = fs::read_link(format!("/proc/self/ns/{kind}"))?;
    Ok(link.to_string_lossy().into_owned())
}
