//! KV-cache traces: which blocks each request of an inference cluster touches.
//!
//! A trace is a file of JSON lines ([`Reader`]) or made from a seed ([`Generator`]); both give
//! [`Request`]s in order. [`Expansion`] turns their block ids into the keys of smaller blocks.

mod error;
mod expand;
mod generate;
mod lengths;
mod read;
mod request;

pub use error::ReadError;
pub use expand::{Expansion, InvalidExpansion, mix};
pub use generate::{Generator, Shape};
pub use read::Reader;
pub use request::{MAX_HASH_ID, Request, TOKENS_PER_BLOCK};
