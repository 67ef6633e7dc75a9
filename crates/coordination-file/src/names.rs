//! File names.

use kvcm_fence::{Epoch, Incarnation};
use xxhash_rust::xxh3::xxh3_128;

/// The file that mutual exclusion is about.
pub(crate) const GUARD: &str = "guard";
/// Starts the names of files that are being written.
pub(crate) const TEMPORARY: &str = "tmp.";
/// Starts the names of lifetime files.
pub(crate) const LIFE: &str = "life.";
/// Starts the names of the marks of value versions.
pub(crate) const VERSION: &str = "version.";

/// Longer keys are cut and made unique by a hash: with its prefix and suffix a name has to fit
/// into 255 bytes. Records hold their key, so even a collision would be noticed.
const ESCAPED_MAX: usize = 120;

/// The record of a lock.
pub(crate) fn lock_record(key: &str) -> String {
    format!("lock-{}.record", escape(key))
}

/// The record of a value.
pub(crate) fn value_record(key: &str) -> String {
    format!("value-{}.record", escape(key))
}

/// What the names of all epoch marks of a lock start with; the epoch follows.
pub(crate) fn epoch_prefix(key: &str) -> String {
    format!("lock-{}.epoch.", escape(key))
}

/// The mark of an epoch.
pub(crate) fn epoch_mark(key: &str, epoch: Epoch) -> String {
    format!("{}{epoch}", epoch_prefix(key))
}

/// The mark of a version.
pub(crate) fn version_mark(version: u64) -> String {
    format!("{VERSION}{version}")
}

/// The lifetime file of a process.
pub(crate) fn life(incarnation: Incarnation) -> String {
    format!("{LIFE}{incarnation}")
}

/// Whether this is the record of some lock.
pub(crate) fn is_lock_record(name: &str) -> bool {
    name.starts_with("lock-") && name.ends_with(".record")
}

/// Whether this is the record of some value.
pub(crate) fn is_value_record(name: &str) -> bool {
    name.starts_with("value-") && name.ends_with(".record")
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
        let name = lock_record("_TAIR_KVCM_LEADER_KEY");
        assert_eq!(name, "lock-_TAIR_KVCM_LEADER_KEY.record");
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
        let names: HashSet<_> = keys.iter().map(|key| value_record(key)).collect();
        assert_eq!(names.len(), keys.len());
        for name in &names {
            assert!(name.len() <= 200, "{name}");
            assert!(!name.contains('/'), "{name}");
            assert_eq!(name.matches('.').count(), 1, "{name}");
        }
    }

    #[test]
    fn an_epoch_mark_belongs_to_one_lock() {
        let epoch = Epoch::new(12).unwrap_or_default();
        let mark = epoch_mark("a", epoch);
        assert_eq!(mark.strip_prefix(&epoch_prefix("a")), Some("12"));
        assert_eq!(mark.strip_prefix(&epoch_prefix("a.epoch")), None);
        assert!(!is_lock_record(&mark));
    }
}
