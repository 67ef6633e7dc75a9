//! What a state machine writes in one atomic step.

use bytes::Bytes;

/// Operations that become durable together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Which family of operations this is; numbered by the state machine, stored, so a number is
    /// never given a second meaning.
    pub kind: u16,
    /// Version of the encoding of `operations`.
    pub version: u16,
    /// Ids of the requests whose effects these are, for answering repeats. Often empty. At most
    /// 65,535 ids of at most 65,535 bytes each.
    pub requests: Vec<Box<str>>,
    /// The operations, encoded by the state machine.
    pub operations: Bytes,
}

impl Batch {
    /// A batch without request ids.
    pub const fn new(kind: u16, version: u16, operations: Bytes) -> Self {
        Self {
            kind,
            version,
            requests: Vec::new(),
            operations,
        }
    }

    /// Bytes of payload: operations and request ids.
    pub fn size(&self) -> usize {
        self.operations.len() + self.requests.iter().map(|id| id.len()).sum::<usize>()
    }
}
