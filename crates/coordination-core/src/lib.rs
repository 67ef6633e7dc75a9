//! The coordination backend contract: fenced locks, versioned values, watches.
//!
//! A backend is what several processes share to agree on one leader. [`Backend`] tells what each
//! operation promises; `coordination-conformance` checks that a backend keeps it. Nothing here
//! knows what the leader does.

mod backend;
mod error;
mod hint;
mod lock;
mod lock_state;
mod node_id;
mod owner;
mod stored_value;
pub mod validate;
mod value;

pub use backend::Backend;
pub use error::{Error, Outcome};
pub use hint::{Hint, HintStream};
pub use lock::{
    Acquired, Holder, LockOutcome, Previous, ReignEnd, RenewOutcome, Reservation, Reserved,
    TryLock, UnlockOutcome,
};
pub use lock_state::{LockState, Phase, Reign};
pub use node_id::{InvalidNodeId, NodeId};
pub use owner::Owner;
pub use stored_value::StoredValue;
pub use value::{DeleteOutcome, Expect, SetOutcome, Value};

/// The lock whose holder leads, as existing deployments name it.
pub const LEADER_KEY: &str = "_TAIR_KVCM_LEADER_KEY";

/// The prefix of the node records; the node id follows.
pub const NODE_KEY_PREFIX: &str = "_TAIR_KVCM_NODE_INFO_";
