//! Processes of a test: its own binary again, running only its test `child`.

use std::{
    env,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

/// Tells a child what to do.
const ROLE: &str = "KVCM_TEST_CHILD";
/// Tells a child where.
pub(crate) const DIR: &str = "KVCM_TEST_DIR";

/// What this process is to do, and where, when it is a child.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    let dir = PathBuf::from(env::var_os(DIR)?);
    Some((env::var(ROLE).ok()?, dir))
}

/// A child that does not outlive its test, however the test ends.
pub(crate) struct Kid(pub(crate) Child);

impl Kid {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Kid {
    fn drop(&mut self) {
        // Both fail only when it has ended and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a child and waits for its first word.
pub(crate) fn start(role: &str, dir: &Path) -> (Kid, String) {
    start_with(Command::new(env::current_exe().unwrap()), role, dir)
}

pub(crate) fn start_with(mut command: Command, role: &str, dir: &Path) -> (Kid, String) {
    command
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(DIR, dir)
        .stdout(Stdio::piped());
    let mut child = Kid(command.spawn().unwrap());
    let said = listen(child.0.stdout.take().unwrap());
    (child, said)
}

/// The test harness talks, too: what a child says is marked.
#[expect(clippy::print_stdout, reason = "its parent listens")]
pub(crate) fn say(what: impl std::fmt::Display) {
    println!("\n@{what}");
}

/// Ends before the harness finds that nobody listens any more.
pub(crate) fn last_word(what: String) -> ! {
    say(what);
    std::process::exit(0)
}

fn listen(stdout: ChildStdout) -> String {
    let lines = BufReader::new(stdout).lines().map(Result::unwrap);
    let mut said = lines.filter_map(|line| line.strip_prefix('@').map(str::to_owned));
    said.next().expect("the child ended without a word")
}
