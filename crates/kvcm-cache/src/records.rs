//! Records of requests, kept in as few bytes as they have in a journal.
//!
//! Idempotency costs memory: at thousands of changes in a second ten minutes are millions of
//! records. So they lie encoded one after the other, and what finds them is a table of one number
//! for each.

use std::{collections::VecDeque, ops::Range, time::Duration};

use hashbrown::HashTable;
use kvcm_clock::Moment;

use crate::{RequestOutcome, ops::Request};

/// A chunk with so many bytes takes no further records: where one begins fits into 16 bits.
const CHUNK_BYTES: usize = 1 << 16;
/// A chunk spans one part in so many of the time that records are kept, at most, for chunks are
/// forgotten as a whole.
const CHUNKS_OF_TIME: u32 = 16;
/// Numbers of chunks that are told apart.
const CHUNKS_MAX: usize = 1 << 16;

/// The records of the requests of some time, the oldest first.
#[derive(Debug)]
pub(crate) struct Records {
    kept_for: Duration,
    bytes_max: usize,
    chunks: VecDeque<Chunk>,
    /// The number of the first chunk.
    first: u64,
    /// Where each record is, by its id.
    index: HashTable<Place>,
    /// Bytes of all chunks but the last.
    bytes: usize,
}

/// Records that were noted one after the other.
#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    count: usize,
    begun: Moment,
    last: Moment,
}

/// The lower half of the number of a chunk, and the first byte of a record in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    chunk: u16,
    offset: u16,
}

impl Records {
    /// No records yet. They are kept for this time at least, unless they come to need more than so
    /// many bytes: then the oldest go before their time.
    pub(crate) fn new(kept_for: Duration, bytes_max: usize) -> Self {
        Self {
            kept_for,
            bytes_max,
            chunks: VecDeque::new(),
            first: 0,
            index: HashTable::new(),
            bytes: 0,
        }
    }

    /// Notes what became of a request. What is noted twice keeps its first outcome. Returns how many
    /// others had to go before their time.
    pub(crate) fn note(&mut self, request: &Request, now: Moment) -> usize {
        let early = self.forget(now);
        let id = request.key.id;
        if self.find(id).is_some() {
            return early;
        }
        let span = self.kept_for / CHUNKS_OF_TIME;
        if !(self.chunks.back()).is_some_and(|last| last.takes_more(now, span)) {
            self.begin_chunk(now);
        }
        let number = self.chunks().end - 1;
        let Some(chunk) = self.chunks.back_mut() else {
            return early;
        };
        let place = Place {
            chunk: number as u16,
            // A chunk with more bytes takes no more.
            offset: u16::try_from(chunk.bytes.len()).unwrap_or(u16::MAX),
        };
        request.append_to(&mut chunk.bytes);
        chunk.count += 1;
        chunk.last = now;
        let (chunks, first) = (&self.chunks, self.first);
        self.index
            .insert_unique(hash(id), place, |place| hash(id_at(chunks, first, *place)));
        early
    }

    /// What is known of the request with this id: the hash of its body, and what became of it.
    pub(crate) fn get(&self, id: u128) -> Option<(u64, RequestOutcome)> {
        let place = self.find(id)?;
        let (chunk, offset) = self.locate(place)?;
        let (request, _) = Request::take_from(chunk.bytes.get(offset..)?)?;
        Some((request.key.body, request.outcome))
    }

    /// The numbers of all chunks. Each keeps its own.
    pub(crate) fn chunks(&self) -> Range<u64> {
        self.first..self.first + self.chunks.len() as u64
    }

    /// The records of a chunk, so far as it is not forgotten.
    pub(crate) fn chunk(&self, number: u64) -> Vec<Request> {
        let at = number.checked_sub(self.first);
        let chunk = at.and_then(|at| self.chunks.get(usize::try_from(at).ok()?));
        chunk.map(|chunk| chunk.records()).unwrap_or_default()
    }

    /// How many there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.index.len()
    }

    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        let last = self.chunks.back().map_or(0, |last| last.bytes.capacity());
        self.bytes + last + self.index.allocation_size()
    }

    fn begin_chunk(&mut self, now: Moment) {
        if let Some(last) = self.chunks.back_mut() {
            // One that is not full was closed for its age.
            last.bytes.shrink_to_fit();
            self.bytes += last.bytes.capacity();
        }
        self.chunks.push_back(Chunk {
            bytes: Vec::new(),
            count: 0,
            begun: now,
            last: now,
        });
    }

    /// Forgets what is too old or too much. Returns how many had to go before their time.
    fn forget(&mut self, now: Moment) -> usize {
        let mut early = 0;
        while let Some(first) = self.chunks.front() {
            let is_old = now.since(first.last) >= self.kept_for;
            let is_much = self.bytes() > self.bytes_max || self.chunks.len() >= CHUNKS_MAX;
            // The last one goes only when it is old: a budget of nothing keeps what was just done.
            if !(is_old || (is_much && self.chunks.len() > 1)) {
                break;
            }
            if !is_old {
                early += first.count;
            }
            for request in first.records() {
                let (id, chunks, first) = (request.key.id, &self.chunks, self.first);
                let is_it = |place: &Place| id_at(chunks, first, *place) == id;
                if let Ok(entry) = self.index.find_entry(hash(id), is_it) {
                    entry.remove();
                }
            }
            let gone = self.chunks.pop_front();
            self.first += 1;
            if self.chunks.is_empty() {
                // It was the last one, whose bytes are counted by themselves.
                self.bytes = 0;
            } else {
                self.bytes -= gone.map_or(0, |gone| gone.bytes.capacity());
            }
        }
        // What a busy hour needed is given back.
        if self.index.capacity() > 4 * self.index.len().max(1 << 10) {
            let (chunks, first) = (&self.chunks, self.first);
            self.index.shrink_to(2 * self.index.len(), |place| {
                hash(id_at(chunks, first, *place))
            });
        }
        early
    }

    fn find(&self, id: u128) -> Option<Place> {
        let is_it = |place: &Place| id_at(&self.chunks, self.first, *place) == id;
        self.index.find(hash(id), is_it).copied()
    }

    fn locate(&self, place: Place) -> Option<(&Chunk, usize)> {
        let at = place.chunk.wrapping_sub(self.first as u16);
        let chunk = self.chunks.get(usize::from(at))?;
        Some((chunk, usize::from(place.offset)))
    }
}

impl Chunk {
    fn takes_more(&self, now: Moment, span: Duration) -> bool {
        self.bytes.len() < CHUNK_BYTES && now.since(self.begun) <= span
    }

    fn records(&self) -> Vec<Request> {
        let mut records = Vec::with_capacity(self.count);
        let mut rest = &self.bytes[..];
        while let Some((request, after)) = Request::take_from(rest) {
            records.push(request);
            rest = after;
        }
        records
    }
}

/// The id of the record at this place.
fn id_at(chunks: &VecDeque<Chunk>, first: u64, place: Place) -> u128 {
    let at = usize::from(place.chunk.wrapping_sub(first as u16));
    let record = chunks
        .get(at)
        .and_then(|chunk| chunk.bytes.get(usize::from(place.offset)..));
    Request::id_of(record.unwrap_or_default())
}

/// Ids are hashes already.
const fn hash(id: u128) -> u64 {
    (id >> 64) as u64 ^ id as u64
}

#[cfg(test)]
mod tests {
    use kvcm_index::Grant;
    use kvcm_journal::RequestKey;

    use super::*;
    use crate::{Skipped, StartedBefore, session_id::SessionId};

    const KEPT: Duration = Duration::from_secs(600);

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    /// As a client's library names them.
    fn id(number: u64) -> u128 {
        u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(number)
    }

    fn done(number: u64) -> Request {
        Request {
            key: RequestKey {
                id: id(number),
                body: number ^ 7,
            },
            outcome: RequestOutcome::Done,
        }
    }

    fn started(number: u64, skipped: Skipped) -> Request {
        Request {
            outcome: RequestOutcome::Started(Box::new(StartedBefore {
                session: SessionId::random(&mut fastrand::Rng::with_seed(number)),
                grant: Grant {
                    epoch: 1 << 40,
                    counter: number,
                },
                storage: 3,
                skipped,
            })),
            ..done(number)
        }
    }

    fn known(records: &Records, numbers: Range<u64>) -> Vec<u64> {
        numbers
            .filter(|number| records.get(id(*number)).is_some())
            .collect()
    }

    #[test]
    fn the_first_outcome_stays_and_is_found_with_its_body() {
        let mut records = Records::new(KEPT, 1 << 20);
        let all = [
            done(1),
            started(2, Skipped::Offset(9)),
            started(3, Skipped::Bools(vec![true; 100])),
            Request {
                outcome: RequestOutcome::BadMask("too long".into()),
                ..done(4)
            },
        ];
        for request in &all {
            assert_eq!(records.note(request, at(1)), 0);
        }
        let other = Request {
            key: RequestKey { id: id(1), body: 0 },
            outcome: RequestOutcome::BadMask("another".into()),
        };
        records.note(&other, at(2));
        for request in &all {
            let found = records.get(request.key.id).unwrap();
            assert_eq!(found, (request.key.body, request.outcome.clone()));
        }
        assert_eq!(records.get(id(5)), None);
        assert_eq!(records.len(), 4);
        let chunks: Vec<_> = records.chunks().flat_map(|at| records.chunk(at)).collect();
        assert_eq!(chunks, all);
    }

    #[test]
    fn each_is_kept_for_its_time_and_hardly_longer() {
        let mut records = Records::new(KEPT, 1 << 20);
        for second in 0..2000 {
            assert_eq!(records.note(&done(second), at(second)), 0);
            let oldest = known(&records, 0..second)[..].first().copied();
            let oldest = oldest.unwrap_or(second);
            assert!(oldest <= second.saturating_sub(599), "{oldest} at {second}");
            assert!(oldest + 600 + 40 >= second, "{oldest} at {second}");
        }
        let places = records.chunks();
        assert!(places.start > 0 && records.chunk(places.start - 1).is_empty());
        let rest = places.flat_map(|at| records.chunk(at));
        let numbers: Vec<_> = rest.map(|request| request.key.body ^ 7).collect();
        assert_eq!(numbers, known(&records, 0..2000));
        records.note(&done(5000), at(5000));
        assert_eq!(known(&records, 0..5001), [5000]);
    }

    #[test]
    fn too_many_cost_the_oldest_which_is_counted_and_the_budget_holds() {
        let budget = 1 << 20;
        let mut records = Records::new(KEPT, budget);
        let mut early = 0;
        for number in 0..100_000 {
            early += records.note(&started(number, Skipped::Offset(0)), at(number / 1000));
            assert!(records.bytes() <= budget + 2 * CHUNK_BYTES);
        }
        assert_eq!(early + records.len(), 100_000);
        let left = known(&records, 0..100_000);
        assert_eq!(left, (early as u64..100_000).collect::<Vec<_>>());
        assert!(left.len() > 5000, "{}", left.len());
    }

    #[test]
    fn what_is_larger_than_a_chunk_and_than_the_budget_is_kept_until_something_else_is() {
        let mut records = Records::new(KEPT, 1000);
        let large = started(1, Skipped::Bools(vec![true; 1 << 20]));
        records.note(&large, at(0));
        assert_eq!(records.get(id(1)).unwrap().1, large.outcome);
        assert_eq!(records.note(&done(2), at(0)), 0, "it is the last one");
        assert_eq!(records.note(&done(3), at(0)), 1);
        assert_eq!(known(&records, 0..4), [2, 3]);
    }

    #[test]
    fn numbers_of_chunks_may_run_over() {
        let mut records = Records::new(Duration::from_secs(16), usize::MAX);
        records.first = u64::from(u16::MAX) - 1;
        for second in 0..40 {
            records.note(&done(second), at(2 * second));
        }
        assert!(records.first > u64::from(u16::MAX));
        let left = known(&records, 0..40);
        assert_eq!(left, (40 - left.len() as u64..40).collect::<Vec<_>>());
        assert!(left.len() >= 8);
    }

    #[test]
    fn a_pair_of_start_and_finish_takes_few_bytes() {
        let mut records = Records::new(KEPT, usize::MAX);
        let pairs = 100_000;
        for number in 0..pairs {
            records.note(&started(2 * number, Skipped::Offset(0)), at(0));
            records.note(&done(2 * number + 1), at(0));
        }
        let each = records.bytes() / (2 * pairs as usize);
        assert!(each <= 66, "{each} bytes for each record");
    }
}
