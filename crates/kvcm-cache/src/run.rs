//! Entries of an answer that differ in little.

use kvcm_index::Location;
use kvcm_storage::{Middle, Part};

use crate::{View, home::Home, naming::Naming, view::SpecFilter};

/// Neighbours of an answer that were written together, one after the other: one grant, one
/// storage, one set of specs. Their entries differ in nothing but the middle of their URIs, so a
/// writer can lay one of them out and copy it.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    home: &'a Home,
    filter: &'a SpecFilter,
    naming: &'a Naming,
    /// At least one.
    keys: &'a [i64],
    /// Of the first key; the others follow it.
    first: Location,
}

impl<'a> Run<'a> {
    /// The entries of `keys`, whose locations are `first` and those that follow it.
    pub(crate) const fn new(
        home: &'a Home,
        filter: &'a SpecFilter,
        naming: &'a Naming,
        keys: &'a [i64],
        first: Location,
    ) -> Self {
        Self {
            home,
            filter,
            naming,
            keys,
            first,
        }
    }

    /// How many entries there are.
    #[expect(clippy::len_without_is_empty, reason = "a run is never empty")]
    pub const fn len(&self) -> usize {
        self.keys.len()
    }

    /// The entries.
    pub fn views(&self) -> impl Iterator<Item = View<'a>> + use<'a> {
        let Self {
            home,
            filter,
            naming,
            first,
            ..
        } = *self;
        (0..).zip(self.keys).map(move |(n, key)| {
            let found = Some((first.nth(n), naming));
            View::new(home, filter, *key, found)
        })
    }

    /// The first entry.
    pub fn first(&self) -> View<'a> {
        let found = Some((self.first, self.naming));
        View::new(self.home, self.filter, self.keys[0], found)
    }

    /// The keys, when the [`middles`](Self::middles) are nothing but the digits of each
    /// ([`key_digits`](crate::key_digits)).
    pub fn digits_of(&self) -> Option<&'a [i64]> {
        (self.naming.part(&self.first) == Part::Whole).then_some(self.keys)
    }

    /// What the URIs of each entry have that those of the others have not, in order.
    pub fn middles(&self) -> impl Iterator<Item = Middle> + use<'a> {
        let (naming, first) = (self.naming, self.first);
        let grant = naming.grant(&first);
        let keys = (0..).zip(self.keys);
        keys.map(move |(n, key)| grant.middle(*key, naming.part(&first.nth(n))))
    }
}
