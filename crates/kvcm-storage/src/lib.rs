//! Data storage backends: where the bytes of cached blocks go, and what those places are called.
//!
//! The index keeps numbers, never URIs: [`UriTemplate`] derives the URI of a key from its
//! [`Grant`] and [`Part`] when a reply needs it. **No place is ever granted twice**: every path
//! carries the epoch and the counter of its grant, so that bytes which a demoted leader still
//! writes or deletes can never be those of a later block. Clients treat URIs as opaque.
//!
//! Files are touched by threads of their root, within deadlines: [`DataStorage::create`],
//! [`DataStorage::delete`] and [`probe_all`] return in time whatever the file system does.

mod create;
#[cfg(test)]
mod create_tests;
mod data_storage;
mod delete;
#[cfg(test)]
mod delete_tests;
mod disk;
#[cfg(test)]
mod disk_faults;
mod grant;
mod health;
mod hex;
mod kind;
mod made;
mod names;
mod part;
mod place;
mod pool;
mod probe;
#[cfg(test)]
mod probe_tests;
mod root;
mod segment;
mod settings;
mod space;
mod template;
#[cfg(test)]
mod test_support;
mod way;

pub use data_storage::{CreateError, DataStorage, Status, Unavailable};
pub use delete::{Deletion, DeletionCounts};
pub use grant::Grant;
pub use health::{Level, Problem, Reason};
pub use hex::{key_digits, key_length};
pub use kind::Kind;
pub use made::MadeDirectories;
pub use names::{Form, GrantNames, Middle};
pub use part::Part;
pub use place::Place;
pub use probe::probe_all;
pub use settings::{OpenError, Settings};
pub use space::Space;
pub use template::{Uri, UriTemplate};
