//! Client of a kvcm cluster: it finds the leader, follows it through failovers, and retries what
//! may be retried, so that an engine need not know that there are leaders.
//!
//! ```no_run
//! use kvcm_client::{Client, ErrorKind, InstanceSpec, Written};
//!
//! # async fn example() -> Result<(), kvcm_client::Error> {
//! // Any node of the cluster will do; give all that are known.
//! let client = Client::builder()
//!     .endpoints(["10.0.0.1:6381", "10.0.0.2:6381", "10.0.0.3:6381"])
//!     .connect()
//!     .await?;
//! let spec = InstanceSpec::new("default", "llama-70b", 16)
//!     .model("llama-70b", "bf16")
//!     .piece("tp0", 1 << 20);
//! let instance = client.register(spec).await?;
//!
//! // Which of the prompt's blocks exist, and where?
//! let keys = [0x11, 0x12, 0x13, 0x14];
//! let stored = instance.locate(&keys).await?;
//! for location in stored.iter() {
//!     println!("read {:?}", location.uri("tp0"));
//! }
//!
//! // Reserve places for all that do not, write there, confirm.
//! let session = instance.begin_write(&keys).await?;
//! for (index, location) in session.new_keys().zip(session.locations().iter()) {
//!     println!("write block {:x} to {:?}", keys[index], location.uri("tp0"));
//! }
//! match session.finish(Written::All).await {
//!     Ok(reply) => println!("confirmed under epoch {:?}", reply.meta().epoch),
//!     // The leader that kept the session is gone, and the session with it: write again.
//!     Err(error) if error.kind() == ErrorKind::SessionGone => println!("{error}"),
//!     Err(error) => return Err(error),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What a call does
//!
//! A call goes to the leader. When that node refuses because it does not lead, when its
//! connection is dead, or when it is silent, the client finds out who leads now and repeats the
//! call there, until the call's deadline ([`ClientBuilder::deadline`], [`Client::with_deadline`]).
//! Other failures that may pass are repeated a few times; definite answers are returned at once.
//! Calls that change something carry a request id, the same over their repeats, by which the
//! server executes them once.
//!
//! What all calls of a client share keeps a storm away from the cluster: one search for the leader
//! at a time, at a growing distance while there is none; a budget for repeats at the same node; a
//! breaker per node that does not answer. A node pushes changes of leader, so that nobody need
//! poll for them. All of it has numbers: [`Stats`].
//!
//! Leaders are ordered by their epochs. A hint or a reply of an epoch older than one already seen
//! is never believed, whoever sends it.
//!
//! An [`Error`] tells its [`ErrorKind`], whether the operation may have happened
//! ([`Outcome`]), and every step that was taken. A success tells the same in short
//! ([`CallMeta`]).

/// The tutorial, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/CLIENT.md")]
struct Tutorial;

mod address;
mod admin;
mod answers;
mod asking;
mod attempt;
mod block_states;
mod blocks;
mod breaker;
mod budget;
mod builder;
mod call;
mod channels;
mod client;
mod cluster_info;
mod core;
mod credentials;
mod error;
#[cfg(test)]
mod herd;
mod instance;
mod leader;
mod locations;
mod members;
mod node;
mod operator;
mod plan;
mod policy;
mod pushes;
mod query;
mod reply;
mod round;
mod rpc;
mod search;
mod seeds;
mod settings;
mod spec;
mod stats;
mod tls;
mod transport;
mod wire;
mod write;
mod write_blocks;

pub use kvcm_clock::{BackoffPolicy, Random};
/// The protocol's messages, for what has no plainer type: stores and instance groups.
pub use kvcm_proto::admin as proto;

pub use admin::{Admin, Demotion, ElectionConfig, Health, LogLevel, ServerMetric};
pub use attempt::Attempt;
pub use block_states::BlockStates;
pub use blocks::{BlockKey, Blocks};
pub use builder::ClientBuilder;
pub use client::{Client, ClusterState, KnownLeader};
pub use cluster_info::ClusterInfo;
pub use credentials::{Credentials, InvalidCredentials};
pub use error::{Error, ErrorKind, Outcome};
pub use instance::Instance;
pub use locations::{Location, Locations, Spec, StorageKind};
pub use members::{LeaderChange, Member, Members};
pub use node::Node;
pub use operator::{LeaderRequest, Operator, Role};
pub use policy::{Decision, DefaultPolicy, Failure, Reason, RetryPolicy, RetrySession, Situation};
pub use query::Query;
pub use reply::{CallMeta, Reply};
pub use spec::{InstanceSpec, Model, Piece, PieceGroup};
pub use stats::{Metric, MetricKind, Stats};
pub use tls::{Tls, TlsError};
pub use write::{WriteOptions, WriteSession, Written};
pub use write_blocks::{NewBlocks, WriteReport};
