//! Writing a snapshot, and dropping what it covers.

use super::{
    directory::Unfinished,
    disk::{Disk, NoAnswer},
    file_error::FileError,
    names::{self, SnapshotId},
    snapshot_file::{self, Header},
    store::{LocalStore, Reign, unavailable},
};
use crate::{AppendError, Outcome, Snapshot, store::StoreError};

/// See [`Store::snapshot`](crate::store::Store::snapshot). Appends go on meanwhile: the chunks are
/// written by a thread of their own, and what the log's thread has to do is short.
pub(super) async fn snapshot(store: &LocalStore, snapshot: Snapshot) -> Result<(), AppendError> {
    let _one_at_a_time = store.compacting.lock().await;
    let mut header = Header {
        claim: store.reign.claim.clone(),
        through: snapshot.through,
        version: snapshot.version,
        // Known at the end.
        chunks: 0,
    };
    let (reign, head) = (store.reign.clone(), header.clone());
    let mut file = run(&store.disk, move || reign.begin_snapshot(&head)).await?;
    for chunk in snapshot.chunks {
        let bytes = snapshot_file::encode_chunk(&chunk).map_err(AppendError::not_done)?;
        let reign = store.reign.clone();
        let write = move || {
            let written = reign.directory.extend(&mut file, &bytes);
            written.map_err(|error| reign.failed(error))?;
            Ok(file)
        };
        file = run(&store.snapshots, write).await?;
        let more = header.chunks.checked_add(1);
        header.chunks = more.ok_or_else(|| AppendError::not_done("it has too many chunks"))?;
    }
    let (reign, through) = (store.reign.clone(), header.through);
    let write = move || {
        let bytes = header.encode().unwrap_or_default();
        let written = reign.directory.rewrite(&file, &bytes);
        written.map_err(|error| reign.failed(error))?;
        Ok(file)
    };
    let file = run(&store.snapshots, write).await?;
    let reign = store.reign.clone();
    let covered = run(&store.disk, move || reign.finish_snapshot(file, through)).await?;
    // It counts already: what cannot be removed now is found again by the next one.
    let directory = store.reign.directory.clone();
    let tidied = store.snapshots.run(move || directory.discard(covered));
    if let Err(no_answer) = tidied.await {
        tracing::debug!(
            why = no_answer.why,
            "what a snapshot covers was not removed"
        );
    }
    Ok(())
}

async fn run<T: Send + 'static>(
    disk: &Disk,
    job: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, AppendError> {
    let answer = disk.run(job).await.map_err(|no_answer| {
        let NoAnswer { outcome, why } = no_answer;
        let source = why.into();
        AppendError::Unavailable { outcome, source }
    })?;
    answer.map_err(|error| match error {
        StoreError::Fenced(fenced) => AppendError::Fenced(fenced),
        StoreError::Unavailable(why) => AppendError::not_done(why),
        StoreError::WentBack(_) => AppendError::Unavailable {
            outcome: Outcome::NotDone,
            source: "the journal went back in time".into(),
        },
    })
}

impl Reign {
    fn begin_snapshot(&self, header: &Header) -> Result<Unfinished, StoreError> {
        // Of snapshots that were given up. The log's thread has no file of its own under way.
        let names = self.directory.names().map_err(unavailable)?;
        let mine = names.temporary.into_iter();
        let mine = mine.filter(|(epoch, _)| *epoch == self.claim.epoch);
        self.directory.discard(mine.map(|(_, name)| name));
        let begin = || -> Result<Unfinished, FileError> {
            let mut file = self.directory.begin(self.claim.epoch)?;
            let bytes = header.encode().unwrap_or_default();
            self.directory.extend(&mut file, &bytes)?;
            Ok(file)
        };
        begin().map_err(|error| self.failed(error))
    }

    /// Gives the snapshot its name, and tells the files that it covers.
    fn finish_snapshot(&self, file: Unfinished, through: u64) -> Result<Vec<String>, StoreError> {
        let mut log = self.log.lock();
        self.check(&log)?;
        let id = SnapshotId {
            through,
            epoch: self.claim.epoch,
        };
        let finished = self.directory.finish(file, &names::snapshot(id));
        finished.map_err(|error| self.failed(error))?;
        // What a successor has claimed meanwhile is its own to tidy.
        self.check(&log)?;
        self.rotate(&mut log)?;
        let names = self.directory.names().map_err(unavailable)?;
        let newest = names.snapshots.last().copied();
        let covered = newest.map_or(through, |newest| newest.through);
        log.closed.retain(|(_, last)| *last > covered);
        let is_needed = |id| id == log.tail || log.closed.iter().any(|(closed, _)| *closed == id);
        let old = |epoch| epoch <= self.claim.epoch;
        let segments = names.segments.iter();
        let segments = segments.filter(|id| old(id.epoch) && !is_needed(**id));
        let snapshots = names.snapshots.iter();
        let snapshots = snapshots.filter(|id| old(id.epoch) && Some(**id) != newest);
        let segments = segments.map(|id| names::segment(*id));
        let snapshots = snapshots.map(|id| names::snapshot(*id));
        Ok(segments.chain(snapshots).collect())
    }
}
