//! Opening the store of an index: claim, recovery, manager.

use std::{collections::HashSet, time::Duration};

use elector::{Elector, Progress};
use kvcm_cache::{CacheManager, Content, Error, Recovered, Surroundings};
use kvcm_fence::{Claim, ClaimRefused, Epoch, Fenced};
use kvcm_journal::{ClaimError, Journal, Outcome, Writer};
use kvcm_registry::Instance;

use crate::index_store::IndexStore;

/// One call to a store.
const CALL: Duration = Duration::from_secs(5);

/// Opens the stores of one reign.
#[derive(Clone, Debug)]
pub(crate) struct Opener {
    /// The claim of the reign.
    pub(crate) claim: Claim,
    /// What each manager lives in.
    pub(crate) surroundings: Surroundings,
    /// Hears of claims that stood before.
    pub(crate) elector: Elector,
    /// This node is the whole cluster: no earlier claimant can still serve.
    pub(crate) is_alone: bool,
}

/// How far a store has come that is not open.
#[derive(Debug)]
pub(crate) enum Stage {
    /// It is not claimed. `perhaps` it is, by this reign: a try has ended without an answer.
    Unclaimed {
        /// Whether it may be claimed all the same.
        perhaps: bool,
    },
    /// It is claimed, and its content was not read.
    Unread(Box<dyn Writer>),
    /// This program cannot open it.
    Hopeless,
}

/// Why a store is not open.
#[derive(Debug)]
pub(crate) enum Failed {
    /// It may be tried again from this stage.
    At(Stage, String),
    /// Another leader has claimed it, or this node needs a new epoch to do so.
    Fenced {
        /// The epoch of the claim that stands.
        by: Epoch,
    },
}

impl Opener {
    /// Goes on from `stage`. The content counts that is about instances of `groups`.
    pub(crate) async fn open(
        &self,
        place: &IndexStore,
        journal: &dyn Journal,
        stage: Stage,
        groups: &HashSet<String>,
        progress: Option<&Progress>,
    ) -> Result<(CacheManager, Recovered), Failed> {
        let clock = &self.surroundings.clock;
        let begun = clock.now();
        let mut writer = match stage {
            Stage::Unread(writer) => writer,
            Stage::Unclaimed { perhaps } => {
                let claimed = journal.claim(self.claim.clone(), CALL).await;
                claimed.map_err(|error| self.not_claimed(place, perhaps, error))?
            }
            Stage::Hopeless => {
                let why = "this program cannot open it".to_owned();
                return Err(Failed::At(stage, why));
            }
        };
        if let Some(former) = writer.former()
            && !self.is_alone
        {
            self.elector.store_remembers(former.epoch).await;
        }
        if let Some(progress) = progress.cloned() {
            writer.report_progress(Box::new(move || progress.advance()));
        }
        let owned = |instance: &Instance| groups.contains(&instance.group);
        match Content::read(self.surroundings.clone(), &mut *writer, &owned).await {
            Ok(content) => {
                let opened = CacheManager::take_over(content, writer);
                let took = clock.now().since(begun);
                self.report(journal, &opened.1, took);
                Ok(opened)
            }
            Err(Error::Fenced { fenced, .. }) => Err(Failed::Fenced {
                by: match fenced {
                    Fenced::By { by } => by.epoch,
                    Fenced::Missing => Epoch::ZERO,
                },
            }),
            Err(Error::Unsupported(why)) => Err(Failed::At(Stage::Hopeless, why)),
            Err(error) => Err(Failed::At(Stage::Unread(writer), error.to_string())),
        }
    }

    fn not_claimed(&self, place: &IndexStore, perhaps: bool, error: ClaimError) -> Failed {
        let why = format!("{error}{}", place.advice());
        match error {
            ClaimError::Refused(ClaimRefused::Superseded { by }) if by != self.claim => {
                Failed::Fenced { by: by.epoch }
            }
            // An earlier try of this reign had arrived, and a claim is made only once.
            ClaimError::Refused(ClaimRefused::Superseded { by }) if perhaps => {
                Failed::Fenced { by: by.epoch }
            }
            ClaimError::Refused(ClaimRefused::Superseded { .. }) => Failed::At(
                Stage::Hopeless,
                "another group names the same store in other words: write the same storage_uri"
                    .to_owned(),
            ),
            ClaimError::Unavailable { outcome, .. } => {
                let perhaps = perhaps || outcome == Outcome::Unknown;
                Failed::At(Stage::Unclaimed { perhaps }, why)
            }
            _ => Failed::At(Stage::Unclaimed { perhaps }, why),
        }
    }

    fn report(&self, journal: &dyn Journal, recovered: &Recovered, took: Duration) {
        let (counts, loaded) = (&recovered.counts, &recovered.journal);
        let skipped: u64 = recovered.skipped.iter().map(|(_, count)| count).sum();
        tracing::info!(
            epoch = %self.claim.epoch,
            store = journal.describe(),
            took_ms = took.as_millis() as u64,
            keys = counts.keys,
            bytes = counts.bytes,
            instances = counts.instances,
            sessions = counts.sessions,
            records = loaded.records,
            snapshot_chunks = loaded.snapshot_chunks,
            loaded_bytes = loaded.bytes,
            skipped,
            damaged = loaded.skipped.len(),
            "an index is recovered"
        );
    }
}
