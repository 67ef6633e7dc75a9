//! What the machine is, and what it is busy with.

use std::{fs, path::Path, thread, time::Duration};

/// Processors and profile, in a few words.
pub(crate) fn conditions() -> String {
    let cpus = thread::available_parallelism().map_or(0, usize::from);
    let profile = match cfg!(debug_assertions) {
        true => "debug profile",
        false => "release profile",
    };
    format!("{cpus} CPUs, {profile}")
}

/// How busy the machine is; `unknown` where it does not tell.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first: Vec<_> = text.split(' ').take(3).collect();
    match first[..] {
        [one, five, fifteen] => format!("{one} {five} {fifteen}"),
        _ => "unknown".to_owned(),
    }
}

/// How long the threads of a process that still live have been on a processor; `None` where the
/// machine does not tell.
pub(crate) fn processor_time(pid: u32) -> Option<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        // A thread may end while its directory is read.
        nanos += on_processor(&thread.ok()?.path()).unwrap_or(0);
    }
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}

/// The first number of `schedstat`: nanoseconds on a processor.
fn on_processor(thread: &Path) -> Option<u64> {
    let text = fs::read_to_string(thread.join("schedstat")).ok()?;
    text.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_in_the_time_of_this_process() {
        let Some(before) = processor_time(std::process::id()) else {
            return;
        };
        let mut sum = 0_u64;
        while processor_time(std::process::id()) == Some(before) {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        assert!(processor_time(std::process::id()) > Some(before));
        assert_eq!(processor_time(u32::MAX), None);
    }
}
