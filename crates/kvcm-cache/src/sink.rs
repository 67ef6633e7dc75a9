//! Where the answers of a lookup go.

use crate::{Run, View};

/// Takes the locations of an answer, in order. Called without a lock.
pub trait ReplySink {
    /// So many entries will come, before the first of them.
    fn expect(&mut self, _entries: usize) {}

    /// One entry of the answer: a location, or a placeholder where there is none
    /// ([`View::is_placeholder`]).
    fn location(&mut self, view: &View<'_>);

    /// Several entries that differ in little ([`Run`]), as [`location`](Self::location) for each.
    fn run(&mut self, run: &Run<'_>) {
        run.views().for_each(|view| self.location(&view));
    }
}

impl<F: FnMut(&View<'_>)> ReplySink for F {
    fn location(&mut self, view: &View<'_>) {
        self(view);
    }
}
