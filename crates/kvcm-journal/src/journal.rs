//! The store, before anyone may write to it.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use kvcm_fence::Claim;

use crate::{ClaimError, Source, Writer};

/// One record store. Registry and cache have one each; their sequence numbers are unrelated.
#[async_trait]
pub trait Journal: fmt::Debug + Send + Sync + 'static {
    /// What it is and where, without secrets: for logs and status.
    fn describe(&self) -> String;

    /// Makes `claim` the store's fence when its epoch is strictly greater than the one that
    /// stands, and gives the writer of that claim.
    ///
    /// To ensure correctness:
    ///
    /// - The check and the change of the fence are one atomic step of the store.
    /// - From then on no batch of an older claim is acknowledged, and none that was not in the
    ///   store before the claim ever shows up in a load.
    /// - It returns within `timeout`, whatever the store does.
    ///
    /// # Errors
    /// [`ClaimError`].
    async fn claim(&self, claim: Claim, timeout: Duration) -> Result<Box<dyn Writer>, ClaimError>;

    /// The claim that stands; none where none was ever made. Changes nothing.
    ///
    /// # Errors
    /// [`ClaimError`], where a claim would fail as well.
    async fn standing(&self, timeout: Duration) -> Result<Option<Claim>, ClaimError>;

    /// Whether a claim has a chance now; changes nothing.
    ///
    /// # Errors
    /// Why not.
    async fn probe(&self, timeout: Duration) -> Result<(), Source>;
}
