//! Removing what dead processes left.

use std::time::Duration;

use coordination_core::Error;

use crate::{
    lives,
    names::{self, LIFE, TEMPORARY},
    store::Store,
    worker::Call,
};

/// How long the guard is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

impl Store {
    /// Removes lifetime files of dead processes that no lock names, half-written files and expired
    /// values. Leaving it out does no harm.
    pub(crate) fn tidy(&mut self) {
        if !self.lives.are_ended()
            && let Err(error) = self.try_tidy()
        {
            tracing::debug!(%error, "left out some tidying");
        }
    }

    fn try_tidy(&mut self) -> Result<(), Error> {
        let deadline = self.clock.now() + PATIENCE;
        let call = Call::unattended(self.clock.clone(), deadline);
        let _guarded = self.enter(&call)?;
        let all_names = self.directory.names()?;
        let starts = |prefix| move |name: &&str| name.starts_with(prefix);
        let each = || all_names.iter().map(String::as_str);
        // Nobody writes but under the guard, so these are from writers that died.
        self.directory.discard(each().filter(starts(TEMPORARY)));
        // The file of a named holder is the proof of its death; others may still want to see it.
        if let Some(holders) = self.holders(&all_names) {
            let named: Vec<_> = holders.into_iter().map(names::life).collect();
            for life in each().filter(starts(LIFE)) {
                if !named.iter().any(|named| named == life) {
                    lives::bury(&self.directory, life);
                }
            }
        }
        let expired = self.expired_values(&all_names);
        self.directory.discard(expired);
        Ok(())
    }
}
