//! Where the answers of a lookup go.

use crate::Location;

/// Takes the answers of a lookup in the order of the requested keys. The calls are made under the
/// index's read lock, so a sink is quick: it copies, and renders later.
pub trait LocationSink {
    /// The next keys may be read: the first at `first`, and number `n` of them at
    /// [`first.nth(n)`](Location::nth), which differs in its position only. At least one key.
    fn run(&mut self, keys: &[i64], first: &Location);

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
    fn run(&mut self, keys: &[i64], _first: &Location) {
        self.hits += keys.len();
    }

    fn placeholder(&mut self) {}
}

impl<S: LocationSink + ?Sized> LocationSink for &mut S {
    fn run(&mut self, keys: &[i64], first: &Location) {
        (**self).run(keys, first);
    }

    fn placeholder(&mut self) {
        (**self).placeholder();
    }
}
