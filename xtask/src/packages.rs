//! Installing Debian packages where tests and benches need them.

use std::process::Command;

use anyhow::{Context, bail};

use crate::shell;

/// Installs `package`, which brings `what`. The error of whoever cannot says to do it by hand.
pub(crate) fn install(what: &str, package: &str) -> anyhow::Result<()> {
    if shell::find_program("apt-get").is_none() {
        bail!("there is no apt-get here to install {what} with");
    }
    if !is_root() {
        bail!("not root, so {what} is not installed from here");
    }
    eprintln!("{what} is missing: installing it with apt-get");
    shell::timed(&format!("installing {package}"), || {
        // A package list can be stale in part and the install still succeed, so the update may
        // fail.
        if let Err(error) = shell::run(&mut apt_get(&["update"])) {
            eprintln!("{error:#}; trying to install all the same");
        }
        let words = ["install", "-y", "--no-install-recommends", package];
        shell::run(&mut apt_get(&words))
    })
    .with_context(|| format!("{what} cannot be installed"))
}

fn apt_get(args: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command
        .arg("-q")
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        // The package would start a server on the well-known port; tests start their own.
        .env("RUNLEVEL", "1");
    command
}

fn is_root() -> bool {
    shell::output(Command::new("id").arg("-u")).is_ok_and(|out| out.trim_ascii() == b"0")
}
