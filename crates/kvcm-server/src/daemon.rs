//! Running in the background (`-d`).
//!
//! The process starts its own program again with the same arguments and ends when that child
//! serves its ports, or with the child's exit code when the child fails. Working folder, stdout
//! and stderr stay; stdin is empty. The child begins in a session of its own, before it opens
//! anything, so no lock or thread has to survive a fork.
//!
//! The child's stdin is a pipe at first: one byte through it says "serving", its end says
//! "failed".

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read as _, Write as _},
    os::{
        fd::AsFd as _,
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

/// Names the process that waits, to the one that it has started.
const PARENT: &str = "KVCM_DAEMON_PARENT";

/// Starts this program again as a daemon, waits until that one serves or fails, and gives the
/// code to end with.
///
/// # Errors
/// When the program cannot be started.
pub fn start() -> io::Result<ExitCode> {
    let (mut serving, told) = io::pipe()?;
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let mut child = Command::new(program(&name, &std::env::current_exe()?))
        // What `ps` shows is what was typed.
        .arg0(&name)
        .args(arguments)
        .env(PARENT, std::process::id().to_string())
        .stdin(Stdio::from(told))
        .spawn()?;
    if serving.read_exact(&mut [0]).is_ok() {
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    if let Some(signal) = status.signal() {
        return Err(io::Error::other(format!(
            "the daemon was ended by signal {signal} before it served"
        )));
    }
    // A code of 0 would say that there is a server now.
    Ok(code
        .filter(|code| *code != 0)
        .map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The file to start: the link that this process was called by, if it leads to the same program,
/// so that tools which look for processes by the link's name find the daemon too.
fn program(name: &OsStr, own: &Path) -> PathBuf {
    let is_own = |file: &PathBuf| file.canonicalize().is_ok_and(|file| file == own);
    let called: Option<PathBuf> = if name.as_encoded_bytes().contains(&b'/') {
        Some(name.into())
    } else {
        let path: OsString = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .map(|folder| folder.join(name))
            .find(|file| file.is_file())
    };
    called.filter(is_own).unwrap_or_else(|| own.to_owned())
}

/// Tells the waiting process that this one serves. Dropped, it tells that this one has failed.
#[derive(Debug)]
pub struct Readiness(File);

impl Readiness {
    /// Makes a daemon of this process, if [`start`] has started it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn of_daemon() -> io::Result<Option<Self>> {
        if !is_started_by(std::env::var(PARENT).ok().as_deref()) {
            return Ok(None);
        }
        let told = io::stdin().as_fd().try_clone_to_owned()?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        rustix::process::setsid()?;
        Ok(Some(Self(told.into())))
    }

    /// Says that the ports are served. Nobody may be there to hear it.
    pub fn tell(mut self) {
        let _ = self.0.write_all(&[1]);
    }
}

/// The variable counts only while the process that it names is the parent: other programs may
/// inherit it.
fn is_started_by(parent: Option<&str>) -> bool {
    let parent = parent.and_then(|text| text.parse().ok());
    let own = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    parent.is_some() && parent == own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_parent_itself_can_make_a_daemon() {
        let parent = std::os::unix::process::parent_id();
        assert!(is_started_by(Some(&parent.to_string())));
        for other in [None, Some(""), Some("x"), Some("1000000000")] {
            assert!(!is_started_by(other), "{other:?}");
        }
    }

    #[test]
    fn a_link_to_this_program_is_kept_and_another_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap().canonicalize().unwrap();
        let link = folder.path().join("kv_cache_manager_bin");
        std::os::unix::fs::symlink(&own, &link).unwrap();
        assert_eq!(program(link.as_os_str(), &own), link);
        assert_eq!(program(OsStr::new("/bin/sh"), &own), own);
        assert_eq!(program(OsStr::new("sh"), &own), own);
        assert_eq!(program(OsStr::new(""), &own), own);
    }
}
