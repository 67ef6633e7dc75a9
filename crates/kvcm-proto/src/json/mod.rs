//! Messages to and from JSON, as the HTTP side of the protocol speaks it.
//!
//! Out: field names as in `proto/`, in the order of their numbers, no white space; scalars and lists
//! also when they are at their default; messages, oneof members, `optional` fields and this project's
//! extensions only when set; 64-bit integers as strings; enums by name, unknown numbers as numbers.
//!
//! In: both `snake_case` and `camelCase` names; integers as numbers or strings; enums as names or
//! numbers, unknown numbers kept; `null` and what is missing are the default; unknown fields and
//! unknown enum names are ignored.
//!
//! The mapping walks the descriptors, so it knows every message of the protocol. It is made to be
//! right first: the calls that must be fast have readers and writers of their own, and this as
//! their oracle.

mod error;
mod parse;
mod pool;
mod print;

pub use error::Error;
pub use parse::from_json;
pub use print::to_json;
