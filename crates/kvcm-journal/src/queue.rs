//! Batches that have a number, on their way into a store.

use std::{collections::VecDeque, time::Duration};

use bytes::BytesMut;
use kvcm_fence::{Claim, Fenced};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    AppendError, Batch, LogSize, Record,
    group::{self, Group},
};

/// Bytes of a batch that a store takes at most.
pub(crate) const BATCH_BYTES_MAX: usize = 16 << 20;
/// A group is closed when it holds so many bytes.
const GROUP_BYTES: usize = 1 << 20;
/// Bytes that may wait for the store: more are refused.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Batches that may wait for the store.
const WAITING_MAX: usize = 1 << 16;
/// Tries that fail in a row before callers are no longer left waiting: about a second's worth.
const PATIENCE: u32 = 8;

/// Batches that have a number, on their way into a store. Callers submit and wait; the committer
/// takes all that has gathered as one [`Group`] and says when the store has it.
#[derive(Debug)]
pub(crate) struct Queue {
    claim: Claim,
    state: Mutex<State>,
    /// Something was submitted, or the wait for it is over.
    pub(crate) submitted: Notify,
    /// Something was committed, or cannot be any more.
    settled: Notify,
}

#[derive(Debug, Default)]
struct State {
    is_loaded: bool,
    last: u64,
    committed: u64,
    /// Sizes of what waits, one for each number after `taken`.
    waiting: Waiting,
    /// What the committer is writing. It is tried again until the store has it.
    taken: Option<Group>,
    failing: Option<Failing>,
    went_back: Option<u64>,
    ended: Option<Fenced>,
    log: Log,
}

/// What a load would have to replay.
#[derive(Debug, Default)]
struct Log {
    /// The batches up to this one are in the snapshot.
    through: u64,
    /// The groups since, each with the number of its last batch and its payload.
    groups: VecDeque<(u64, u64)>,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Waiting {
    /// The groups to come, each with the number of its last batch and its payload. The last one
    /// still grows.
    groups: VecDeque<Gathering>,
    bytes: usize,
    count: usize,
}

#[derive(Debug, Default)]
struct Gathering {
    records: BytesMut,
    first: u64,
    last: u64,
    payload: u64,
}

#[derive(Debug)]
struct Failing {
    tries: u32,
    why: String,
}

impl Queue {
    /// Nothing is taken before [`Queue::open`].
    pub(crate) fn new(claim: Claim) -> Self {
        Self {
            claim,
            state: Mutex::default(),
            submitted: Notify::new(),
            settled: Notify::new(),
        }
    }

    pub(crate) const fn claim(&self) -> &Claim {
        &self.claim
    }

    /// The content was loaded up to batch `last`: writing may begin.
    pub(crate) fn open(&self, last: u64, log: LogSize) {
        let mut state = self.state.lock();
        state.is_loaded = true;
        state.last = last;
        state.committed = last;
        state.log.through = last.saturating_sub(log.records);
        state.log.push(last, log.bytes);
    }

    /// See [`Writer::submit`](crate::Writer::submit).
    pub(crate) fn submit(&self, batch: Batch) -> Result<u64, AppendError> {
        let (size, limit) = (batch.size(), BATCH_BYTES_MAX);
        if size > limit {
            return Err(AppendError::TooLarge { size, limit });
        }
        let mut state = self.state.lock();
        let state = &mut *state;
        state.check()?;
        if let Some(failing) = state.failing.as_ref().filter(|f| f.tries >= PATIENCE) {
            return Err(AppendError::not_done(failing.why.clone()));
        }
        let waiting = &mut state.waiting;
        if waiting.count >= WAITING_MAX || waiting.bytes + size > WAITING_BYTES_MAX {
            let count = waiting.count;
            return Err(AppendError::not_done(format!(
                "{count} batches wait for the journal already"
            )));
        }
        let seq = state.last + 1;
        let record = Record {
            cluster: self.claim.cluster.clone(),
            epoch: self.claim.epoch,
            seq,
            batch,
        };
        waiting.push(&record, size)?;
        state.last = seq;
        self.submitted.notify_one();
        Ok(seq)
    }

    /// See [`Writer::committed`](crate::Writer::committed).
    pub(crate) async fn committed(&self, seq: u64, timeout: Duration) -> Result<(), AppendError> {
        // Who comes while the store fails waits for one more try.
        let tries = self.state.lock().tries();
        let wait = async {
            loop {
                let settled = self.settled.notified();
                tokio::pin!(settled);
                // Registered before the look, so that no change between the two is missed.
                settled.as_mut().enable();
                if self.state.lock().is_committed(seq, tries)? {
                    return Ok(());
                }
                settled.await;
            }
        };
        match tokio::time::timeout(timeout, wait).await {
            Ok(result) => result,
            Err(_) => {
                let state = self.state.lock();
                let why = state.failing.as_ref().map(|failing| failing.why.as_str());
                Err(AppendError::unknown(format!(
                    "batch {seq} was not acknowledged within {} ms{}{}",
                    timeout.as_millis(),
                    if why.is_some() { ": " } else { "" },
                    why.unwrap_or_default(),
                )))
            }
        }
    }

    pub(crate) fn committed_seq(&self) -> u64 {
        self.state.lock().committed
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.state.lock().last
    }

    pub(crate) fn log_size(&self) -> LogSize {
        let state = self.state.lock();
        LogSize {
            records: state.committed.saturating_sub(state.log.through),
            bytes: state.log.bytes,
        }
    }

    /// That a snapshot through this batch may be written.
    pub(crate) fn check_snapshot(&self, through: u64) -> Result<(), AppendError> {
        let state = self.state.lock();
        state.check()?;
        if through > state.committed {
            let last = state.committed;
            return Err(AppendError::NoSuchSeq { seq: through, last });
        }
        Ok(())
    }

    /// The store has a snapshot of all batches up to `through`.
    pub(crate) fn compacted(&self, through: u64) {
        let mut state = self.state.lock();
        state.log.drop_through(through);
        if state.went_back.take().is_some() {
            self.submitted.notify_one();
        }
    }
}

// === impl Queue: for the committer ===

impl Queue {
    /// What to write now: the group that the store has not acknowledged, else all that has
    /// gathered since. None when there is nothing.
    pub(crate) fn take(&self) -> Option<Group> {
        let mut state = self.state.lock();
        if state.went_back.is_some() || state.ended.is_some() {
            return None;
        }
        if state.taken.is_none() {
            let Gathering {
                records,
                first,
                last,
                payload,
            } = state.waiting.groups.pop_front()?;
            // A group is far below the 4 GiB of a frame.
            let bytes = group::encode(&records).unwrap_or_default();
            state.taken = Some(Group {
                first,
                last,
                payload,
                bytes,
            });
        }
        state.taken.clone()
    }

    /// How many batches wait to be taken; 0 while a group has to be tried again.
    pub(crate) fn gathered(&self) -> u64 {
        let state = self.state.lock();
        match state.taken {
            Some(_) => 0,
            None => state.waiting.count as u64,
        }
    }

    /// The store has the group that was taken. Gives how many batches that were, and how many have
    /// gathered meanwhile.
    pub(crate) fn acknowledged(&self) -> (u64, u64) {
        let mut state = self.state.lock();
        let mut count = 0;
        if let Some(group) = state.taken.take() {
            count = group.last + 1 - group.first;
            state.committed = group.last;
            state.log.push(group.last, group.payload);
            state.waiting.bytes = state.waiting.bytes.saturating_sub(group.payload as usize);
            state.waiting.count = state.waiting.count.saturating_sub(count as usize);
        }
        state.failing = None;
        let gathered = state.waiting.count as u64;
        drop(state);
        self.settled.notify_waiters();
        (count, gathered)
    }

    /// The store did not take the group; it is tried again. Gives the number of tries so far.
    pub(crate) fn failed(&self, why: String) -> u32 {
        let mut state = self.state.lock();
        let tries = state.tries() + 1;
        state.failing = Some(Failing { tries, why });
        drop(state);
        if tries >= PATIENCE {
            self.settled.notify_waiters();
        }
        tries
    }

    /// The store has only the batches up to `has`, although it had acknowledged more.
    pub(crate) fn went_back(&self, has: u64) {
        self.state.lock().went_back = Some(has);
        self.settled.notify_waiters();
    }

    /// The claim does not stand any more.
    pub(crate) fn end(&self, fenced: Fenced) {
        self.state.lock().ended = Some(fenced);
        self.settled.notify_waiters();
    }
}

// === impl State, Log, Waiting ===

impl Log {
    fn push(&mut self, last: u64, bytes: u64) {
        self.groups.push_back((last, bytes));
        self.bytes += bytes;
    }

    fn drop_through(&mut self, through: u64) {
        self.through = self.through.max(through);
        while let Some((_, bytes)) = self.groups.pop_front_if(|(last, _)| *last <= through) {
            self.bytes -= bytes;
        }
    }
}

impl State {
    fn check(&self) -> Result<(), AppendError> {
        if let Some(fenced) = &self.ended {
            return Err(AppendError::Fenced(fenced.clone()));
        }
        if self.is_loaded {
            Ok(())
        } else {
            Err(AppendError::NotLoaded)
        }
    }

    /// Tries in a row that failed.
    fn tries(&self) -> u32 {
        self.failing.as_ref().map_or(0, |failing| failing.tries)
    }

    /// For somebody who came after so many tries.
    fn is_committed(&self, seq: u64, tries: u32) -> Result<bool, AppendError> {
        if seq > self.last {
            let last = self.last;
            return Err(AppendError::NoSuchSeq { seq, last });
        }
        if seq <= self.committed && self.is_loaded {
            return Ok(true);
        }
        self.check()?;
        if let Some(has) = self.went_back {
            let had = self.committed;
            return Err(AppendError::WentBack { has, had });
        }
        match &self.failing {
            Some(failing) if failing.tries >= PATIENCE && failing.tries > tries => {
                Err(AppendError::unknown(failing.why.clone()))
            }
            _ => Ok(false),
        }
    }
}

impl Waiting {
    fn push(&mut self, record: &Record, size: usize) -> Result<(), AppendError> {
        let is_full = |gathering: &Gathering| gathering.records.len() >= GROUP_BYTES;
        if self.groups.back().is_none_or(is_full) {
            self.groups.push_back(Gathering {
                first: record.seq,
                ..Gathering::default()
            });
        }
        let Some(group) = self.groups.back_mut() else {
            return Ok(());
        };
        let encoded = record.encode(&mut group.records);
        if let Err(error) = encoded {
            if group.records.is_empty() {
                self.groups.pop_back();
            }
            return Err(AppendError::not_done(error));
        }
        group.last = record.seq;
        group.payload += size as u64;
        self.bytes += size;
        self.count += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kvcm_fence::{Epoch, Incarnation};

    use super::*;

    fn queue() -> Queue {
        let queue = Queue::new(Claim {
            cluster: "c".parse().unwrap(),
            epoch: Epoch::new(1).unwrap(),
            incarnation: Incarnation::from_bits(1),
        });
        queue.open(0, LogSize::default());
        queue
    }

    fn batch(size: usize) -> Batch {
        Batch::new(1, 1, Bytes::from(vec![b'x'; size]))
    }

    #[test]
    fn a_group_is_tried_again_as_it_was_whatever_came_since() {
        let queue = queue();
        queue.submit(batch(1)).unwrap();
        let group = queue.take().unwrap();
        queue.submit(batch(1)).unwrap();
        queue.failed("down".to_owned());
        assert_eq!(queue.take(), Some(group));
        queue.acknowledged();
        let next = queue.take().unwrap();
        assert_eq!((next.first, next.last, queue.committed_seq()), (2, 2, 1));
    }

    #[test]
    fn large_groups_are_split_and_waiting_is_bounded() {
        let queue = queue();
        let mut taken = 0;
        let refused = loop {
            match queue.submit(batch(1 << 20)) {
                Ok(seq) => taken = seq,
                Err(error) => break error,
            }
        };
        assert!(!refused.is_unknown(), "{refused}");
        assert_eq!(taken, 64);
        let group = queue.take().unwrap();
        assert_eq!((group.first, group.last), (1, 1));
        queue.acknowledged();
        assert_eq!(queue.submit(batch(1)).unwrap(), 65);
    }

    #[test]
    fn a_batch_that_cannot_be_stored_takes_no_number() {
        let queue = queue();
        let mut wrong = batch(1);
        wrong.requests = vec!["x".repeat(65_536).into()];
        assert!(queue.submit(wrong).is_err());
        assert_eq!(queue.take(), None);
        let large = queue.submit(batch(BATCH_BYTES_MAX + 1));
        assert!(matches!(large, Err(AppendError::TooLarge { .. })));
        assert_eq!(queue.submit(batch(1)).unwrap(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_goes_on_failing_is_told_and_gets_no_more_batches() {
        let queue = queue();
        let limit = Duration::from_secs(60);
        queue.submit(batch(1)).unwrap();
        queue.take().unwrap();
        let fail = async {
            while queue.failed("the disk is full".to_owned()) < PATIENCE {
                tokio::task::yield_now().await;
            }
        };
        let (waited, ()) = tokio::join!(queue.committed(1, limit), fail);
        let error = waited.unwrap_err();
        assert!(
            error.is_unknown() && error.to_string().contains("the disk is full"),
            "{error}"
        );
        let refused = queue.submit(batch(1)).unwrap_err();
        assert!(!refused.is_unknown(), "{refused}");
        queue.acknowledged();
        queue.committed(1, limit).await.unwrap();
        queue.submit(batch(1)).unwrap();
    }
}
