//! Leader election: a pure core, the futures that drive it, and the gate.
//!
//! [`Core`] decides: no clock, socket or task is inside it, so every rule is a unit test.
//! [`Driver`] performs what the core decides, against a coordination backend and the callbacks of
//! [`Leadership`]. [`Gate`] is the one place that lets leader-only work in and out. [`threads`]
//! places all of it in production. What leading means is the caller's business.

#[cfg(all(feature = "unsafe-no-fencing", not(debug_assertions)))]
compile_error!("unsafe-no-fencing is for tests of the tests and is never released");

mod callbacks;
mod core;
mod driver;
mod gate;
mod handle;
mod info;
mod measures;
mod peer;
mod record;
mod settings;
pub mod threads;
mod transfer;
mod view;

pub use callbacks::{Leadership, Progress, PromoteError, Promotion};
pub use core::{CallFailed, Command, Core, DemoteOutcome, DrainEnd, Input, LossReason};
pub use driver::{Driver, LeaseCheck, Parts, Spawn, start};
pub use gate::{Admission, Closed, Gate, Lost};
pub use handle::Elector;
pub use info::{LockInfo, Phase};
pub use measures::{BOUNDS, Distribution, Measures};
pub use peer::{Peer, Unfit};
pub use record::{Change, PARTS, Record, Took, Turn};
pub use settings::{Settings, SettingsError};
pub use transfer::{AbortReason, PauseRefused, TransferOutcome, TransferRefused};
pub use view::{LeaderView, Role, Standby, Totals, View};
