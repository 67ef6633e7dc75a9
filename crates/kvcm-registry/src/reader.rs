//! Reading a JSON object member by member, with every mistake noted under its place.

use std::{cell::RefCell, fmt};

use serde_json::{Map, Value};
use thiserror::Error;

/// Everything that is wrong with a text, each with its place.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct Mistakes(pub Vec<String>);

/// What reading has noted.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) mistakes: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

/// Reads one object. A member that is absent or null has its default; one of the wrong type is
/// noted, and so is, as a warning, one that nobody asked for.
pub(crate) struct Reader<'a> {
    place: String,
    members: &'a Map<String, Value>,
    known: Vec<&'static str>,
    notes: &'a RefCell<Notes>,
}

impl<'a> Reader<'a> {
    /// Reads `value`, which has to be an object, at `place` (empty for the whole text).
    pub(crate) fn read<T>(
        place: &str,
        value: &'a Value,
        notes: &'a RefCell<Notes>,
        read: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        let Value::Object(members) = value else {
            let name = if place.is_empty() { "the text" } else { place };
            note(notes, name, value, "an object");
            return None;
        };
        let mut reader = Self {
            place: place.to_owned(),
            members,
            known: Vec::new(),
            notes,
        };
        let read = read(&mut reader);
        reader.warn_of_unknown();
        Some(read)
    }

    pub(crate) fn text(&mut self, name: &'static str, default: &str) -> String {
        let text = self.member(name, "a text", |value| value.as_str().map(str::to_owned));
        text.unwrap_or_else(|| default.to_owned())
    }

    pub(crate) fn flag(&mut self, name: &'static str, default: bool) -> bool {
        self.optional_flag(name).unwrap_or(default)
    }

    pub(crate) fn optional_flag(&mut self, name: &'static str) -> Option<bool> {
        self.member(name, "true or false", Value::as_bool)
    }

    pub(crate) fn float(&mut self, name: &'static str, default: f64) -> f64 {
        self.member(name, "a number", Value::as_f64)
            .unwrap_or(default)
    }

    pub(crate) fn int<T: TryFrom<i128>>(&mut self, name: &'static str, default: T) -> T {
        self.optional_int(name).unwrap_or(default)
    }

    pub(crate) fn optional_int<T: TryFrom<i128>>(&mut self, name: &'static str) -> Option<T> {
        let bits = std::mem::size_of::<T>() * 8;
        let expected = format!("a whole number of {bits} bits, not in quotes");
        self.member(name, &expected, |value| {
            let whole = value.as_i64().map(i128::from);
            whole
                .or_else(|| value.as_u64().map(i128::from))
                .and_then(|number| T::try_from(number).ok())
        })
    }

    /// A member of any kind, as it stands.
    pub(crate) fn raw(&mut self, name: &'static str) -> Option<Value> {
        self.get(name).cloned()
    }

    /// A member that is an object; `None` when it is absent or no object.
    pub(crate) fn object<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Reader<'a>) -> T,
    ) -> Option<T> {
        let value = self.get(name)?;
        Reader::read(&self.place_of(name), value, self.notes, read)
    }

    /// The items of a member that is a list, each with its place.
    pub(crate) fn list(&mut self, name: &'static str) -> Vec<(String, &'a Value)> {
        let place = self.place_of(name);
        match self.get(name) {
            None => Vec::new(),
            Some(Value::Array(items)) => items
                .iter()
                .enumerate()
                .map(|(index, item)| (format!("{place}[{index}]"), item))
                .collect(),
            Some(other) => {
                note(self.notes, &place, other, "a list");
                Vec::new()
            }
        }
    }

    /// Notes that a member has to be there.
    pub(crate) fn require(&mut self, name: &'static str, what: &str) {
        if self.get(name).is_none() {
            let text = format!("`{}` is missing: {what}", self.place_of(name));
            self.mistake(text);
        }
    }

    /// Counts a member as known without reading it.
    pub(crate) fn look_at(&mut self, name: &'static str) {
        self.get(name);
    }

    pub(crate) fn mistake(&self, text: String) {
        self.notes.borrow_mut().mistakes.push(text);
    }

    pub(crate) const fn notes(&self) -> &'a RefCell<Notes> {
        self.notes
    }

    pub(crate) fn place_of(&self, name: &str) -> String {
        if self.place.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.place)
        }
    }

    fn get(&mut self, name: &'static str) -> Option<&'a Value> {
        if !self.known.contains(&name) {
            self.known.push(name);
        }
        self.members.get(name).filter(|value| !value.is_null())
    }

    fn member<T>(
        &mut self,
        name: &'static str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.get(name)?;
        let read = read(value);
        if read.is_none() {
            note(self.notes, &self.place_of(name), value, expected);
        }
        read
    }

    fn warn_of_unknown(&self) {
        let unknown = self
            .members
            .keys()
            .filter(|name| !self.known.contains(&name.as_str()));
        for name in unknown {
            let nearest = self
                .known
                .iter()
                .map(|known| (strsim::damerau_levenshtein(known, name), known))
                .min()
                .filter(|(distance, _)| *distance <= 3);
            let mut text = format!("unknown member `{}` is ignored", self.place_of(name));
            if let Some((_, known)) = nearest {
                text = format!("{text}; did you mean `{known}`?");
            }
            self.notes.borrow_mut().warnings.push(text);
        }
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

fn note(notes: &RefCell<Notes>, place: &str, found: &Value, expected: &str) {
    let found = match found {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => other.to_string().chars().take(80).collect(),
    };
    let text = format!("`{place}` is {found}, expected {expected}");
    notes.borrow_mut().mistakes.push(text);
}
