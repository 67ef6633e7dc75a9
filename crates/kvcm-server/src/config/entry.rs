//! A text that a source gives to a key.

/// One `key=value` with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The key as written.
    pub(super) key: String,
    /// The value, trimmed.
    pub(super) value: String,
    /// Where it stands, in words.
    pub(super) origin: String,
}

/// A written key as it may be printed. Someone who forgets a key or an equals sign has us read a
/// URI with its password as a key, so the text ends where it stops looking like one.
pub(super) fn printable(key: &str) -> String {
    let is_odd = |c: char| !(c.is_alphanumeric() || "._-".contains(c));
    match key.find(is_odd) {
        Some(end) => format!("{}…", &key[..end]),
        None => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_in_the_place_of_a_key_is_cut() {
        assert_eq!(printable("redis://:secret@h/?db"), "redis…");
        assert_eq!(printable("kvcm.service.rpc_port"), "kvcm.service.rpc_port");
    }
}
