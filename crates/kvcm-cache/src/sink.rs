//! Where the answers of a lookup go.

use crate::View;

/// Takes the locations of an answer, in order. Called without a lock.
pub trait ReplySink {
    /// One entry of the answer: a location, or a placeholder where there is none
    /// ([`View::is_placeholder`]).
    fn location(&mut self, view: &View<'_>);
}

impl<F: FnMut(&View<'_>)> ReplySink for F {
    fn location(&mut self, view: &View<'_>) {
        self(view);
    }
}
