//! What a successful call tells about itself.

use std::{ops::Deref, sync::Arc, time::Duration};

use crate::attempt::Attempt;

/// Who answered a call, and what it took.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallMeta {
    /// The epoch of the leader that answered; `None` from a server without epochs.
    pub epoch: Option<u64>,
    /// `host:port` of the node that answered.
    pub node: Arc<str>,
    /// The cluster; `None` from a server that does not tell.
    pub cluster_id: Option<Arc<str>>,
    /// Tries at nodes, the successful one included.
    pub attempts: u32,
    /// From the start of the call to its answer.
    pub elapsed: Duration,
    /// The server's id of the request, for its logs.
    pub request_id: String,
    /// What failed before, in order: of a long story only the beginning and the end. Empty when
    /// the first try succeeded, as nearly all do.
    pub history: Arc<[Attempt]>,
}

/// A value and how it was obtained; dereferences to the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<T> {
    value: T,
    meta: CallMeta,
}

impl<T> Reply<T> {
    pub(crate) fn new(value: T, meta: CallMeta) -> Self {
        Self { value, meta }
    }

    /// Who answered, and what it took.
    pub fn meta(&self) -> &CallMeta {
        &self.meta
    }

    /// The value alone.
    pub fn into_value(self) -> T {
        self.value
    }
}

impl<T> Deref for Reply<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
