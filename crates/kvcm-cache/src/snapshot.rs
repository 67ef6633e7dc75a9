//! The whole state, piece by piece, so that the journal does not grow for ever.

use std::{
    collections::VecDeque,
    mem,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use kvcm_index::{Location, State};
use kvcm_journal::{LogSize, Snapshot};

use crate::{
    CacheManager, Error, Result,
    home::Home,
    manager::Shared,
    ops::{
        DefineInstance, DefineStorage, FinishedSession, Locations, Op, OpenSession, Room, VERSION,
    },
};

/// A chunk is closed once it has so many bytes.
const CHUNK_BYTES: usize = 1 << 20;
/// How long writing one may take: nobody waits for it.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Keys, or requests, that are copied under one lock.
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
        let bytes = Arc::new(AtomicU64::new(0));
        let chunks = Chunks::new(Arc::clone(&self.shared), Arc::clone(&bytes));
        let snapshot = Snapshot::new(through, VERSION, chunks);
        let written = self.log.writer().snapshot(snapshot, TIMEOUT);
        written.await.map_err(Error::from_append)?;
        self.compaction.written(bytes.load(Ordering::Relaxed));
        Ok(())
    }
}

/// Makes the chunks one after the other, as they are asked for.
struct Chunks {
    shared: Arc<Shared>,
    /// What is to come.
    parts: VecDeque<Part>,
    open: Vec<u8>,
    /// Counts the bytes of all chunks.
    bytes: Arc<AtomicU64>,
}

/// A part of the state.
enum Part {
    /// Storages and instances, by which others are named.
    Definitions,
    /// Requests that were answered, by the numbers of their chunks.
    Requests(Range<u64>),
    /// The open sessions, and where the outcomes are of those that have ended.
    Sessions,
    /// Outcomes of sessions, by their places.
    Outcomes(Range<u64>),
    /// The instances that hold locations.
    Instances,
    /// Locations of an instance from a slot on.
    Locations(Arc<Home>, usize),
}

impl Chunks {
    fn new(shared: Arc<Shared>, bytes: Arc<AtomicU64>) -> Self {
        // In this order, after the place in the journal. A session that ends in between leaves its
        // mark in the locations or has its end after the place.
        let requests = Part::Requests(shared.answered.chunks());
        let parts = [Part::Definitions, requests, Part::Sessions, Part::Instances];
        Self {
            shared,
            parts: parts.into(),
            open: Vec::new(),
            bytes,
        }
    }

    /// Writes a part, or a step of it and leaves the rest for later.
    fn write(&mut self, part: Part) {
        let shared = Arc::clone(&self.shared);
        match part {
            Part::Definitions => {
                for known in shared.storages.list().iter() {
                    self.put(&Op::DefineStorage(DefineStorage::of(known)));
                }
                for home in shared.all_homes() {
                    self.put(&Op::DefineInstance(DefineInstance::of(&home)));
                }
            }
            Part::Requests(chunks) => {
                let now = self.step(chunks, 1, Part::Requests);
                for request in now.flat_map(|number| shared.answered.chunk(number)) {
                    self.put(&Op::Request(request));
                }
            }
            Part::Sessions => {
                let (open, outcomes) = shared.sessions.all_open();
                for (id, session) in open {
                    self.put(&Op::OpenSession(OpenSession {
                        session: id,
                        instance: session.instance_id.as_ref().to_owned(),
                        fingerprint: session.home.fingerprint,
                        grant: session.grant,
                        life_ms: u32::try_from(session.life.as_millis()).unwrap_or(u32::MAX),
                        keys: session.keys.to_vec(),
                    }));
                }
                self.parts.push_front(Part::Outcomes(outcomes));
            }
            Part::Outcomes(places) => {
                let now = self.step(places, STEP as u64, Part::Outcomes);
                for (session, success) in shared.sessions.ended(now) {
                    self.put(&Op::FinishedSession(FinishedSession { session, success }));
                }
            }
            Part::Instances => {
                for home in shared.all_homes() {
                    self.put(&Op::Room(Room::of(&home)));
                    self.parts.push_back(Part::Locations(home, 0));
                }
            }
            Part::Locations(home, from) => {
                let mut runs = Runs::new(&home);
                let scanned = home
                    .index
                    .scan(from, STEP, |key, list, _| runs.add(key, list));
                for run in runs.all {
                    self.put(&Op::Locations(run));
                }
                if let Some(next) = scanned {
                    self.parts.push_front(Part::Locations(home, next));
                }
            }
        }
    }

    /// The first of the places; the others are the next part.
    fn step(&mut self, places: Range<u64>, count: u64, part: fn(Range<u64>) -> Part) -> Range<u64> {
        let end = places.end.min(places.start + count);
        if end < places.end {
            self.parts.push_front(part(end..places.end));
        }
        places.start..end
    }

    fn put(&mut self, op: &Op) {
        op.encode(&mut self.open);
    }
}

impl Iterator for Chunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        self.open.reserve(CHUNK_BYTES + CHUNK_BYTES / 8);
        while self.open.len() < CHUNK_BYTES
            && let Some(part) = self.parts.pop_front()
        {
            self.write(part);
        }
        let chunk = Bytes::from(mem::take(&mut self.open));
        let bytes = chunk.len() as u64;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        (bytes > 0).then_some(chunk)
    }
}

/// Gathers locations that lie together and have all but key and position in common.
struct Runs<'a> {
    home: &'a Home,
    all: Vec<Locations>,
    /// The number of the last one's set of specs.
    specs: u16,
}

impl<'a> Runs<'a> {
    const fn new(home: &'a Home) -> Self {
        Self {
            home,
            all: Vec::new(),
            specs: 0,
        }
    }

    fn add(&mut self, key: i64, locations: &[Location]) {
        for location in locations {
            if location.state() != State::Reserved {
                self.add_one(key, location);
            }
        }
    }

    fn add_one(&mut self, key: i64, location: &Location) {
        let (grant, storage, state) = (location.grant(), location.storage(), location.state());
        if let Some(run) = self.all.last_mut()
            && (run.grant, run.storage, run.state) == (grant, storage, state)
            && self.specs == location.specs()
        {
            run.positions.push(location.position());
            run.keys.push(key);
            return;
        }
        self.specs = location.specs();
        self.all.push(Locations {
            instance: self.home.id.as_ref().to_owned(),
            fingerprint: self.home.fingerprint,
            grant,
            storage,
            group: self.home.specs.group(self.specs).to_owned(),
            state,
            positions: [location.position()].into_iter().collect(),
            keys: vec![key],
        });
    }
}
