//! The second phase of a write.

use std::sync::Arc;

use tokio::time::timeout;

use crate::{
    CacheManager, Error, FinishRequest, Mask, RequestOutcome, Result, SessionId, events,
    home::Home,
    manager::require,
    mask::Success,
    ops::{End, Ending, Op, Request},
    sessions::{Begin, Session},
};

impl CacheManager {
    /// Ends a write session: the keys that were written serve from now on, the others are free.
    ///
    /// Exactly once: of several finishes one counts. The same finish again is answered the same
    /// way, for ten minutes or so and on the next leader too. A mask that does not fit ends the
    /// session as one that wrote nothing, so that its keys can be written again at once. Keys that
    /// were removed meanwhile stay removed.
    ///
    /// # Errors
    /// [`Error::MissingFields`], [`Error::InvalidArgument`] (mask; the session of another
    /// instance, which stays open), [`Error::InstanceNotExist`], [`Error::SessionGone`] for a
    /// session that is unknown, expired or ended otherwise, and those of the journal:
    /// [`Error::NotStored`] leaves the session open, after [`Error::Unknown`] the same finish
    /// again tells.
    pub async fn finish_write(&self, request: &FinishRequest<'_>) -> Result<()> {
        require(&[
            ("instance_id", !request.instance_id.is_empty()),
            ("write_session_id", !request.session_id.is_empty()),
            ("success_blocks", request.success_blocks.is_some()),
        ])?;
        if self.registry.instance(request.instance_id).is_none() {
            return Err(Error::InstanceNotExist(request.instance_id.to_owned()));
        }
        let gone = || Error::SessionGone(request.session_id.chars().take(64).collect());
        let id: SessionId = request.session_id.parse().map_err(|_| gone())?;
        let mask = request.success_blocks.unwrap_or_default();
        match self.begin_finish(&id, request.instance_id, mask).await? {
            Begin::Finish(session, success) => {
                let recorded = request.request.map(|key| Request {
                    key,
                    outcome: RequestOutcome::Done,
                });
                let ending = Ending::Finished(success);
                self.end(id, session, ending, recorded).await
            }
            Begin::BadMask(session, why) => {
                let why = format!("{why}; the session has ended and its keys are free");
                let recorded = request.request.map(|key| Request {
                    key,
                    outcome: RequestOutcome::BadMask(why.as_str().into()),
                });
                self.end(id, session, Ending::BadMask, recorded).await?;
                Err(Error::InvalidArgument(why))
            }
            Begin::Repeat => Ok(()),
            Begin::Gone | Begin::Wait => Err(gone()),
            Begin::OtherInstance => Err(Error::invalid(format!(
                "write_session_id belongs to another instance than instance_id `{}`",
                request.instance_id
            ))),
        }
    }

    /// Takes the session, after whoever is ending it right now.
    async fn begin_finish(
        &self,
        id: &SessionId,
        instance_id: &str,
        mask: Mask<'_>,
    ) -> Result<Begin<Arc<Home>>> {
        let sessions = &self.shared.sessions;
        let begin = async {
            loop {
                // Made before the look, so that no change between the two is missed.
                let settled = sessions.settled();
                match sessions.begin_finish(id, instance_id, mask, self.shared.clock.now()) {
                    Begin::Wait => settled.await,
                    other => return other,
                }
            }
        };
        timeout(self.config.journal_timeout, begin)
            .await
            .map_err(|_| {
                let trouble = self.log.trouble();
                Error::Unknown(format!("the session is being ended, ask again{trouble}"))
            })
    }

    async fn end(
        &self,
        id: SessionId,
        session: Arc<Session<Arc<Home>>>,
        ending: Ending,
        recorded: Option<Request>,
    ) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let mut ops = vec![Op::End(End {
            session: id,
            ending: ending.clone(),
        })];
        ops.extend(shared.answered.begin(recorded.as_ref()));
        let settle = move |stored: bool| {
            let now = shared.clock.now();
            shared.answered.settle(recorded, stored, now);
            if !stored {
                shared.sessions.reopen(id, None);
                return;
            }
            let outcome = match ending {
                Ending::Finished(success) => Some(success),
                Ending::Expired | Ending::BadMask => None,
            };
            let nothing = Success::nothing(session.keys.len());
            let success = outcome.as_ref().unwrap_or(&nothing);
            let home = &session.home;
            let now_s = shared.now_s();
            let mut serving = 0;
            let unwritten = shared.retire(home, |retired| {
                let written = |at| success.contains(at);
                serving = home
                    .index
                    .commit(&session.keys, session.grant, now_s, written, retired);
            });
            let stats = &shared.stats;
            stats.added.add(serving);
            stats.unwritten.add(unwritten);
            match &outcome {
                Some(_) => stats.sessions_finished.add(1),
                None => stats.sessions_rejected.add(1),
            }
            events::ended(home, serving, unwritten);
            // The keys first: whoever sees the session closed sees them settled.
            shared.sessions.close(id, outcome, now);
        };
        self.log.commit(&ops, settle).await
    }
}
