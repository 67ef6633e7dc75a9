//! Journals in a directory and at a Redis of the bench's own.

use std::{fs::File, os::unix::fs::FileExt, sync::Arc, time::Instant};

use anyhow::Context;
use kvcm_clock::BootClock;
use kvcm_journal::{Journal, LocalJournal, RedisJournal};
use kvcm_redis::Config;
use kvcm_testkit::RedisServer;
use kvcm_uri::Uri;
use tempfile::TempDir;

use crate::cache::{Options, StoreKind};

/// What a Redis gets so that it only holds what is in memory.
pub(super) const NO_FILES: &[&str] = &["--save", ""];
/// What a Redis gets so that it acknowledges only what is on the disk.
pub(super) const FSYNC_ALWAYS: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

/// Where journals can be opened. It goes with this.
pub(super) struct Store {
    dir: TempDir,
    redis: Option<RedisServer>,
}

impl Store {
    /// A new one; `args` are for the redis-server.
    pub(super) fn start(kind: StoreKind, args: &[&str], options: &Options) -> anyhow::Result<Self> {
        let dir = match &options.dir {
            Some(dir) => tempfile::tempdir_in(dir)?,
            None => tempfile::tempdir()?,
        };
        let redis = match kind {
            StoreKind::Local => None,
            StoreKind::Redis => Some(RedisServer::start(args)?),
        };
        Ok(Self { dir, redis })
    }

    /// The journal of that name.
    pub(super) fn journal(&self, name: &str) -> anyhow::Result<Box<dyn Journal>> {
        let Some(redis) = &self.redis else {
            return Ok(Box::new(LocalJournal::new(&self.dir.path().join(name))?));
        };
        let (config, _) = Config::from_uri(&Uri::parse(&redis.uri())?)?;
        let journal = RedisJournal::open(config, name, Arc::new(BootClock))?;
        Ok(Box::new(journal))
    }

    /// The server behind it.
    pub(super) fn redis(&self) -> anyhow::Result<&RedisServer> {
        self.redis.as_ref().context("no Redis was started")
    }

    /// Writes and syncs so many bytes in its directory, one after the other: calls in a second.
    #[expect(clippy::disallowed_methods, reason = "a stopwatch, not a decision")]
    pub(super) fn bare_disk(&self, bytes: usize, options: &Options) -> anyhow::Result<f64> {
        let file = File::create(self.dir.path().join("bare"))?;
        let piece = vec![b'x'; bytes];
        let begun = Instant::now();
        let mut count = 0_u64;
        while count == 0 || begun.elapsed() < options.time() {
            file.write_all_at(&piece, count * bytes as u64)?;
            file.sync_data()?;
            count += 1;
        }
        Ok(count as f64 / begun.elapsed().as_secs_f64())
    }
}
