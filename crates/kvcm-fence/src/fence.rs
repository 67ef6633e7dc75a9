//! The fence rule.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Claim;

/// What a store remembers: the last claim that it accepted, or none yet.
///
/// Stores that keep their fence outside this process (Redis, files) implement the same two rules
/// in their own atomic step; this type is the reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fence(Option<Claim>);

/// A store refused a claim.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClaimRefused {
    /// The store has accepted this epoch or a higher one: the caller campaigns again with the
    /// epoch of `by` as its floor.
    #[error("the store is already claimed by {by}")]
    Superseded {
        /// The claim that stands.
        by: Claim,
    },
    /// The store belongs to another cluster. Never repaired: point the node at its own store.
    #[error("the store belongs to cluster {}, not to {}", by.cluster, claim.cluster)]
    OtherCluster {
        /// The claim that stands.
        by: Box<Claim>,
        /// The claim that was refused.
        claim: Box<Claim>,
    },
}

/// A store refused a write: the caller no longer leads and demotes itself at once.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fenced {
    /// Another claim stands.
    #[error("the store is claimed by {by}")]
    By {
        /// The claim that stands.
        by: Claim,
    },
    /// No claim stands: the fence was lost. A refusal, not a permission.
    #[error("the store has lost its fence")]
    Missing,
}

impl Fence {
    /// A fence as it was found in a store.
    pub const fn restored(claim: Option<Claim>) -> Self {
        Self(claim)
    }

    /// The claim that stands.
    pub const fn holder(&self) -> Option<&Claim> {
        self.0.as_ref()
    }

    /// Accepts `claim` when its epoch is strictly greater than the one that stands.
    ///
    /// # Errors
    /// [`ClaimRefused`], with the fence unchanged.
    pub fn claim(&mut self, claim: Claim) -> Result<(), ClaimRefused> {
        match &self.0 {
            Some(by) if by.cluster != claim.cluster => Err(ClaimRefused::OtherCluster {
                by: Box::new(by.clone()),
                claim: Box::new(claim),
            }),
            Some(by) if by.epoch >= claim.epoch => Err(ClaimRefused::Superseded { by: by.clone() }),
            _ => {
                self.0 = Some(claim);
                Ok(())
            }
        }
    }

    /// Lets a write of `claim` pass when exactly that claim stands.
    ///
    /// # Errors
    /// [`Fenced`]: the write must not happen.
    pub fn check(&self, claim: &Claim) -> Result<(), Fenced> {
        match &self.0 {
            None => Err(Fenced::Missing),
            Some(by) if by == claim => Ok(()),
            Some(by) => Err(Fenced::By { by: by.clone() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Epoch, Incarnation};

    fn claim(cluster: &str, epoch: u64, incarnation: u128) -> Claim {
        Claim {
            cluster: cluster.parse().unwrap(),
            epoch: Epoch::new(epoch).unwrap(),
            incarnation: Incarnation::from_bits(incarnation),
        }
    }

    #[test]
    fn a_missing_fence_refuses_writes_and_admits_a_claim() {
        let mut fence = Fence::default();
        assert_eq!(fence.check(&claim("c", 1, 1)), Err(Fenced::Missing));
        fence.claim(claim("c", 1, 1)).unwrap();
        fence.check(&claim("c", 1, 1)).unwrap();
    }

    #[test]
    fn an_equal_epoch_is_refused_even_to_its_owner() {
        let mut fence = Fence::restored(Some(claim("c", 5, 1)));
        let refused = fence.claim(claim("c", 5, 1)).unwrap_err();
        assert_eq!(
            refused,
            ClaimRefused::Superseded {
                by: claim("c", 5, 1)
            }
        );
    }

    #[test]
    fn another_cluster_is_refused_whatever_its_epoch() {
        let mut fence = Fence::restored(Some(claim("c", 5, 1)));
        let refused = fence.claim(claim("d", 9, 1)).unwrap_err();
        assert!(
            matches!(refused, ClaimRefused::OtherCluster { .. }),
            "{refused}"
        );
        assert_eq!(
            refused.to_string(),
            "the store belongs to cluster c, not to d"
        );
    }

    proptest! {
        /// Whatever the order of claims and writes, a write passes only under the claim that was
        /// accepted last, and accepted epochs strictly rise.
        #[test]
        fn accepted_epochs_rise_and_only_the_last_writes(
            steps in prop::collection::vec((any::<bool>(), 1u64..6, 0u128..3), 0..40)
        ) {
            let mut fence = Fence::default();
            let mut last: Option<Claim> = None;
            for (is_claim, epoch, incarnation) in steps {
                let claim = claim("c", epoch, incarnation);
                if is_claim {
                    let rises = last.as_ref().is_none_or(|l| claim.epoch > l.epoch);
                    prop_assert_eq!(fence.claim(claim.clone()).is_ok(), rises);
                    if rises {
                        last = Some(claim);
                    }
                } else {
                    prop_assert_eq!(fence.check(&claim).is_ok(), last.as_ref() == Some(&claim));
                }
            }
        }
    }
}
