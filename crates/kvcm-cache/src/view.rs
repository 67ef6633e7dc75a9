//! One entry of an answer.

use kvcm_index::Location;
use kvcm_registry::{Instance, StorageType};
use kvcm_storage::Uri;

use crate::{LocationId, home::Home, naming::Naming};

/// Which specs an answer shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SpecFilter {
    All,
    /// Numbers of the specs in the registration.
    Only(Vec<u16>),
}

impl SpecFilter {
    /// By names; no names: all. Unknown names match nothing.
    pub(crate) fn new(instance: &Instance, names: &[String]) -> Self {
        if names.is_empty() {
            return Self::All;
        }
        let specs = (0u16..).zip(&instance.location_spec_infos);
        let wanted = specs.filter(|(_, info)| names.contains(&info.name));
        Self::Only(wanted.map(|(number, _)| number).collect())
    }

    fn shows(&self, spec: u16) -> bool {
        match self {
            Self::All => true,
            Self::Only(specs) => specs.contains(&spec),
        }
    }

    /// How many of these specs it shows.
    pub(crate) fn count(&self, specs: &[u16]) -> usize {
        match self {
            Self::All => specs.len(),
            Self::Only(_) => specs.iter().filter(|spec| self.shows(**spec)).count(),
        }
    }
}

/// One entry of an answer: a location, or the placeholder of a key that has none. Borrowed while
/// the answer is written.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    home: &'a Home,
    filter: &'a SpecFilter,
    key: i64,
    found: Option<(Location, &'a Naming)>,
}

/// One spec of an entry.
#[derive(Clone, Copy, Debug)]
pub struct SpecView<'a> {
    view: View<'a>,
    name: &'a str,
    number: u16,
}

impl<'a> View<'a> {
    pub(crate) const fn new(
        home: &'a Home,
        filter: &'a SpecFilter,
        key: i64,
        found: Option<(Location, &'a Naming)>,
    ) -> Self {
        Self {
            home,
            filter,
            key,
            found,
        }
    }

    /// The block's key.
    pub const fn key(&self) -> i64 {
        self.key
    }

    /// Whether the key has no location: no storage type, every registered spec with an empty URI.
    pub const fn is_placeholder(&self) -> bool {
        self.found.is_none()
    }

    /// The kind of storage; none for a placeholder.
    pub fn storage_type(&self) -> Option<StorageType> {
        self.found.map(|(_, naming)| naming.kind)
    }

    /// The name of the location; none for a placeholder.
    pub fn id(&self) -> Option<LocationId> {
        self.found.map(|(location, _)| LocationId::new(&location))
    }

    /// How many specs the entry shows.
    pub fn spec_count(&self) -> usize {
        self.filter.count(self.numbers())
    }

    /// The specs that it shows, in the order of the registration.
    pub fn specs(&self) -> impl Iterator<Item = SpecView<'a>> + use<'a> {
        let view = *self;
        let shown = view.numbers().iter();
        let infos = &view.home.instance.location_spec_infos;
        shown
            .filter(move |number| view.filter.shows(**number))
            .filter_map(move |number| {
                let info = infos.get(usize::from(*number))?;
                Some(SpecView {
                    view,
                    name: &info.name,
                    number: *number,
                })
            })
    }

    /// A placeholder shows all registered specs.
    fn numbers(&self) -> &'a [u16] {
        let set = self.found.map_or(crate::specs::ALL, |(l, _)| l.specs());
        self.home.specs.specs(set)
    }
}

impl<'a> SpecView<'a> {
    /// Its name in the registration.
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// Its URI, ready to be copied; none for a placeholder, whose URI is the empty text.
    pub fn uri(&self) -> Option<Uri<'a>> {
        let (location, naming) = self.view.found?;
        naming.uri(self.number, self.view.key, &location)
    }
}
