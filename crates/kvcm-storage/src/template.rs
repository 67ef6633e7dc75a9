//! From numbers to URIs.

use std::fmt;

pub(crate) use crate::Form;
use crate::{Grant, GrantNames, Middle, Part, Place};

/// What all URIs of one spec of one instance on one storage have in common. Made once by
/// [`DataStorage::template`](crate::DataStorage::template); a URI is then a few copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriTemplate {
    /// Everything before what depends on the key and its grant.
    head: Box<str>,
    /// Where the place begins in the head.
    place: usize,
    form: Form,
    /// `size=<n>`.
    tail: Box<str>,
}

/// One URI, ready to be copied where it belongs.
#[derive(Clone, Copy)]
pub struct Uri<'a> {
    head: &'a str,
    /// Where the place begins in the head.
    place: usize,
    names: GrantNames,
    part: Part,
    middle: Middle,
    tail: &'a str,
}

// === impl UriTemplate ===

impl UriTemplate {
    /// The places begin at byte `place` of the head.
    pub(crate) fn new(head: String, place: usize, form: Form, size: i64) -> Self {
        Self {
            head: head.into(),
            place,
            form,
            tail: format!("size={size}").into(),
        }
    }

    /// What the directories of its files are in, below the storage's root.
    pub(crate) fn directory(&self) -> &str {
        self.head[self.place..].trim_end_matches('/')
    }

    /// What its places are.
    pub const fn form(&self) -> Form {
        self.form
    }

    /// The URI of a key: `…/<directory>/<hex of the key>-<epoch hex>-<counter hex>?size=<n>`, or
    /// for a block of a shared file
    /// `…/<directory>/<16 hex of the file>-<epoch hex>-<counter hex>?blkid=<i>&size=<n>`. Objects
    /// have no directory.
    pub fn uri(&self, key: i64, grant: Grant, part: Part) -> Uri<'_> {
        let names = GrantNames::new(grant, self.form);
        Uri {
            head: &self.head,
            place: self.place,
            names,
            part,
            middle: names.middle(key, part),
            tail: &self.tail,
        }
    }
}

// === impl Uri ===

impl Uri<'_> {
    /// Bytes of the URI.
    #[expect(clippy::len_without_is_empty, reason = "a URI is never empty")]
    pub fn len(&self) -> usize {
        self.pieces().iter().map(|piece| piece.len()).sum()
    }

    /// Appends the URI to `out`.
    pub fn write_bytes(&self, out: &mut Vec<u8>) {
        for piece in self.pieces() {
            out.extend_from_slice(piece);
        }
    }

    /// Appends the URI to `out`.
    pub fn write_str(&self, out: &mut String) {
        out.reserve(self.len());
        out.push_str(self.head);
        for piece in &self.pieces()[1..4] {
            out.extend(piece.iter().map(|byte| char::from(*byte)));
        }
        out.push_str(self.tail);
    }

    /// What stands before the middle, in two pieces; the same for all keys of a grant, in one spec.
    pub fn before(&self) -> [&[u8]; 2] {
        [self.head.as_bytes(), self.names.directory()]
    }

    /// What sets it apart from the URIs of other keys of its grant; the same in all specs.
    pub const fn middle(&self) -> &Middle {
        &self.middle
    }

    /// What stands after the middle, in two pieces; the same for all keys of a grant, in one spec.
    pub fn after(&self) -> [&[u8]; 2] {
        [self.names.after(self.part), self.tail.as_bytes()]
    }

    /// The part of the URI that names the file below the storage's root, or the object. Keys that
    /// share a file have the same.
    pub fn place(&self) -> Place {
        let mut place = String::from(&self.head[self.place..]);
        let [name, names] = self.names.name(&self.middle, self.part);
        for piece in [self.names.directory(), name, names] {
            place.extend(piece.iter().map(|byte| char::from(*byte)));
        }
        Place::new(place)
    }

    fn pieces(&self) -> [&[u8]; 5] {
        let ([a, b], [d, e]) = (self.before(), self.after());
        [a, b, self.middle.as_bytes(), d, e]
    }
}

impl fmt::Display for Uri<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.head)?;
        for piece in &self.pieces()[1..4] {
            for byte in *piece {
                fmt::Write::write_char(f, char::from(*byte))?;
            }
        }
        f.write_str(self.tail)
    }
}

impl fmt::Debug for Uri<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_three_ways_to_write_agree_with_format(
            key: i64,
            epoch: u64,
            counter: u64,
            file: u64,
            index: u32,
            shared: bool,
            objects: bool,
        ) {
            let form = if objects { Form::Objects } else { Form::Files };
            let template = UriTemplate::new("x://s/r/i/tp0/".to_owned(), 8, form, 7);
            let grant = Grant { epoch, counter };
            let part = if shared { Part::Block { file, index } } else { Part::Whole };
            let uri = template.uri(key, grant, part);
            let directory = String::from_utf8(grant.directory().to_vec()).unwrap();
            let name = if shared { format!("{file:016x}") } else { format!("{key:x}") };
            let place = if objects {
                format!("i/tp0/{name}-{epoch:x}-{counter:x}")
            } else {
                format!("i/tp0/{directory}/{name}-{epoch:x}-{counter:x}")
            };
            let block = if shared { format!("blkid={index}&") } else { String::new() };
            let separator = if objects { '&' } else { '?' };
            let expected = format!("x://s/r/{place}{separator}{block}size=7");
            prop_assert_eq!(uri.place().to_string(), place);
            let mut bytes = Vec::new();
            uri.write_bytes(&mut bytes);
            let mut text = String::new();
            uri.write_str(&mut text);
            prop_assert_eq!(&uri.to_string(), &expected);
            prop_assert_eq!(&text, &expected);
            prop_assert_eq!(bytes.as_slice(), expected.as_bytes());
            prop_assert_eq!(uri.len(), expected.len());
        }
    }

    #[test]
    fn the_longest_uri_fits() {
        let template = UriTemplate::new(String::new(), 0, Form::Files, 1);
        let grant = Grant {
            epoch: u64::MAX,
            counter: u64::MAX,
        };
        let part = Part::Block {
            file: u64::MAX,
            index: u32::MAX,
        };
        let text = template.uri(-1, grant, part).to_string();
        assert!(
            text.ends_with("-ffffffffffffffff?blkid=4294967295&size=1"),
            "{text}"
        );
        let zero = Part::Block { file: 0, index: 0 };
        let text = template.uri(0, grant, zero).to_string();
        assert!(text[3..].starts_with("/0000000000000000-ffff"), "{text}");
    }
}
