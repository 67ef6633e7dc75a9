//! Sessions whose time is up.

use std::{sync::Arc, time::Duration};

use kvcm_clock::{Moment, Timer};

use crate::{
    CacheManager, Error, Result, events,
    ops::{End, Ending, Op},
};

/// Sessions that one batch of the journal ends at most.
const STEP: usize = 1024;
/// How long after a refusal of the journal the next try is.
const RETRY: Duration = Duration::from_millis(100);

impl CacheManager {
    /// Ends all sessions whose time is up at `now` and frees their keys. Returns how many.
    ///
    /// # Errors
    /// Those of the journal; sessions that are left are tried again after a tenth of a second.
    pub async fn expire(&self, now: Moment) -> Result<usize> {
        let mut ended = 0;
        loop {
            let due = self.shared.sessions.take_due(now, STEP);
            if due.is_empty() {
                return Ok(ended);
            }
            ended += due.len();
            let end = |id| {
                Op::End(End {
                    session: id,
                    ending: Ending::Expired,
                })
            };
            let ops: Vec<Op> = due.iter().map(|(id, _)| end(*id)).collect();
            let shared = Arc::clone(&self.shared);
            let settle = move |stored: bool| {
                for (id, session) in due {
                    if stored {
                        let (home, keys) = (&session.home, &session.keys);
                        let unwritten = shared.retire(home, |retired| {
                            let keys = keys.iter().map(|key| (*key, session.grant));
                            home.index.retire(keys, retired);
                        });
                        shared.stats.unwritten.add(unwritten);
                        shared.stats.sessions_expired.add(1);
                        events::expired(home, unwritten);
                        shared.sessions.close(id, None, shared.clock.now());
                    } else {
                        let again = shared.clock.now() + RETRY;
                        shared.sessions.reopen(id, Some(again));
                    }
                }
            };
            self.log.commit(&ops, settle).await?;
        }
    }

    /// Ends sessions on time, for ever. It sleeps until the next one is due, so a thousand that
    /// are due at once end at once. Returns only when the journal says that this node has been
    /// superseded. Cancel-safe.
    pub async fn run_expiry(&self, timer: &dyn Timer) -> Error {
        loop {
            let next = self.shared.sessions.next_deadline();
            tokio::select! {
                () = timer.sleep_until(next) => {}
                () = self.shared.sessions.moved_forward() => continue,
            }
            match self.expire(self.shared.clock.now()).await {
                Ok(ended) => tracing::debug!(ended, "write sessions expired"),
                Err(error) if error.is_fenced() => return error,
                Err(error) => tracing::warn!(%error, "write sessions could not be ended"),
            }
        }
    }
}
