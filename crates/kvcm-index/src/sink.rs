//! Where the answers of a lookup go.

use crate::Location;

/// Takes the answers of a lookup in the order of the requested keys. The calls are made under the
/// index's read lock, so a sink is quick: it copies, and renders later.
pub trait LocationSink {
    /// `key` may be read at `location`.
    fn location(&mut self, key: i64, location: &Location);

    /// A key that cannot be read, in an answer that has one entry for each key.
    fn placeholder(&mut self);
}

/// Counts the hits and keeps nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Keys that may be read.
    pub hits: usize,
}

impl LocationSink for Counter {
    fn location(&mut self, _key: i64, _location: &Location) {
        self.hits += 1;
    }

    fn placeholder(&mut self) {}
}

impl<S: LocationSink + ?Sized> LocationSink for &mut S {
    fn location(&mut self, key: i64, location: &Location) {
        (**self).location(key, location);
    }

    fn placeholder(&mut self) {
        (**self).placeholder();
    }
}
