//! How keys are matched.

use kvcm_proto::meta::{BlockMask, GetCacheLocationRequest, QueryType, block_mask};

use crate::blocks::Blocks;

/// A lookup's options. The default: the longest stored prefix, all pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    matching: Match,
    skip: i32,
    pieces: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Match {
    #[default]
    Prefix,
    Each,
    LastWindow(i32),
}

impl Query {
    /// The longest run of stored blocks from the first key; one entry per hit.
    pub fn prefix() -> Self {
        Self::default()
    }

    /// Each key by itself; one entry per key, placeholders where a block is not stored.
    pub fn each() -> Self {
        Self {
            matching: Match::Each,
            ..Self::default()
        }
    }

    /// The last window of `len` neighbouring keys that are all stored, for sliding-window
    /// attention; one entry per key, placeholders outside the window.
    pub fn last_window(len: u32) -> Self {
        Self {
            matching: Match::LastWindow(saturate(len)),
            ..Self::default()
        }
    }

    /// Leaves out the first `count` keys: the engine has them already. Prefix matches only.
    #[must_use]
    pub fn skip(mut self, count: u32) -> Self {
        self.skip = saturate(count);
        self
    }

    /// Asks for these pieces only.
    #[must_use]
    pub fn pieces(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.pieces = names.into_iter().map(Into::into).collect();
        self
    }

    pub(crate) fn query_type(&self) -> i32 {
        let kind = match self.matching {
            Match::Prefix => QueryType::QtPrefixMatch,
            Match::Each => QueryType::QtBatchGet,
            Match::LastWindow(_) => QueryType::QtReverseRollSwMatch,
        };
        kind.into()
    }

    pub(crate) fn window(&self) -> i32 {
        match self.matching {
            Match::LastWindow(len) => len,
            Match::Prefix | Match::Each => 0,
        }
    }

    pub(crate) fn to_wire(&self, instance_id: &str, blocks: Blocks<'_>) -> GetCacheLocationRequest {
        let (block_keys, token_ids) = blocks.to_wire();
        GetCacheLocationRequest {
            instance_id: instance_id.to_owned(),
            query_type: self.query_type(),
            block_keys,
            token_ids,
            block_mask: (self.skip > 0).then_some(BlockMask {
                info: Some(block_mask::Info::Offset(self.skip)),
            }),
            sw_size: self.window(),
            location_spec_names: self.pieces.clone(),
            ..GetCacheLocationRequest::default()
        }
    }
}

fn saturate(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
