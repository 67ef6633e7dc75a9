//! Data storage backends: where the bytes of cached blocks go, and what those places are called.
//!
//! The index keeps numbers, never URIs: [`UriTemplate`] derives the URI of a key from its
//! [`Grant`] and [`Part`] when a reply needs it. **No place is ever granted twice**: every path
//! carries the epoch and the counter of its grant, so that bytes which a demoted leader still
//! writes or deletes can never be those of a later block. Clients treat URIs as opaque.

mod data_storage;
mod delete;
#[cfg(test)]
mod delete_tests;
mod disk;
#[cfg(test)]
mod disk_faults;
mod grant;
mod hex;
mod kind;
mod names;
mod part;
mod place;
mod pool;
mod segment;
mod template;

pub use data_storage::{DataStorage, OpenError, Settings, Unavailable};
pub use delete::Deletion;
pub use grant::Grant;
pub use kind::Kind;
pub use names::{Form, GrantNames, Middle};
pub use part::Part;
pub use place::Place;
pub use template::{Uri, UriTemplate};
