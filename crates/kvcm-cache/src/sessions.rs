//! The open write sessions, and those that ended a short while ago.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use kvcm_clock::Moment;
use kvcm_index::Grant;
use parking_lot::Mutex;
use tokio::sync::{Notify, futures::Notified};

use crate::{Mask, SessionId, mask::Success};

/// What a session owns. `I` is where its keys live.
#[derive(Debug)]
pub(crate) struct Session<I> {
    pub(crate) instance_id: Arc<str>,
    pub(crate) home: I,
    /// The new keys, in request order.
    pub(crate) keys: Arc<[i64]>,
    pub(crate) grant: Grant,
    pub(crate) life: Duration,
}

/// What a finish finds.
#[derive(Debug)]
pub(crate) enum Begin<I> {
    /// The caller ends the session, and says so with [`Sessions::close`] or [`Sessions::reopen`].
    Finish(Arc<Session<I>>, Success),
    /// The same, as one whose keys were not written; why the mask does not fit.
    BadMask(Arc<Session<I>>, String),
    /// It ended with this very outcome.
    Repeat,
    /// Somebody is ending it: wait, then ask again.
    Wait,
    /// No such session, or its time is up, or it ended otherwise.
    Gone,
    /// It belongs to another instance; it stays open.
    OtherInstance,
}

/// Sessions by id and by deadline. The lock is held for a few map operations only.
#[derive(Debug)]
pub(crate) struct Sessions<I> {
    inner: Mutex<Inner<I>>,
    /// The first deadline moved forward.
    earlier: Notify,
    /// Some session stopped ending.
    settled: Notify,
}

#[derive(Debug)]
struct Inner<I> {
    open: HashMap<SessionId, Held<I>>,
    /// The grants of the open ones.
    grants: HashSet<Grant>,
    deadlines: BTreeSet<(Moment, SessionId)>,
    /// When the expiry is going to look: a deadline that is not sooner need not wake it.
    next_look: Moment,
    ended: HashMap<SessionId, Success>,
    /// When each of `ended` is forgotten, oldest first.
    forget: VecDeque<(Moment, SessionId)>,
    /// How many went from the front of it.
    forgotten: u64,
}

#[derive(Debug)]
struct Held<I> {
    session: Arc<Session<I>>,
    deadline: Moment,
    /// Its end is on its way to the journal.
    ending: bool,
}

/// An open session with its id.
pub(crate) type Open<I> = (SessionId, Arc<Session<I>>);

/// How long a finished session answers an identical finish: longer than any client retries.
const REMEMBERED: Duration = Duration::from_secs(600);
/// How many finished sessions are remembered at most.
const REMEMBERED_MAX: usize = 1 << 16;

impl<I> Sessions<I> {
    pub(crate) fn new() -> Self {
        Self {
            inner: Mutex::new(Inner {
                open: HashMap::new(),
                grants: HashSet::new(),
                deadlines: BTreeSet::new(),
                next_look: Moment::NEVER,
                ended: HashMap::new(),
                forget: VecDeque::new(),
                forgotten: 0,
            }),
            earlier: Notify::new(),
            settled: Notify::new(),
        }
    }

    /// Open sessions.
    pub(crate) fn len(&self) -> usize {
        self.inner.lock().open.len()
    }

    /// Whether the session that was given this grant is open: its keys may be being written.
    pub(crate) fn is_open(&self, grant: Grant) -> bool {
        self.inner.lock().grants.contains(&grant)
    }

    /// A session begins its life, or a recovered one begins it again.
    pub(crate) fn open(&self, id: SessionId, session: Session<I>, now: Moment) {
        let deadline = now + session.life;
        let mut inner = self.inner.lock();
        inner.grants.insert(session.grant);
        inner.open.insert(
            id,
            Held {
                session: Arc::new(session),
                deadline,
                ending: false,
            },
        );
        self.arm(&mut inner, id, deadline);
    }

    /// A finish arrives. The keys of a session are its own until it is closed, so of all callers
    /// one gets [`Begin::Finish`].
    pub(crate) fn begin_finish(
        &self,
        id: &SessionId,
        instance_id: &str,
        mask: Mask<'_>,
        now: Moment,
    ) -> Begin<I> {
        let mut inner = self.inner.lock();
        let Some(held) = inner.open.get_mut(id) else {
            let same = |success: &Success| {
                Success::new(mask, success.len()).is_ok_and(|mask| mask == *success)
            };
            return match inner.ended.get(id) {
                Some(success) if same(success) => Begin::Repeat,
                _ => Begin::Gone,
            };
        };
        if &*held.session.instance_id != instance_id {
            return Begin::OtherInstance;
        }
        if held.ending {
            return Begin::Wait;
        }
        // The expiry may be late, the deadline is not.
        if now >= held.deadline {
            return Begin::Gone;
        }
        held.ending = true;
        let session = Arc::clone(&held.session);
        match Success::new(mask, session.keys.len()) {
            Ok(success) => Begin::Finish(session, success),
            Err(why) => Begin::BadMask(session, why),
        }
    }

    /// Up to `limit` sessions whose time is up, for the caller to end.
    pub(crate) fn take_due(&self, now: Moment, limit: usize) -> Vec<Open<I>> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let mut due = Vec::new();
        while due.len() < limit
            && let Some((deadline, id)) = inner.deadlines.first().copied()
            && deadline <= now
        {
            inner.deadlines.pop_first();
            if let Some(held) = inner.open.get_mut(&id)
                && !held.ending
            {
                held.ending = true;
                due.push((id, Arc::clone(&held.session)));
            }
        }
        due
    }

    /// The end of a session did not reach the journal: it is open again, until `deadline` when
    /// one is given.
    pub(crate) fn reopen(&self, id: SessionId, deadline: Option<Moment>) {
        let mut inner = self.inner.lock();
        if let Some(held) = inner.open.get_mut(&id) {
            held.ending = false;
            if let Some(deadline) = deadline {
                let former = std::mem::replace(&mut held.deadline, deadline);
                inner.deadlines.remove(&(former, id));
            }
            let deadline = inner.open.get(&id).map_or(Moment::NEVER, |h| h.deadline);
            self.arm(&mut inner, id, deadline);
        }
        drop(inner);
        self.settled.notify_waiters();
    }

    /// A session has ended and its keys are settled. With its outcome an identical finish is
    /// answered for a while; without, every later finish is told that it is gone.
    pub(crate) fn close(&self, id: SessionId, outcome: Option<Success>, now: Moment) {
        let mut inner = self.inner.lock();
        if let Some(held) = inner.open.remove(&id) {
            inner.deadlines.remove(&(held.deadline, id));
            inner.grants.remove(&held.session.grant);
        }
        if let Some(success) = outcome {
            inner.ended.insert(id, success);
            inner.forget.push_back((now + REMEMBERED, id));
        }
        while let Some((until, id)) = inner.forget.front().copied()
            && (until <= now || inner.forget.len() > REMEMBERED_MAX)
        {
            inner.forget.pop_front();
            inner.forgotten += 1;
            inner.ended.remove(&id);
        }
        drop(inner);
        self.settled.notify_waiters();
    }

    /// All open sessions, and the places of all outcomes that are remembered.
    pub(crate) fn all_open(&self) -> (Vec<Open<I>>, Range<u64>) {
        let inner = self.inner.lock();
        let open = inner.open.iter();
        let open = open.map(|(id, held)| (*id, Arc::clone(&held.session)));
        let end = inner.forgotten + inner.forget.len() as u64;
        (open.collect(), inner.forgotten..end)
    }

    /// The remembered outcomes in these places, in the order of their ends. Each keeps its place.
    pub(crate) fn ended(&self, places: Range<u64>) -> Vec<(SessionId, Success)> {
        let inner = self.inner.lock();
        let from = places.start.saturating_sub(inner.forgotten);
        let count = places.end.saturating_sub(inner.forgotten.max(places.start));
        let ended = inner.forget.iter();
        let ended = ended.skip(from as usize).take(count as usize);
        ended
            .filter_map(|(_, id)| Some((*id, inner.ended.get(id)?.clone())))
            .collect()
    }

    /// When the next session's time is up; never without one. The caller looks then, or asks again
    /// when that [has moved forward](Self::moved_forward).
    pub(crate) fn next_deadline(&self) -> Moment {
        let mut inner = self.inner.lock();
        let first = inner.deadlines.first();
        inner.next_look = first.map_or(Moment::NEVER, |(deadline, _)| *deadline);
        inner.next_look
    }

    /// Returns when a deadline has come that is sooner than all before, since the last return.
    pub(crate) async fn moved_forward(&self) {
        self.earlier.notified().await;
    }

    /// Returns when a session that was ending has ended or is open again. Create it, then ask,
    /// then wait.
    pub(crate) fn settled(&self) -> Notified<'_> {
        self.settled.notified()
    }

    fn arm(&self, inner: &mut Inner<I>, id: SessionId, deadline: Moment) {
        inner.deadlines.insert((deadline, id));
        if deadline < inner.next_look {
            inner.next_look = deadline;
            self.earlier.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(keys: &[i64], life_s: u64) -> Session<()> {
        Session {
            instance_id: "i".into(),
            home: (),
            keys: keys.into(),
            grant: Grant::default(),
            life: Duration::from_secs(life_s),
        }
    }

    fn id(seed: u64) -> SessionId {
        SessionId::random(&mut fastrand::Rng::with_seed(seed))
    }

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn one_finish_gets_the_session_and_the_others_wait() {
        let sessions = Sessions::new();
        sessions.open(id(1), session(&[1, 2], 10), at(0));
        let first = sessions.begin_finish(&id(1), "i", Mask::Offset(2), at(1));
        let Begin::Finish(_, success) = first else {
            panic!("{first:?}");
        };
        let second = sessions.begin_finish(&id(1), "i", Mask::Offset(2), at(1));
        assert!(matches!(second, Begin::Wait), "{second:?}");
        sessions.close(id(1), Some(success), at(1));
        let same = sessions.begin_finish(&id(1), "i", Mask::Bools(&[true, true]), at(2));
        assert!(matches!(same, Begin::Repeat), "{same:?}");
        let other = sessions.begin_finish(&id(1), "i", Mask::Offset(1), at(2));
        assert!(matches!(other, Begin::Gone), "{other:?}");
    }

    #[test]
    fn an_outcome_is_forgotten_in_the_end() {
        let sessions = Sessions::new();
        for number in 0..2 {
            sessions.open(id(number), session(&[], 10), at(0));
        }
        sessions.close(id(0), Some(Success::nothing(0)), at(0));
        sessions.close(id(1), Some(Success::nothing(0)), at(700));
        let first = sessions.begin_finish(&id(0), "i", Mask::Offset(0), at(700));
        assert!(matches!(first, Begin::Gone), "{first:?}");
        let second = sessions.begin_finish(&id(1), "i", Mask::Offset(0), at(700));
        assert!(matches!(second, Begin::Repeat), "{second:?}");
    }

    #[test]
    fn a_late_finish_is_refused_although_nobody_expired_the_session_yet() {
        let sessions = Sessions::new();
        sessions.open(id(1), session(&[1], 10), at(0));
        let late = sessions.begin_finish(&id(1), "i", Mask::Offset(1), at(10));
        assert!(matches!(late, Begin::Gone), "{late:?}");
        assert_eq!(sessions.take_due(at(9), 5).len(), 0);
        assert_eq!(sessions.take_due(at(10), 5).len(), 1);
        assert_eq!(sessions.take_due(at(10), 5).len(), 0, "taken twice");
    }

    #[test]
    fn a_session_whose_end_failed_is_open_until_its_deadline() {
        let sessions = Sessions::new();
        sessions.open(id(1), session(&[1], 10), at(0));
        let first = sessions.begin_finish(&id(1), "i", Mask::Offset(1), at(1));
        assert!(matches!(first, Begin::Finish(..)), "{first:?}");
        // The deadline passes while the end is on its way.
        assert_eq!(sessions.take_due(at(11), 5).len(), 0);
        sessions.reopen(id(1), None);
        assert_eq!(sessions.next_deadline(), at(10));
        assert_eq!(sessions.take_due(at(11), 5).len(), 1);
        sessions.reopen(id(1), Some(at(12)));
        assert_eq!(sessions.next_deadline(), at(12));
        sessions.close(id(1), None, at(12));
        assert_eq!(sessions.next_deadline(), Moment::NEVER);
        assert_eq!(sessions.len(), 0);
    }

    /// Whether the expiry would be woken now.
    fn wakes(sessions: &Sessions<()>) -> bool {
        let mut moved = std::pin::pin!(sessions.moved_forward());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        moved.as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn only_a_deadline_that_is_sooner_than_the_next_look_wakes_the_expiry() {
        let sessions = Sessions::new();
        let open = |number: u64, life| {
            sessions.open(id(number), session(&[1], life), at(0));
        };
        open(1, 10);
        assert!(wakes(&sessions));
        assert_eq!(sessions.next_deadline(), at(10));
        // One session after the other, as of a single writer.
        for number in 2..5 {
            sessions.close(id(number - 1), None, at(0));
            open(number, 10 + number);
            assert!(!wakes(&sessions), "it looks at 10 and asks then");
        }
        open(5, 9);
        assert!(wakes(&sessions));
        sessions.close(id(5), None, at(0));
        assert_eq!(sessions.next_deadline(), at(14));
        open(6, 13);
        open(7, 13);
        assert!(wakes(&sessions) && !wakes(&sessions));
    }

    #[test]
    fn a_session_is_finished_by_its_own_instance_only() {
        let sessions = Sessions::new();
        sessions.open(id(1), session(&[1], 10), at(0));
        let other = sessions.begin_finish(&id(1), "j", Mask::Offset(1), at(1));
        assert!(matches!(other, Begin::OtherInstance), "{other:?}");
        let own = sessions.begin_finish(&id(1), "i", Mask::Offset(1), at(1));
        assert!(matches!(own, Begin::Finish(..)), "{own:?}");
    }

    #[test]
    fn a_bad_mask_takes_the_session() {
        let sessions = Sessions::new();
        sessions.open(id(1), session(&[1, 2], 10), at(0));
        let bad = sessions.begin_finish(&id(1), "i", Mask::Bools(&[true]), at(1));
        assert!(matches!(bad, Begin::BadMask(..)), "{bad:?}");
        sessions.close(id(1), None, at(1));
        let again = sessions.begin_finish(&id(1), "i", Mask::Offset(2), at(1));
        assert!(matches!(again, Begin::Gone), "{again:?}");
    }
}
