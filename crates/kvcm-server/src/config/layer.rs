//! Layers the sources with figment: which text applies to a key, and where it comes from.

use figment::{
    Error, Figment, Metadata, Profile, Provider,
    value::{Dict, Map, Value},
};

use super::{KEYS, entry::Entry};

/// The texts that apply, later sources over earlier ones.
#[derive(Debug)]
pub(super) struct Layers {
    figment: Figment,
    texts: Dict,
}

impl Layers {
    /// The defaults of the table with `entries` over them, in their order.
    ///
    /// # Errors
    /// What figment cannot merge, in words; texts can always be merged.
    pub(super) fn new(entries: Vec<Entry>) -> Result<Self, String> {
        let defaults = KEYS.iter().map(|key| Entry {
            key: key.name.to_owned(),
            value: key.default.to_owned(),
            origin: "default".to_owned(),
        });
        // One provider an entry, so that figment knows the line of each value.
        let figment = defaults
            .chain(entries)
            .fold(Figment::new(), |figment, entry| figment.merge(Layer(entry)));
        let mut profiles = figment.data().map_err(|error| error.to_string())?;
        let texts = profiles.remove(&Profile::Default);
        Ok(Self {
            texts: texts.unwrap_or_default(),
            figment,
        })
    }

    /// The text that applies to `key`, and its origin. None when no source has the key.
    pub(super) fn get(&self, key: &str) -> Option<(&str, String)> {
        let value = self.texts.get(key)?;
        let origin = self.figment.get_metadata(value.tag());
        let origin = origin.map_or_else(String::new, |metadata| metadata.name.to_string());
        Some((value.as_str()?, origin))
    }

    /// Every key that a source has, known or not.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.texts.keys().map(String::as_str)
    }
}

/// One entry as a source of figment. The dots of a key are kept, so that `a=1` and `a.b=2` are
/// two keys and not a contradiction.
struct Layer(Entry);

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.0.origin.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        let value = Value::from(self.0.value.clone());
        let dict = Dict::from([(self.0.key.clone(), value)]);
        Ok(Map::from([(Profile::Default, dict)]))
    }
}
