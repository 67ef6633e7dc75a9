//! Settings of the cache manager.

use std::time::Duration;

/// Settings of a [`CacheManager`](crate::CacheManager).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Most keys of one request.
    pub keys_per_request_max: usize,
    /// Life of a write session whose start does not say one.
    pub write_timeout_default: Duration,
    /// Longest life of a write session: longer wishes are cut to it.
    pub write_timeout_max: Duration,
    /// Life of a session without new keys, which has nothing to wait for.
    pub empty_session_life: Duration,
    /// Open write sessions at most.
    pub sessions_max: usize,
    /// How long requests are remembered, for repeats.
    pub requests_kept: Duration,
    /// Bytes of memory for that at most, about 60 for each request; the oldest are forgotten first.
    pub requests_bytes_max: usize,
    /// A log with fewer bytes is not replaced by a snapshot.
    pub log_bytes_min: u64,
    /// How long a call waits for the journal.
    pub journal_timeout: Duration,
    /// How long a start waits for the directories of its blocks in one storage.
    pub storage_timeout: Duration,
    /// Batches of blocks whose bytes are deleted at one time, at least 1.
    pub deletion_workers: usize,
    /// Blocks that are queued for the deletion of their bytes at most, for each storage. More are
    /// found by a scan of the index once these are done.
    pub deletions_queued_max: usize,
    /// Between two looks whether blocks have to be evicted.
    pub reclaim_interval: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            keys_per_request_max: 65_536,
            write_timeout_default: Duration::from_secs(30),
            write_timeout_max: Duration::from_secs(1800),
            empty_session_life: Duration::from_secs(10),
            sessions_max: 1_000_000,
            requests_kept: Duration::from_secs(600),
            requests_bytes_max: 256 << 20,
            log_bytes_min: 16 << 20,
            journal_timeout: Duration::from_secs(5),
            storage_timeout: Duration::from_secs(2),
            deletion_workers: 2,
            deletions_queued_max: 1 << 18,
            reclaim_interval: Duration::from_millis(100),
        }
    }
}

impl Config {
    /// The life of a session that was asked to live for `seconds`.
    pub(crate) fn session_life(&self, seconds: i32) -> Duration {
        match u64::try_from(seconds) {
            Ok(seconds) if seconds > 0 => Duration::from_secs(seconds).min(self.write_timeout_max),
            _ => self.write_timeout_default,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_timeouts_become_the_default_or_the_most() {
        let config = Config::default();
        let life = |seconds| config.session_life(seconds).as_secs();
        assert_eq!((life(0), life(-5), life(i32::MIN)), (30, 30, 30));
        assert_eq!((life(1), life(1800), life(1801)), (1, 1800, 1800));
        assert_eq!(life(i32::MAX), 1800);
    }
}
