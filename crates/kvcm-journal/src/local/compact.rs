//! Writing a snapshot, and dropping what it covers.

use super::{
    directory::Unfinished,
    disk::NoAnswer,
    file_error::FileError,
    names::{self, SnapshotId},
    snapshot_file::{self, Header},
    store::{LocalStore, Reign, unavailable},
};
use crate::{AppendError, Outcome, Snapshot, store::StoreError};

/// See [`Store::snapshot`](crate::store::Store::snapshot). Each chunk is a call of its own, so that
/// appends go on in between.
pub(super) async fn snapshot(store: &LocalStore, snapshot: Snapshot) -> Result<(), AppendError> {
    let _one_at_a_time = store.compacting.lock().await;
    let chunks = u32::try_from(snapshot.chunks.len()).map_err(AppendError::not_done)?;
    let header = Header {
        claim: store.reign.claim.clone(),
        through: snapshot.through,
        version: snapshot.version,
        chunks,
    };
    let reign = store.reign.clone();
    let mut file = run(store, move || reign.begin_snapshot(&header)).await?;
    for chunk in snapshot.chunks {
        let bytes = snapshot_file::encode_chunk(&chunk).map_err(AppendError::not_done)?;
        let reign = store.reign.clone();
        file = run(store, move || {
            reign
                .directory
                .extend(&mut file, &bytes)
                .map_err(|error| reign.failed(error))?;
            Ok(file)
        })
        .await?;
    }
    let (reign, through) = (store.reign.clone(), snapshot.through);
    run(store, move || reign.finish_snapshot(file, through)).await
}

async fn run<T: Send + 'static>(
    store: &LocalStore,
    job: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, AppendError> {
    let answer = store.disk.run(job).await.map_err(|no_answer| {
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
        // Of snapshots that were given up.
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

    fn finish_snapshot(&self, file: Unfinished, through: u64) -> Result<(), StoreError> {
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
        let gone: Vec<_> = segments
            .map(|id| names::segment(*id))
            .chain(snapshots.map(|id| names::snapshot(*id)))
            .collect();
        self.directory.discard(gone);
        Ok(())
    }
}
