//! Checks of arguments that every backend makes before it does anything.
//!
//! A bad argument is a fault of the caller's code or configuration that no retry mends, so it is
//! [`Error::Fatal`] and names the argument.

use std::time::Duration;

use thiserror::Error as ThisError;

use crate::{Error, TryLock};

/// The longest key, in bytes.
const KEY_MAX: usize = 255;

/// What is wrong with an argument.
#[derive(Debug, ThisError)]
#[error("{name} is {is}")]
struct BadArgument {
    name: &'static str,
    is: String,
}

/// A key of a lock or value: 1 to 255 bytes without control characters.
///
/// # Errors
/// [`Error::Fatal`] naming the key.
pub fn key(key: &str) -> Result<(), Error> {
    if key.is_empty() {
        return Err(bad("key", "empty", "give a key of 1 to 255 bytes"));
    }
    prefix_named("key", key)
}

/// A prefix of keys: 0 to 255 bytes without control characters.
///
/// # Errors
/// [`Error::Fatal`] naming the prefix.
pub fn prefix(prefix: &str) -> Result<(), Error> {
    prefix_named("prefix", prefix)
}

/// A time to live: at least 1 ms, the unit that every backend can keep.
///
/// # Errors
/// [`Error::Fatal`] naming the ttl.
pub fn ttl(ttl: Duration) -> Result<(), Error> {
    if ttl < Duration::from_millis(1) {
        let is = format!("{ttl:?}");
        return Err(bad("ttl", &is, "give a ttl of at least 1 ms"));
    }
    Ok(())
}

/// All arguments of [`Backend::try_lock`](crate::Backend::try_lock).
///
/// # Errors
/// [`Error::Fatal`] naming the argument. A floor that leaves no higher epoch is one.
pub fn try_lock(request: &TryLock<'_>) -> Result<(), Error> {
    key(request.key)?;
    ttl(request.ttl)?;
    if request.floor.next().is_none() {
        let is = request.floor.to_string();
        let hint = "no epoch is left above the floor; find out who claimed the highest epoch";
        return Err(bad("floor", &is, hint));
    }
    Ok(())
}

fn prefix_named(name: &'static str, text: &str) -> Result<(), Error> {
    if text.len() > KEY_MAX {
        let is = format!("{} bytes long", text.len());
        return Err(bad(name, &is, "give at most 255 bytes"));
    }
    if text.contains(char::is_control) {
        let is = format!("{text:?}");
        return Err(bad(name, &is, "leave out control characters"));
    }
    Ok(())
}

fn bad(name: &'static str, is: &str, hint: &str) -> Error {
    let is = is.to_owned();
    Error::fatal(hint, BadArgument { name, is })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_argument_is_fatal_and_named() {
        for (error, name) in [
            (key(""), "key"),
            (key("a\nb"), "key"),
            (key(&"x".repeat(256)), "key"),
            (prefix("a\0"), "prefix"),
            (ttl(Duration::from_micros(999)), "ttl"),
        ] {
            let error = error.unwrap_err();
            assert!(!error.is_retryable());
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn the_limits_themselves_are_fine() {
        key(&"x".repeat(255)).unwrap();
        key("_TAIR_KVCM_LEADER_KEY").unwrap();
        prefix("").unwrap();
        ttl(Duration::from_millis(1)).unwrap();
    }
}
