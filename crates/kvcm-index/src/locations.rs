//! The locations of one slot.

use std::{ops::Deref, slice};

use crate::Location;

/// One location, put together from a slot's run, or a list that lies beside the slots.
#[derive(Debug)]
pub(crate) enum Locations<'a> {
    One(Location),
    List(&'a [Location]),
}

impl Deref for Locations<'_> {
    type Target = [Location];

    #[inline]
    fn deref(&self) -> &[Location] {
        match self {
            Self::One(location) => slice::from_ref(location),
            Self::List(list) => list,
        }
    }
}
