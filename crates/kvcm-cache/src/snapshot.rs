//! The whole state in one piece, so that the journal does not grow for ever.

use std::{mem, time::Duration};

use kvcm_index::{Location, State};
use kvcm_journal::{LogSize, Snapshot};

use crate::{
    CacheManager, Error, Result,
    home::Home,
    ops::{DefineInstance, DefineStorage, FinishedSession, Locations, Op, OpenSession, VERSION},
};

/// A chunk is closed once it has so many bytes.
const CHUNK_BYTES: usize = 1 << 20;
/// How long writing one may take: nobody waits for it.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Keys that are copied under one lock.
const STEP: usize = 4096;

impl CacheManager {
    /// What a recovery would have to replay after the last snapshot: tells when one is due.
    pub fn log_size(&self) -> LogSize {
        self.log.writer().log_size()
    }

    /// Writes a snapshot, after which the journal may drop the records before it. False when it
    /// was not written because the recovery could not read a part of the journal, which a snapshot
    /// would bury.
    ///
    /// Changes go on meanwhile. That is sound because each of them that may be missing comes after
    /// the snapshot's place in the journal, and replaying one that is not missing changes nothing.
    ///
    /// # Errors
    /// Those of the journal; the former snapshot stays.
    pub async fn snapshot(&self) -> Result<bool> {
        if self.keep_log {
            return Ok(false);
        }
        self.write_snapshot(self.log.settled_through()).await?;
        Ok(true)
    }

    /// Writes everything again into a journal that has lost a part of what it had acknowledged.
    pub(crate) async fn make_up(&self) -> Result<()> {
        let through = self.log.all_settled().await;
        self.write_snapshot(through).await?;
        self.log.made_up();
        Ok(())
    }

    async fn write_snapshot(&self, through: u64) -> Result<()> {
        // In this order: place, requests, sessions, locations. A session that ends in between
        // leaves its mark in the locations or has its end after the place.
        let mut chunks = Chunks::default();
        for known in self.shared.storages.list().iter() {
            chunks.push(&Op::DefineStorage(DefineStorage::of(known)));
        }
        for home in self.shared.all_homes() {
            chunks.push(&Op::DefineInstance(DefineInstance::of(&home)));
        }
        for request in self.shared.answered.all() {
            chunks.push(&Op::Request(request));
        }
        let (open, finished) = self.shared.sessions.all();
        for (id, session) in open {
            chunks.push(&Op::OpenSession(OpenSession {
                session: id,
                instance: session.instance_id.as_ref().to_owned(),
                fingerprint: session.home.fingerprint,
                grant: session.grant,
                life_ms: u32::try_from(session.life.as_millis()).unwrap_or(u32::MAX),
                keys: session.keys.to_vec(),
            }));
        }
        for (session, success) in finished {
            chunks.push(&Op::FinishedSession(FinishedSession { session, success }));
        }
        for home in self.shared.all_homes() {
            let mut cursor = Some(0);
            while let Some(from) = cursor {
                let mut runs = Runs::new(&home);
                cursor = home
                    .index
                    .scan(from, STEP, |key, list, _| runs.add(key, list));
                runs.0.iter().for_each(|run| chunks.push(run));
                tokio::task::yield_now().await;
            }
        }
        let chunks = chunks.finish();
        let bytes = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        let snapshot = Snapshot {
            through,
            version: VERSION,
            chunks,
        };
        let written = self.log.writer().snapshot(snapshot, TIMEOUT);
        written.await.map_err(Error::from_append)?;
        self.compaction.written(bytes);
        Ok(())
    }
}

#[derive(Default)]
struct Chunks {
    closed: Vec<bytes::Bytes>,
    open: Vec<u8>,
}

impl Chunks {
    fn push(&mut self, op: &Op) {
        op.encode(&mut self.open);
        if self.open.len() >= CHUNK_BYTES {
            self.closed.push(mem::take(&mut self.open).into());
        }
    }

    fn finish(mut self) -> Vec<bytes::Bytes> {
        if !self.open.is_empty() {
            self.closed.push(self.open.into());
        }
        self.closed
    }
}

/// Gathers locations that lie together and have all but key and position in common.
struct Runs<'a>(Vec<Op>, &'a Home);

impl<'a> Runs<'a> {
    const fn new(home: &'a Home) -> Self {
        Self(Vec::new(), home)
    }

    fn add(&mut self, key: i64, locations: &[Location]) {
        for location in locations {
            if location.state() != State::Reserved {
                self.add_one(key, location);
            }
        }
    }

    fn add_one(&mut self, key: i64, location: &Location) {
        let home = self.1;
        let group = home.specs.group(location.specs());
        let (grant, storage, state) = (location.grant(), location.storage(), location.state());
        if let Some(Op::Locations(run)) = self.0.last_mut()
            && (run.grant, run.storage, run.state) == (grant, storage, state)
            && run.group == group
        {
            run.positions.push(location.position());
            run.keys.push(key);
            return;
        }
        self.0.push(Op::Locations(Locations {
            instance: home.id.as_ref().to_owned(),
            fingerprint: home.fingerprint,
            grant,
            storage,
            group: group.to_owned(),
            state,
            positions: vec![location.position()],
            keys: vec![key],
        }));
    }
}
