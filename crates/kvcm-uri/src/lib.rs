//! URIs of coordination backends and stores.
//!
//! `scheme://[userinfo@]host[:port][,host[:port]…][/path][?name=value&…]`, with percent-decoding.
//! Every mistake of one URI is reported at once, by name; a password is never printed.

mod error;
mod params;
mod uri;

pub use error::{Mistake, UriError};
pub use params::Params;
pub use uri::Uri;
