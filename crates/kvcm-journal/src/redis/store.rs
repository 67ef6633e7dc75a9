//! The server under one claim.

use std::{ops::Range, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use kvcm_fence::Claim;
use kvcm_redis::{Class, Outcome as Done};
use tokio::sync::{Mutex, mpsc};

use super::{
    client::{CallError, Client, described, text},
    journal::Keys,
    scripts,
};
use crate::{
    AppendError, LoadError, LoadSink, Loaded, LogSize, RecordError, Snapshot,
    group::{self, Group, Piece},
    replay::Replay,
    store::{Store, StoreError},
};

/// A reply of a load ends when it has so many bytes: on a loaded machine the round trips are what a
/// recovery waits for.
const REPLY_BYTES: u64 = 1 << 20;
/// How long a snapshot may take before what was written of it goes away again.
const UNFINISHED_MS: u64 = 3_600_000;

/// What was there when the claim was made. Nobody else changes it.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub(super) seq: u64,
    pub(super) through: u64,
    /// The name of the snapshot, or empty.
    pub(super) snapshot: String,
    pub(super) version: u16,
    pub(super) chunks: u64,
}

/// The server under one claim.
#[derive(Debug)]
pub(super) struct RedisStore {
    client: Arc<Client>,
    keys: Keys,
    claim: Claim,
    content: Content,
    /// The name of the snapshot that counts; locked while another one is written.
    snapshot: Mutex<String>,
}

/// What a load has read.
enum Step {
    /// A chunk of the snapshot by its index, unless it is missing.
    Chunk(u64, Option<Bytes>),
    /// Elements of the log by their indices.
    Groups(Range<u64>, Vec<Bytes>),
}

impl RedisStore {
    pub(super) fn new(client: Arc<Client>, keys: Keys, claim: Claim, content: Content) -> Self {
        Self {
            client,
            keys,
            claim,
            snapshot: Mutex::new(content.snapshot.clone()),
            content,
        }
    }

    fn snapshot_key(&self, name: &str) -> String {
        format!("{}:{name}", self.keys.snapshot)
    }

    /// Elements of a list from `first` on, until they have `enough` bytes together, and whether more
    /// follow. At least one, when there is one.
    async fn read(
        &self,
        list: &str,
        first: u64,
        enough: u64,
    ) -> Result<(Vec<Bytes>, bool), LoadError> {
        let keys = [self.keys.meta.as_str(), list];
        let range = [text(first), text(enough)];
        let read = self
            .client
            .call_under(&self.claim, &scripts::READ, &keys, false, &range);
        match read.await {
            Ok(mut elements) => {
                let goes_on = elements.next().is_some_and(|word| &word[..] == b"more");
                Ok((elements.collect(), goes_on))
            }
            Err(CallError::Fenced(fenced)) => Err(LoadError::Fenced(fenced)),
            Err(CallError::Seq(_)) => Err(LoadError::Unavailable {
                source: "the journal went back in time".into(),
            }),
            Err(CallError::Failed(failure)) => Err(LoadError::Unavailable {
                source: described(&failure).into(),
            }),
        }
    }

    /// Reads everything and hands it over.
    async fn read_all(&self, give: mpsc::Sender<Step>) -> Result<(), LoadError> {
        // The receiver goes only when the load has failed.
        let content = &self.content;
        if !content.snapshot.is_empty() {
            let key = self.snapshot_key(&content.snapshot);
            for index in 0..content.chunks {
                let (mut chunks, _) = self.read(&key, index, 1).await?;
                let _ = give.send(Step::Chunk(index, chunks.pop())).await;
            }
        }
        let (mut first, mut goes_on) = (0, true);
        while goes_on {
            let groups;
            (groups, goes_on) = self.read(&self.keys.log, first, REPLY_BYTES).await?;
            let indices = first..first + groups.len() as u64;
            first = indices.end;
            let _ = give.send(Step::Groups(indices, groups)).await;
        }
        Ok(())
    }

    fn feed(
        &self,
        replay: &mut Replay,
        step: Step,
        sink: &mut (dyn LoadSink + Send),
    ) -> Result<(), LoadError> {
        let content = &self.content;
        match step {
            Step::Chunk(_, Some(chunk)) => {
                replay.chunk(content.through, content.version, chunk, sink)?;
            }
            Step::Chunk(index, None) => {
                let key = self.snapshot_key(&content.snapshot);
                replay.skip(&key, format!("chunk {index} is missing"));
            }
            Step::Groups(indices, groups) => {
                for (index, bytes) in indices.zip(&groups) {
                    let place = || format!("{}, element {index}", self.keys.log);
                    let mut found = group::cut(bytes);
                    if found.end < bytes.len() {
                        let reason = RecordError::Malformed("the group is not whole");
                        let bytes = bytes.slice(found.end..);
                        found
                            .pieces
                            .push((found.end, Piece::Damaged { bytes, reason }));
                    }
                    for (_, piece) in &found.pieces {
                        replay.piece(place, piece, sink)?;
                    }
                }
            }
        }
        Ok(())
    }

    async fn write_snapshot(&self, snapshot: Snapshot) -> Result<(), CallError> {
        let mut current = self.snapshot.lock().await;
        let name = format!("{}:{:016x}", snapshot.through, fastrand::u64(..));
        let key = self.snapshot_key(&name);
        let (client, claim) = (&self.client, &self.claim);
        let mut count = 0;
        for chunk in snapshot.chunks {
            let keys = [self.keys.meta.as_str(), &key];
            let more = [text(count), chunk, text(UNFINISHED_MS)];
            let added = client.call_under(claim, &scripts::CHUNK, &keys, true, &more);
            added.await?;
            count += 1;
        }
        let old = match current.as_str() {
            "" => key.clone(),
            old => self.snapshot_key(old),
        };
        let Keys {
            meta, log, ends, ..
        } = &self.keys;
        let keys = [meta.as_str(), log, ends, &key, &old];
        let more = [
            text(snapshot.through),
            text(count),
            text(snapshot.version.into()),
            Bytes::copy_from_slice(name.as_bytes()),
        ];
        let replaced = client.call_under(claim, &scripts::SNAPSHOT, &keys, true, &more);
        replaced.await?;
        *current = name;
        Ok(())
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn load(&self, sink: &mut (dyn LoadSink + Send)) -> Result<(Loaded, LogSize), LoadError> {
        // At most two replies wait, so that the server works on the next ones while these are
        // taken in, and a load needs the memory of four.
        let (give, mut given) = mpsc::channel(2);
        let feeding = async {
            let mut replay = Replay::new(self.claim.cluster.clone());
            if !self.content.snapshot.is_empty() {
                replay.snapshot_through(self.content.through);
            }
            while let Some(step) = given.recv().await {
                self.feed(&mut replay, step, sink)?;
                // So that a load can be dropped, and other tasks run.
                tokio::task::yield_now().await;
            }
            Ok(replay)
        };
        let reading: Pin<Box<dyn Future<Output = Result<(), LoadError>> + Send + '_>> =
            Box::pin(self.read_all(give));
        let ((), replay) = tokio::try_join!(reading, feeding)?;
        Ok(replay.finish(&self.keys.log, self.content.seq))
    }

    async fn append(&self, group: &Group) -> Result<(), StoreError> {
        let Keys {
            meta, log, ends, ..
        } = &self.keys;
        let keys = [meta.as_str(), log, ends];
        let more = [text(group.first), text(group.last), group.bytes.clone()];
        let appended = self
            .client
            .call_under(&self.claim, &scripts::APPEND, &keys, true, &more);
        Ok(appended.await.map(drop)?)
    }

    async fn snapshot(&self, snapshot: Snapshot, timeout: Duration) -> Result<(), AppendError> {
        let written = tokio::time::timeout(timeout, self.write_snapshot(snapshot)).await;
        match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(CallError::Fenced(fenced))) => Err(AppendError::Fenced(fenced)),
            Ok(Err(CallError::Seq(_))) => {
                Err(AppendError::not_done("the journal went back in time"))
            }
            Ok(Err(CallError::Failed(failure))) => {
                let why = described(&failure);
                let unknown = Class::Retryable {
                    outcome: Done::Unknown,
                };
                Err(if failure.class == unknown {
                    AppendError::unknown(why)
                } else {
                    AppendError::not_done(why)
                })
            }
            Err(_) => {
                let millis = timeout.as_millis();
                Err(AppendError::unknown(format!(
                    "the snapshot was not written within {millis} ms"
                )))
            }
        }
    }
}
