//! The block index: a synchronous data structure without input or output.
//!
//! A [`BlockIndex`] maps the block keys of one instance to [`Location`]s. Keys that were written
//! together lie together in numbered slots, and a lookup tries the next slot before it asks the
//! hash map: comparing a run of neighbours costs well below a nanosecond a key, a probe of the map
//! 20 to 50. Neighbours of one grant share one record of what their locations have in common, so a
//! key costs its eight bytes, the numbers of its run and of its slot, and a time of use. A location
//! is a handful of numbers from which its owner derives a URI.
//!
//! Every call takes a batch and takes the lock once. Readers share it.

mod ages;
mod bounds;
mod bulk;
mod error;
mod evict;
mod grow;
mod index;
mod location;
mod locations;
mod lookup;
mod many;
mod map;
mod mutate;
mod reserve;
mod runs;
mod sink;
mod slots;
mod table;
mod uses;

pub use ages::Cutoff;
pub use error::{Full, ReserveError};
pub use index::BlockIndex;
pub use location::{Grant, Location, State};
pub use mutate::Restored;
pub use reserve::ReservePolicy;
pub use sink::{Counter, LocationSink};
