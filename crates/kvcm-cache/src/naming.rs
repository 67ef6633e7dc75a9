//! From a location's numbers to its URIs.

use std::sync::Arc;

use kvcm_index::Location;
use kvcm_registry::{Instance, StorageType};
use kvcm_storage::{Form, Grant, GrantNames, MadeDirectories, Part, Uri, UriTemplate};
use parking_lot::RwLock;

use crate::storages::{Known, List};

/// How the places of one instance in one storage are called.
#[derive(Debug)]
pub(crate) struct Naming {
    pub(crate) kind: StorageType,
    keys_per_file: u32,
    form: Form,
    /// By the specs' numbers in the registration.
    templates: Box<[UriTemplate]>,
    /// Their directories.
    made: Box<[MadeDirectories]>,
}

impl Naming {
    fn new(instance: &Instance, known: &Known) -> Self {
        let template = |spec: &kvcm_registry::LocationSpecInfo| {
            known.data.template(&instance.id, &spec.name, spec.size)
        };
        let templates: Box<[_]> = instance.location_spec_infos.iter().map(template).collect();
        Self {
            kind: known.kind(),
            keys_per_file: known.data.keys_per_file(),
            // An instance has at least one spec.
            form: templates.first().map_or(Form::Files, UriTemplate::form),
            templates,
            made: std::iter::repeat_with(MadeDirectories::default)
                .take(instance.location_spec_infos.len())
                .collect(),
        }
    }

    /// The directories of one spec that are known to be there, and how its places are called.
    pub(crate) fn made(&self, spec: u16) -> Option<(&UriTemplate, &MadeDirectories)> {
        let spec = usize::from(spec);
        Some((self.templates.get(spec)?, self.made.get(spec)?))
    }

    /// The URI of one spec of a location.
    pub(crate) fn uri(&self, spec: u16, key: i64, location: &Location) -> Option<Uri<'_>> {
        let template = self.templates.get(usize::from(spec))?;
        let grant = grant(location);
        Some(template.uri(key, grant, self.part(location)))
    }

    /// What all URIs of a location's grant have in common.
    pub(crate) fn grant(&self, location: &Location) -> GrantNames {
        GrantNames::new(grant(location), self.form)
    }

    /// Where the bytes of a location are within its grant.
    #[inline]
    pub(crate) fn part(&self, location: &Location) -> Part {
        // The files of a grant are numbered: its epoch and counter set them apart from all others.
        let (position, keys) = (location.position(), self.keys_per_file);
        match keys {
            0 | 1 => Part::Whole,
            _ => Part::Block {
                file: u64::from(position / keys),
                index: position % keys,
            },
        }
    }
}

fn grant(location: &Location) -> Grant {
    let kvcm_index::Grant { epoch, counter } = location.grant();
    Grant { epoch, counter }
}

/// The namings of one instance, by number of the storage.
#[derive(Debug, Default)]
pub(crate) struct Namings(RwLock<Named>);

/// The same at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named(Arc<Vec<Option<Arc<Naming>>>>);

impl Namings {
    /// Those of all storages that have a number.
    pub(crate) fn all(&self, instance: &Instance, storages: &List) -> Named {
        let named = self.0.read().clone();
        if named.0.len() >= storages.len() {
            return named;
        }
        // Storages get new numbers when an operator changes them, so this is rare.
        let mut naming = vec![None; storages.len()];
        for known in storages.iter() {
            let at = usize::from(known.number);
            let former = named.0.get(at).cloned().flatten();
            naming[at] = former.or_else(|| Some(Arc::new(Naming::new(instance, known))));
        }
        let named = Named(Arc::new(naming));
        let mut slot = self.0.write();
        if slot.0.len() < named.0.len() {
            *slot = named.clone();
        }
        named
    }
}

impl Named {
    /// That of a storage.
    pub(crate) fn get(&self, storage: u16) -> Option<&Arc<Naming>> {
        self.0.get(usize::from(storage))?.as_ref()
    }
}
