//! What callers ask: plain types that borrow from the caller's message.

use kvcm_journal::RequestKey;

use crate::{Error, Mask, Result};

/// How a lookup matches keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueryType {
    /// One answer per key; the mask is not read.
    BatchGet,
    /// The unmasked keys up to the first that cannot be read.
    PrefixMatch,
    /// The right-most window of neighbouring keys that can all be read; the mask is not read.
    ReverseRollWindow,
}

impl QueryType {
    /// From the protocol's number.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a number that the protocol does not have or that says
    /// nothing, [`Error::Unsupported`] for a type of other calls.
    pub fn from_number(number: i32) -> Result<Self> {
        match number {
            1 => Ok(Self::BatchGet),
            2 => Ok(Self::PrefixMatch),
            3 => Ok(Self::ReverseRollWindow),
            4 => Err(Error::Unsupported(
                "query_type QT_PREFIX_MATCH_WITH_MAMBA is not served by this call".into(),
            )),
            other => Err(Error::invalid(format!(
                "missing or invalid fields: {{query_type}} (query_type must be QT_BATCH_GET, \
                 QT_PREFIX_MATCH or QT_REVERSE_ROLL_SW_MATCH, is {other})"
            ))),
        }
    }
}

/// The blocks of a request: their keys, or the tokens that they are made of. Keys win.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks<'a> {
    /// Block keys.
    pub keys: &'a [i64],
    /// Token ids, hashed in blocks of the instance's size when there are no keys.
    pub tokens: &'a [i64],
}

impl<'a> Blocks<'a> {
    /// Blocks by their keys.
    pub const fn keys(keys: &'a [i64]) -> Self {
        Self { keys, tokens: &[] }
    }

    /// Blocks by their tokens.
    pub const fn tokens(tokens: &'a [i64]) -> Self {
        Self { keys: &[], tokens }
    }
}

/// GetCacheLocation.
#[derive(Clone, Copy, Debug)]
pub struct LocateRequest<'a> {
    /// The instance.
    pub instance_id: &'a str,
    /// How to match.
    pub query: QueryType,
    /// The blocks.
    pub blocks: Blocks<'a>,
    /// Keys to leave out (prefix match only).
    pub mask: Mask<'a>,
    /// Length of the window (window match only): 1 to the number of keys.
    pub window: i32,
    /// Specs to answer; empty: all. Unknown names match nothing.
    pub spec_names: &'a [String],
}

/// GetCacheLocationLen: a lookup that answers only how many keys were found.
#[derive(Clone, Copy, Debug)]
pub struct LocateLenRequest<'a> {
    /// The instance.
    pub instance_id: &'a str,
    /// How to match.
    pub query: QueryType,
    /// The blocks.
    pub blocks: Blocks<'a>,
    /// Length of the window (window match only): 1 to the number of keys.
    pub window: i32,
}

/// GetCacheMeta.
#[derive(Clone, Copy, Debug)]
pub struct MetaRequest<'a> {
    /// The instance.
    pub instance_id: &'a str,
    /// The blocks; none is not an error here.
    pub blocks: Blocks<'a>,
    /// Keys to leave out: they are answered by placeholders, so that positions stay.
    pub mask: Mask<'a>,
}

/// StartWriteCache.
#[derive(Clone, Copy, Debug)]
pub struct StartRequest<'a> {
    /// The instance.
    pub instance_id: &'a str,
    /// The blocks. One that comes twice gets one location at most.
    pub blocks: Blocks<'a>,
    /// For each key the spec group that will be written, an empty name = all specs; or empty = all
    /// specs for all keys.
    pub spec_group_names: &'a [String],
    /// Life of the session in seconds: 0 or less takes the default, more than the most takes the
    /// most (see [`Config`](crate::Config)).
    pub write_timeout_seconds: i32,
    /// A key that has so many usable replicas gets no new location; 0 and less count as 1.
    pub min_replica_count: i32,
    /// Whose effect it is, for a repeat ([`answered`](crate::CacheManager::answered)).
    pub request: Option<RequestKey>,
}

/// FinishWriteCache.
#[derive(Clone, Copy, Debug)]
pub struct FinishRequest<'a> {
    /// The instance that started the session.
    pub instance_id: &'a str,
    /// The session.
    pub session_id: &'a str,
    /// Which of the session's new keys were written; required. A mask that is present but empty is
    /// `Some(Mask::None)`: right for a session without new keys only.
    pub success_blocks: Option<Mask<'a>>,
    /// Whose effect it is, for a repeat ([`answered`](crate::CacheManager::answered)).
    pub request: Option<RequestKey>,
}

/// RemoveCache.
#[derive(Clone, Copy, Debug)]
pub struct RemoveRequest<'a> {
    /// The instance.
    pub instance_id: &'a str,
    /// The blocks. Absent ones are no error; the protocol's mask is not read here.
    pub blocks: Blocks<'a>,
    /// Whose effect it is, for a repeat ([`answered`](crate::CacheManager::answered)).
    pub request: Option<RequestKey>,
}

/// What TrimCache removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrimStrategy {
    /// Every block of the instance.
    RemoveAllCache,
}

impl TrimStrategy {
    /// From the protocol's number.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], or [`Error::Unsupported`] for strategies that nobody serves.
    pub fn from_number(number: i32) -> Result<Self> {
        match number {
            1 => Ok(Self::RemoveAllCache),
            2 => Err(Error::Unsupported(
                "strategy TS_REMOVE_ALL_META is not supported, use TS_REMOVE_ALL_CACHE".into(),
            )),
            3 => Err(Error::Unsupported(
                "strategy TS_TIMESTAMP is not supported, use TS_REMOVE_ALL_CACHE".into(),
            )),
            other => Err(Error::invalid(format!(
                "missing or invalid fields: {{strategy}} (strategy must be TS_REMOVE_ALL_CACHE, \
                 is {other})"
            ))),
        }
    }
}

/// TrimCache.
#[derive(Clone, Copy, Debug)]
pub struct TrimRequest<'a> {
    /// The instance.
    pub instance_id: &'a str,
    /// What to remove.
    pub strategy: TrimStrategy,
    /// Whose effect it is, for a repeat ([`answered`](crate::CacheManager::answered)).
    pub request: Option<RequestKey>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn unknown_numbers_are_errors_that_name_the_field() {
        for number in [0, 77, -1, i32::MAX] {
            let error = QueryType::from_number(number).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            let text = error.to_string();
            let head = "{query_type} (query_type must be QT_BATCH_GET";
            assert!(text.contains(head), "{text}");
            assert!(text.contains(&format!("is {number})")), "{text}");
            let error = TrimStrategy::from_number(if number == 77 { 9 } else { number });
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(
                error.to_string().contains("{strategy} (strategy must be"),
                "{error}"
            );
        }
        let error = QueryType::from_number(4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        for number in [2, 3] {
            let error = TrimStrategy::from_number(number).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        }
    }
}
