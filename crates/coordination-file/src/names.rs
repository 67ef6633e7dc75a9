//! File names.

use std::path::Path;

use coordination_core::Error;
use kvcm_fence::{Epoch, Incarnation};
use xxhash_rust::xxh3::xxh3_128;

use crate::{chain::Chain, record::FORMAT};

/// Between the name of a chain and the number of a record.
pub(crate) const RECORD: &str = ".record.";
/// Between the name of a chain and the number that a record would like to have.
pub(crate) const CANDIDATE: &str = ".candidate.";
/// Ends the name of the file that tells that a chain has had a record.
pub(crate) const BEGUN: &str = ".begun";
/// The chain of all values.
pub(crate) const VALUES: &str = "values";
/// Starts the names of synced copies of the values.
pub(crate) const VALUES_COPY: &str = "values.copy.";
/// Starts the name of the mark of the format.
const FORMAT_MARK: &str = "format.";
/// Versions before format 2 locked this file.
const GUARD: &str = "guard";
/// Starts the names of the chains of locks.
const LOCK: &str = "lock-";
/// Starts the names of files that are of no use but to one process.
pub(crate) const TEMPORARY: &str = "tmp.";
/// Starts the names of lifetime files.
pub(crate) const LIFE: &str = "life.";
/// Longer keys are cut and made unique by a hash: with its prefix and suffix a name has to fit
/// into 255 bytes. Records hold their key, so even a collision would be noticed.
const ESCAPED_MAX: usize = 120;

/// The chain of a lock's records.
pub(crate) fn lock_chain(key: &str) -> Chain {
    Chain::new(format!("{LOCK}{}", escape(key)))
}

/// Whether these are the records of some lock.
pub(crate) fn is_lock(chain: &Chain) -> bool {
    chain.name().starts_with(LOCK)
}

/// What the names of all records of a lock start with.
pub(crate) fn lock_record_prefix(key: &str) -> String {
    format!("{}{RECORD}", lock_chain(key).name())
}

/// Where the damaged record `number` of a chain is kept.
pub(crate) fn damaged(chain: &Chain, number: u64) -> String {
    format!("{}.damaged.{number}", chain.name())
}

/// The synced copy of the values in a version.
pub(crate) fn values_copy(version: u64) -> String {
    format!("{VALUES_COPY}{version}")
}

/// The mark of our format.
pub(crate) fn format_mark() -> String {
    format!("{FORMAT_MARK}{FORMAT}")
}

/// That no other format stands in the directory `path`.
///
/// # Errors
/// `Fatal` when one does: the two would not see each other's locks.
pub(crate) fn check_format(all_names: &[String], path: &Path) -> Result<(), Error> {
    let ours = format_mark();
    let other = |name: &&String| {
        (name.starts_with(FORMAT_MARK) && **name != ours) || name.as_str() == GUARD
    };
    let Some(other) = all_names.iter().find(other) else {
        return Ok(());
    };
    let hint = "run the version of kvcm that wrote the directory, or empty it while no kvcm runs";
    let path = path.display();
    let source = format!("{path} holds `{other}`, this version of kvcm knows format {FORMAT}");
    Err(Error::fatal(hint, source))
}

/// What the names of all epoch marks of a lock start with; the epoch follows.
pub(crate) fn epoch_prefix(key: &str) -> String {
    format!("{}.epoch.", lock_chain(key).name())
}

/// The mark of an epoch.
pub(crate) fn epoch_mark(key: &str, epoch: Epoch) -> String {
    format!("{}{epoch}", epoch_prefix(key))
}

/// The lifetime file of a process.
pub(crate) fn life(incarnation: Incarnation) -> String {
    format!("{LIFE}{incarnation}")
}

/// Letters, digits, `_` and `-` stay; every other byte becomes `%` and two digits. So different
/// keys have different names, and no name holds a dot or a slash of its key.
fn escape(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02x}"));
        }
    }
    if escaped.len() > ESCAPED_MAX {
        escaped.truncate(ESCAPED_MAX);
        escaped.push_str(&format!("~{:032x}", xxh3_128(key.as_bytes())));
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_leader_key_stays_readable() {
        let name = lock_chain("_TAIR_KVCM_LEADER_KEY").record(7);
        assert_eq!(name, "lock-_TAIR_KVCM_LEADER_KEY.record.7");
    }

    #[test]
    fn similar_keys_have_different_names_that_fit_and_hold_no_path() {
        let long = "ü".repeat(127);
        let longer = format!("{long}1");
        let keys = [
            "a",
            "A",
            "a/b",
            "a_b",
            "a\\b",
            "a%2fb",
            "a.b",
            "a b",
            "..",
            ".",
            "a~",
            "a.epoch.1",
            &long,
            &longer,
        ];
        let names: HashSet<_> = keys.iter().map(|key| lock_chain(key)).collect();
        assert_eq!(names.len(), keys.len());
        for name in names.iter().map(Chain::name) {
            assert!(name.len() <= 200, "{name}");
            assert!(!name.contains(['/', '.']), "{name}");
        }
    }

    #[test]
    fn an_epoch_mark_belongs_to_one_lock() {
        let epoch = Epoch::new(12).unwrap_or_default();
        let mark = epoch_mark("a", epoch);
        assert_eq!(mark.strip_prefix(&epoch_prefix("a")), Some("12"));
        assert_eq!(mark.strip_prefix(&epoch_prefix("a.epoch")), None);
        assert!(Chain::all(&[mark]).is_empty());
    }

    #[test]
    fn a_directory_of_another_format_is_refused_with_what_it_holds() {
        let check = |name: String| check_format(&[name], Path::new("/d"));
        assert!(check(format_mark()).is_ok() && check("life.1".to_owned()).is_ok());
        for other in ["guard", "format.1", "format.3"] {
            let error = check(other.to_owned()).unwrap_err();
            assert!(!error.is_retryable());
            assert!(error.to_string().contains(other), "{error}");
        }
    }
}
