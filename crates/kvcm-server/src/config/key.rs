//! A row of the table of keys.

use kvcm_uri::Uri;

use super::{Config, KEYS};

/// A key that can be configured.
#[derive(Debug)]
pub struct Key {
    /// The dotted name.
    pub name: &'static str,
    /// An older name, used only when `name` is empty.
    pub alias: Option<&'static str>,
    /// What applies when nobody sets the key.
    pub default: &'static str,
    /// What it means, and its unit.
    pub doc: &'static str,
    /// How its text is read.
    pub kind: Kind,
}

/// How a text becomes a setting.
#[derive(Debug)]
pub enum Kind {
    /// A whole number with limits.
    Number {
        /// The least allowed value.
        min: u64,
        /// The greatest allowed value.
        max: u64,
        /// Stores it.
        set: fn(&mut Config, u64),
    },
    /// A URI, or an empty text.
    Uri {
        /// The schemes that can be used.
        schemes: &'static [&'static str],
        /// Stores it; none for an empty text.
        set: fn(&mut Config, Option<Uri>),
    },
    /// A text that is never printed, with a rule.
    Secret {
        /// The rule, in words that follow "expected".
        expected: &'static str,
        /// Stores the text if it keeps the rule; none otherwise.
        set: fn(&mut Config, &str) -> Option<()>,
    },
    /// Any other text with a rule.
    Text {
        /// The rule, in words that follow "expected".
        expected: &'static str,
        /// Stores the text if it keeps the rule; none otherwise.
        set: fn(&mut Config, &str) -> Option<()>,
    },
    /// A key of the predecessor that this server has no use for: accepted, with a note.
    Unused,
}

impl Key {
    /// A key whose value is a number from `min` to `max`.
    pub(super) const fn number(
        name: &'static str,
        default: &'static str,
        [min, max]: [u64; 2],
        doc: &'static str,
        set: fn(&mut Config, u64),
    ) -> Self {
        Self {
            name,
            alias: None,
            default,
            doc,
            kind: Kind::Number { min, max, set },
        }
    }

    /// A key whose value is a text with a rule.
    pub(super) const fn text(
        name: &'static str,
        default: &'static str,
        expected: &'static str,
        doc: &'static str,
        set: fn(&mut Config, &str) -> Option<()>,
    ) -> Self {
        Self {
            name,
            alias: None,
            default,
            doc,
            kind: Kind::Text { expected, set },
        }
    }

    /// A key of the predecessor that has no effect here.
    pub(super) const fn unused(
        name: &'static str,
        default: &'static str,
        doc: &'static str,
    ) -> Self {
        Self {
            name,
            alias: None,
            default,
            doc,
            kind: Kind::Unused,
        }
    }

    /// The row of `name`, which may be an alias.
    pub fn find(name: &str) -> Option<&'static Self> {
        KEYS.iter()
            .find(|key| key.name == name || key.alias == Some(name))
    }

    /// Whether the key has an effect.
    pub const fn is_used(&self) -> bool {
        !matches!(self.kind, Kind::Unused)
    }

    /// The value as it may be printed: secrets and passwords in URIs replaced, values of keys that
    /// are not used left out (nobody knows what they hold).
    pub fn printable(&self, value: &str) -> String {
        match self.kind {
            Kind::Unused => "***".to_owned(),
            Kind::Secret { .. } if !value.is_empty() => "***".to_owned(),
            Kind::Uri { .. } if !value.is_empty() => match Uri::parse(value) {
                Ok(uri) => uri.to_string(),
                Err(error) => error.uri,
            },
            _ => value.to_owned(),
        }
    }
}
