//! Removing what nobody needs any more.

use std::time::Duration;

use coordination_core::Error;

use crate::{chain::Chain, lives, names::TEMPORARY, store::Store, worker::Call};

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(1);

impl Store {
    /// Removes old records, and lifetime files of dead processes that no lock names. Leaving it
    /// out, or stopping anywhere in it, does no harm.
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
        let all_names = self.directory.names()?;
        for chain in Chain::all(&all_names) {
            let newest = self.newest(&chain, &call)?.number;
            self.clean(&chain, newest);
        }
        // Whoever still uses one tries a file system.
        let temporary = |name: &&str| name.starts_with(TEMPORARY);
        self.directory
            .discard(all_names.iter().map(String::as_str).filter(temporary));
        // The file of a named holder is the proof of its death; others may still want to see it. Who
        // is dead before the records are read names itself in no later one.
        let dead = lives::dead(&self.directory, &all_names);
        if let Some(named) = self.holders(&call) {
            let named = |life: &&str| named.iter().any(|name| name == life);
            let unnamed = dead.iter().map(|(life, _)| *life);
            self.directory.discard(unnamed.filter(|life| !named(life)));
        }
        Ok(())
    }
}
