//! Names of keys at the server.

use kvcm_redis::Config;

/// How the keys of one cluster are named.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    lock_prefix: String,
    value_prefix: String,
}

/// A key with the sibling that belongs to it. Both are in the same hash slot: the sibling's hash
/// tag, the part in braces, is the whole key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) key: String,
    pub(crate) sibling: String,
}

impl Keys {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            lock_prefix: config.key_prefix("lock"),
            value_prefix: config.key_prefix("kv"),
        }
    }

    /// The lock and its record.
    pub(crate) fn lock(&self, name: &str) -> Pair {
        pair(&self.lock_prefix, name, "state")
    }

    /// The channel on which changes of the lock are told.
    pub(crate) fn channel(&self, name: &str) -> String {
        format!("{}{}:events", self.lock_prefix, encode(name))
    }

    /// The value and its version.
    pub(crate) fn value(&self, name: &str) -> Pair {
        pair(&self.value_prefix, name, "version")
    }

    /// The pattern that all values match whose names start with `prefix` (siblings may too).
    pub(crate) fn value_pattern(&self, prefix: &str) -> String {
        let start = format!("{}{}", self.value_prefix, encode(prefix));
        let mut pattern = String::with_capacity(start.len() + 1);
        for c in start.chars() {
            if matches!(c, '*' | '?' | '[' | ']' | '^' | '\\') {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern.push('*');
        pattern
    }

    /// The name of a value by its key, or none for a sibling.
    pub(crate) fn value_name(&self, key: &str) -> Option<String> {
        let name = key.strip_prefix(&self.value_prefix)?;
        (!name.starts_with('{')).then(|| decode(name))
    }
}

fn pair(prefix: &str, name: &str, sibling: &str) -> Pair {
    let key = format!("{prefix}{}", encode(name));
    let sibling = format!("{prefix}{{{key}}}:{sibling}");
    Pair { key, sibling }
}

/// Braces would move a key to another slot than its sibling, or make it look like one.
fn encode(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '{' => encoded.push_str("%7B"),
            '}' => encoded.push_str("%7D"),
            '%' => encoded.push_str("%25"),
            c => encoded.push(c),
        }
    }
    encoded
}

fn decode(name: &str) -> String {
    // Percent last: what it gives must not be read again.
    name.replace("%7B", "{")
        .replace("%7D", "}")
        .replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use kvcm_uri::Uri;

    use super::*;

    fn keys(query: &str) -> Keys {
        let uri = Uri::parse(&format!("redis://h/{query}")).unwrap();
        Keys::new(&Config::from_uri(&uri).unwrap().0)
    }

    #[test]
    fn keys_are_named_as_existing_deployments_name_them() {
        let named = keys("?cluster_name=C");
        let lock = named.lock(coordination_core::LEADER_KEY);
        assert_eq!(lock.key, "kvcm_C_lock:_TAIR_KVCM_LEADER_KEY");
        assert_eq!(
            lock.sibling,
            "kvcm_C_lock:{kvcm_C_lock:_TAIR_KVCM_LEADER_KEY}:state"
        );
        assert_eq!(named.value("v").key, "kvcm_C_kv:v");
        assert_eq!(named.channel("k"), "kvcm_C_lock:k:events");
        let unnamed = keys("");
        assert_eq!(unnamed.lock("k").key, "kvcm_lock:k");
        assert_eq!(unnamed.value("k").key, "kvcm_kv:k");
    }

    #[test]
    fn names_come_back_from_keys_and_siblings_do_not() {
        let keys = keys("");
        for name in ["a", "{a}", "%7B", "%257B", "%", "a%25}", "ü:*"] {
            let pair = keys.value(name);
            assert_eq!(keys.value_name(&pair.key).as_deref(), Some(name));
            assert_eq!(keys.value_name(&pair.sibling), None);
            assert!(!pair.key.contains(['{', '}']), "{pair:?}");
        }
        assert_eq!(keys.value_name("other"), None);
    }

    #[test]
    fn signs_of_patterns_are_escaped() {
        assert_eq!(
            keys("").value_pattern("a*[b]?\\"),
            "kvcm_kv:a\\*\\[b\\]\\?\\\\*"
        );
    }
}
