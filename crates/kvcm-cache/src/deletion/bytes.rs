//! From locations to the files that go with them.

use kvcm_index::Location;
use kvcm_storage::{Deletion, Place};

use crate::{home::Home, naming::Naming, specs::ALL};

/// The files that go with a list of locations.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) places: Vec<Place>,
    /// For each place the number of its location in the list.
    owners: Vec<usize>,
    keys_per_file: u32,
}

impl Files {
    /// The files of the locations. One that several blocks share goes with the last of them, and
    /// these locations leave theirs with this call: say [`failures`](Self::failures) later.
    pub(super) fn new(
        home: &Home,
        naming: &Naming,
        keys_per_file: u32,
        locations: &[(i64, Location)],
    ) -> Self {
        let mut files = Self {
            places: Vec::with_capacity(locations.len()),
            owners: Vec::with_capacity(locations.len()),
            keys_per_file,
        };
        for (owner, (key, location)) in locations.iter().enumerate() {
            let specs = if keys_per_file <= 1 {
                location.specs()
            } else if home.files.remove(location, keys_per_file) {
                // The other blocks of the file may have had other specs.
                ALL
            } else {
                continue;
            };
            for spec in home.specs.specs(specs) {
                if let Some(uri) = naming.uri(*spec, *key, location) {
                    files.places.push(uri.place());
                    files.owners.push(owner);
                }
            }
        }
        files
    }

    /// How many there are, wherever they are now.
    pub(super) const fn count(&self) -> usize {
        self.owners.len()
    }

    /// Takes the locations out of the list whose bytes may still be there, and the first reason.
    pub(super) fn failures(
        &self,
        home: &Home,
        locations: &mut Vec<(i64, Location)>,
        outcomes: &[Deletion],
    ) -> Failures {
        let mut is_left = vec![false; locations.len()];
        let mut failures = Failures::default();
        for (at, owner) in self.owners.iter().enumerate() {
            match outcomes.get(at) {
                Some(outcome) if outcome.is_done() => continue,
                Some(Deletion::Failed { error }) => {
                    failures.tried += usize::from(!is_left[*owner]);
                    failures.error.get_or_insert_with(|| error.clone());
                }
                Some(Deletion::Unknown) => {
                    failures.tried += usize::from(!is_left[*owner]);
                    let late = "the storage did not answer in time";
                    failures.error.get_or_insert_with(|| late.to_owned());
                }
                _ => {}
            }
            is_left[*owner] = true;
        }
        let mut at = 0;
        locations.retain(|(key, location)| {
            let left = is_left[at];
            at += 1;
            if left {
                if self.keys_per_file > 1 {
                    home.files.insert(location, *key, self.keys_per_file);
                }
                failures.locations.push((*key, *location));
            }
            !left
        });
        failures
    }
}

/// Locations whose bytes may still be there.
#[derive(Debug, Default)]
pub(super) struct Failures {
    pub(super) locations: Vec<(i64, Location)>,
    /// How many of them were tried.
    pub(super) tried: usize,
    /// Why the first one failed.
    pub(super) error: Option<String>,
}
