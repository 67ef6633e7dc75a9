//! Configuration: one table of keys, four sources, every mistake reported at once.
//!
//! [`KEYS`] is the only list of keys; parsing, warnings and the printed configuration come from
//! it. Sources, the later one wins: the table's defaults, the file of `-c`, the settings of `-e`,
//! the process environment. figment layers the texts and keeps where each came from; the table
//! parses them, because figment guesses types (a password of digits becomes a number) and stops
//! at the first error.

mod check;
mod entry;
mod environment;
mod file;
mod key;
mod keys;
mod layer;
mod load;
mod mistake;
mod nearest;
mod options;
mod parse;
mod reference;
mod setting;
mod settings;
mod sources;
mod token;

pub use environment::{VARIABLES, Variable};
pub use key::{Key, Kind};
pub use keys::KEYS;
pub use load::{Effective, Loaded};
pub use mistake::{Mistake, Mistakes};
pub use reference::reference;
pub use settings::{
    AccessSettings, CacheSettings, Config, ElectorSettings, LogFormat, LogLevel, LogSettings,
    MetricsSettings, RequestLimits, ServiceSettings, TracingSettings,
};
pub use sources::Sources;
pub use token::Token;

#[cfg(test)]
mod tests;
