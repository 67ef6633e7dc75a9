//! Epochs, claims and the fence rule that shuts out superseded leaders.
//!
//! A new leader *claims* every store it writes to; the store remembers the claim as its *fence*
//! and from then on accepts writes of exactly that claim. A leader that was paused past its lease
//! finds its writes refused, whatever it believes about itself.

mod claim;
mod cluster;
mod epoch;
mod fence;
mod incarnation;

pub use claim::Claim;
pub use cluster::{ClusterId, InvalidClusterId};
pub use epoch::{Epoch, EpochOutOfRange};
pub use fence::{ClaimRefused, Fence, Fenced};
pub use incarnation::{Incarnation, InvalidIncarnation};
