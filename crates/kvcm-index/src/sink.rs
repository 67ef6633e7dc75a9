//! Where the answers of a lookup go.

use crate::Location;

/// Takes the answers of a lookup in the order of the requested keys. The calls are made under the
/// index's read lock, so a sink is quick: it copies, and renders later.
pub trait LocationSink {
    /// `key` may be read at `location`.
    fn location(&mut self, key: i64, location: &Location);

    /// Several keys in one piece, as [`location`](Self::location) for each; both have one length.
    fn run(&mut self, keys: &[i64], locations: &[Location]) {
        for (key, location) in keys.iter().zip(locations) {
            self.location(*key, location);
        }
    }

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

    fn run(&mut self, keys: &[i64], _locations: &[Location]) {
        self.hits += keys.len();
    }

    fn placeholder(&mut self) {}
}

impl<S: LocationSink + ?Sized> LocationSink for &mut S {
    fn location(&mut self, key: i64, location: &Location) {
        (**self).location(key, location);
    }

    fn run(&mut self, keys: &[i64], locations: &[Location]) {
        (**self).run(keys, locations);
    }

    fn placeholder(&mut self) {
        (**self).placeholder();
    }
}
