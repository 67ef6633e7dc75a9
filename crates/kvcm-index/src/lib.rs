//! The block index: a synchronous data structure without input or output.
//!
//! A [`BlockIndex`] maps the block keys of one instance to [`Location`]s. Keys that were written
//! together lie together in numbered slots, and a lookup tries the next slot before it asks the
//! hash map: comparing a run of neighbours costs about a nanosecond a key, a probe of the map 20
//! to 50. A location is a handful of numbers from which its owner derives a URI; the index never
//! looks inside them.
//!
//! Every call takes a batch and takes the lock once. Readers share it.

mod ages;
mod error;
mod evict;
mod index;
mod location;
mod lookup;
mod many;
mod mutate;
mod reserve;
mod sink;
mod slots;
mod table;

pub use ages::{Ages, Cutoff};
pub use error::{Full, ReserveError};
pub use index::BlockIndex;
pub use location::{Grant, Location, State};
pub use reserve::ReservePolicy;
pub use sink::{Counter, LocationSink};
