//! The directory under one claim.

use std::{fs::File, sync::Arc, time::Duration};

use async_trait::async_trait;
use kvcm_fence::{Claim, Fenced, Incarnation};
use parking_lot::Mutex;

use super::{
    claim::{self, Claimed},
    compact,
    directory::Directory,
    disk::Disk,
    file_error::FileError,
    load, mark,
    names::{self, SegmentId},
    segment::{Before, Header},
};
use crate::{
    AppendError, LoadError, LoadSink, Loaded, LogSize, Snapshot,
    group::Group,
    store::{Store, StoreError},
};

/// A segment is followed by another one when it is so long.
const SEGMENT_BYTES: u64 = if cfg!(test) { 1 << 10 } else { 16 << 20 };

/// The directory under one claim.
#[derive(Debug)]
pub(super) struct LocalStore {
    pub(super) disk: Disk,
    /// For the bytes of snapshots.
    pub(super) snapshots: Disk,
    pub(super) reign: Arc<Reign>,
    /// One snapshot at a time.
    pub(super) compacting: tokio::sync::Mutex<()>,
}

/// What the thread works with.
#[derive(Debug)]
pub(super) struct Reign {
    pub(super) directory: Arc<Directory>,
    pub(super) claim: Claim,
    /// The header of the reign's first segment, where a load begins.
    pub(super) header: Header,
    /// Locked by its thread only, which does one thing at a time.
    pub(super) log: Mutex<Log>,
}

/// The log as the writer knows it.
#[derive(Debug)]
pub(super) struct Log {
    /// The segment that is written to.
    pub(super) tail: SegmentId,
    file: File,
    /// Where its next group goes.
    end: u64,
    /// Where its first group begins.
    start: u64,
    /// The last batch in it, or before it.
    last: u64,
    /// The highest number of a segment that was tried.
    number: u32,
    /// The segments before it that a load needs, each with its last batch.
    pub(super) closed: Vec<(SegmentId, u64)>,
}

impl LocalStore {
    pub(super) fn new(
        directory: Arc<Directory>,
        (disk, snapshots): (Disk, Disk),
        claimed: Claimed,
    ) -> Self {
        let Claimed {
            id, file, header, ..
        } = claimed;
        let start = header.encode().map_or(0, |bytes| bytes.len() as u64);
        let log = Log {
            tail: id,
            file,
            end: start,
            start,
            last: header.base,
            number: id.number,
            closed: Vec::new(),
        };
        let reign = Reign {
            directory,
            claim: header.claim.clone(),
            header,
            log: Mutex::new(log),
        };
        Self {
            disk,
            snapshots,
            reign: Arc::new(reign),
            compacting: tokio::sync::Mutex::default(),
        }
    }
}

#[async_trait]
impl Store for LocalStore {
    async fn load(&self, sink: &mut (dyn LoadSink + Send)) -> Result<(Loaded, LogSize), LoadError> {
        load::load(self, sink).await
    }

    async fn append(&self, group: &Group) -> Result<(), StoreError> {
        let (reign, group) = (self.reign.clone(), group.clone());
        let written = self.disk.run(move || reign.append(&group)).await;
        written.map_err(|no_answer| StoreError::Unavailable(no_answer.why))?
    }

    async fn snapshot(&self, snapshot: Snapshot, timeout: Duration) -> Result<(), AppendError> {
        let written = tokio::time::timeout(timeout, compact::snapshot(self, snapshot)).await;
        written.unwrap_or_else(|_| {
            let millis = timeout.as_millis();
            Err(AppendError::unknown(format!(
                "the snapshot was not written within {millis} ms"
            )))
        })
    }
}

impl Reign {
    /// Writes and syncs, and looks for newer claims afterwards.
    fn append(&self, group: &Group) -> Result<(), StoreError> {
        let mut log = self.log.lock();
        if log.last != group.last {
            if log.end >= SEGMENT_BYTES {
                self.rotate(&mut log)?;
            }
            let name = names::segment(log.tail);
            let written = self
                .directory
                .write_at(&log.file, &name, log.end, &group.bytes);
            written.map_err(unavailable)?;
            self.check(&log)?;
            log.end += group.bytes.len() as u64;
            log.last = group.last;
        }
        Ok(())
    }

    /// Goes on in a new segment.
    pub(super) fn rotate(&self, log: &mut Log) -> Result<(), StoreError> {
        if log.end == log.start {
            return Ok(());
        }
        let header = Header {
            claim: self.claim.clone(),
            base: log.last,
            before: Some(Before {
                id: log.tail,
                cut: log.end,
            }),
        };
        log.number += 1;
        let id = SegmentId {
            epoch: self.claim.epoch,
            number: log.number,
        };
        let begun = claim::begin(&self.directory, id, &header);
        let begun = begun.map_err(|error| self.failed(error))?;
        let exists = || StoreError::Unavailable("the next file of the log exists".to_owned());
        log.file = begun.ok_or_else(exists)?;
        let closed = (log.tail, log.last);
        log.closed.push(closed);
        log.tail = id;
        log.start = header.encode().map_or(0, |bytes| bytes.len() as u64);
        log.end = log.start;
        Ok(())
    }

    /// What a file call that failed comes from: a successor removes files that are not finished.
    pub(super) fn failed(&self, error: FileError) -> StoreError {
        if error.is_missing()
            && let Err(fenced @ StoreError::Fenced(_)) = self.check_claim()
        {
            return fenced;
        }
        unavailable(error)
    }

    /// That this claim stands, and that what was written is where others look for it.
    pub(super) fn check(&self, log: &Log) -> Result<(), StoreError> {
        if cfg!(feature = "unsafe-no-fencing") {
            return Ok(());
        }
        self.check_claim()?;
        let name = names::segment(log.tail);
        match self
            .directory
            .is_named(&log.file, &name)
            .map_err(unavailable)?
        {
            true => Ok(()),
            false => Err(StoreError::Fenced(Fenced::Missing)),
        }
    }

    /// That this claim stands.
    fn check_claim(&self) -> Result<(), StoreError> {
        let names = self.directory.names().map_err(unavailable)?;
        match names.claims.last() {
            Some(newest) if *newest > self.claim.epoch => {
                let name = names::claim(*newest);
                let read = self.directory.read(&name).ok().flatten();
                let by = read.and_then(|bytes| mark::decode(bytes).ok());
                // Whoever it is, the epoch in the name of the file is enough.
                let by = by.unwrap_or_else(|| Claim {
                    cluster: self.claim.cluster.clone(),
                    epoch: *newest,
                    incarnation: Incarnation::from_bits(0),
                });
                Err(StoreError::Fenced(Fenced::By { by }))
            }
            Some(newest) if *newest == self.claim.epoch => Ok(()),
            _ => Err(StoreError::Fenced(Fenced::Missing)),
        }
    }
}

pub(super) fn unavailable(error: FileError) -> StoreError {
    StoreError::Unavailable(error.to_string())
}
