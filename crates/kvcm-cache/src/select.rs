//! Which of a key's locations is read.

use kvcm_index::Location;
use kvcm_registry::StorageType;

use crate::{
    home::Home,
    storages::{List, Usable},
    view::SpecFilter,
};

/// Picks among the locations of a key: serving, in a storage that may be read, with the most of
/// the wanted specs; among equals at random, weighted by the kind of storage.
#[derive(Debug)]
pub(crate) struct Selector<'a> {
    pub(crate) home: &'a Home,
    pub(crate) storages: &'a List,
    pub(crate) usable: &'a Usable,
    pub(crate) filter: &'a SpecFilter,
}

impl Selector<'_> {
    #[inline]
    pub(crate) fn select(&self, locations: &[Location]) -> Option<usize> {
        match locations {
            [only] => self.readable(only).then_some(0),
            several => self.select_among(several),
        }
    }

    fn readable(&self, location: &Location) -> bool {
        location.is_serving() && self.usable.contains(location.storage())
    }

    fn select_among(&self, locations: &[Location]) -> Option<usize> {
        let coverage = |l: &Location| self.filter.count(self.home.specs.specs(l.specs()));
        let numbered = || locations.iter().enumerate();
        let readable = || numbered().filter(|(_, location)| self.readable(location));
        let most = readable().map(|(_, location)| coverage(location)).max()?;
        let best = || readable().filter(|(_, location)| coverage(location) == most);
        let weights = best().map(|(_, location)| self.weight(location));
        let mut left = fastrand::u32(..weights.sum::<u32>().max(1));
        for (at, location) in best() {
            let weight = self.weight(location);
            if left < weight {
                return Some(at);
            }
            left -= weight;
        }
        best().next().map(|(at, _)| at)
    }

    fn weight(&self, location: &Location) -> u32 {
        match self.storages.get(location.storage()).map(|s| s.kind()) {
            Some(StorageType::File) => 5,
            Some(StorageType::Hf3fs | StorageType::Mooncake | StorageType::Pace) => 3,
            _ => 1,
        }
    }
}
