//! HTTP: an accept loop with limits, and routes that speak the protocol's JSON.
//!
//! [`serve`] serves a router, of JSON or of gRPC, over HTTP/1.1 and HTTP/2, with TLS or
//! without, on one port. [`JsonRoutes`] makes `POST /api/…` routes from functions over messages. [`Listeners`]
//! binds the ports before anything is served.

mod body;
mod connection;
mod context;
mod counters;
mod head;
mod limits;
mod listeners;
mod outcome;
mod peers;
mod prefixed;
mod refusal;
mod refusals;
mod routes;
mod serve;
mod terms;
mod timed;

pub use context::{CallContext, HeaderError, Remote};
pub use counters::ConnectionCounters;
pub use limits::{BodyLimits, ConnectionLimits};
pub use listeners::{Listeners, Ports};
pub use outcome::{Answer, Outcome};
pub use refusal::Refusal;
pub use refusals::{Cause, Refusals};
pub use routes::JsonRoutes;
pub(crate) use routes::{path, written};
pub use serve::{Served, serve};
pub use terms::Terms;

#[cfg(test)]
mod tests;
