//! From numbers to URIs.

use std::fmt;

use crate::{Grant, Part, Place, part::write_hex};

/// Longest middle: the directory with its slash, three hex numbers, two dashes, `?blkid=`, ten
/// digits, `&`.
const MIDDLE_MAX: usize = 4 + 16 * 3 + 2 + 7 + 10 + 1;

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

/// What the places of a storage are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Files: each grant's lie in one of many directories, and `?` ends the path.
    Files,
    /// Objects: there are no directories, and the key is itself a parameter, which `&` ends.
    Objects,
}

/// One URI, ready to be copied where it belongs.
#[derive(Clone, Copy)]
pub struct Uri<'a> {
    head: &'a str,
    /// Where the place begins in the head.
    place: usize,
    middle: [u8; MIDDLE_MAX],
    middle_len: usize,
    /// Where the place ends in the middle.
    place_end: usize,
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

    /// The URI of a key: `…/<directory>/<hex of the key>-<epoch hex>-<counter hex>?size=<n>`, or
    /// for a block of a shared file
    /// `…/<directory>/<16 hex of the file>-<epoch hex>-<counter hex>?blkid=<i>&size=<n>`. Objects
    /// have no directory.
    pub fn uri(&self, key: i64, grant: Grant, part: Part) -> Uri<'_> {
        let mut uri = Uri {
            head: &self.head,
            place: self.place,
            middle: [0; MIDDLE_MAX],
            middle_len: 0,
            place_end: 0,
            tail: &self.tail,
        };
        if self.form == Form::Files {
            uri.push(&grant.directory());
            uri.push(b"/");
        }
        match part {
            Part::Whole => uri.hex(key.cast_unsigned()),
            Part::Block { file, .. } => {
                // File names have all 16 digits, as the predecessor's have.
                uri.push(&b"0000000000000000"[..file.leading_zeros() as usize / 4]);
                if file != 0 {
                    uri.hex(file);
                }
            }
        }
        uri.push(b"-");
        uri.hex(grant.epoch);
        uri.push(b"-");
        uri.hex(grant.counter);
        uri.place_end = uri.middle_len;
        uri.push(match self.form {
            Form::Files => b"?",
            Form::Objects => b"&",
        });
        if let Part::Block { index, .. } = part {
            uri.push(b"blkid=");
            uri.decimal(index);
            uri.push(b"&");
        }
        uri
    }
}

// === impl Uri ===

impl Uri<'_> {
    /// Bytes of the URI.
    #[expect(clippy::len_without_is_empty, reason = "a URI is never empty")]
    pub const fn len(&self) -> usize {
        self.head.len() + self.middle_len + self.tail.len()
    }

    /// Appends the URI to `out`.
    pub fn write_bytes(&self, out: &mut Vec<u8>) {
        for part in self.parts() {
            out.extend_from_slice(part);
        }
    }

    /// The URI in three pieces, for writers of other kinds.
    pub fn parts(&self) -> [&[u8]; 3] {
        [
            self.head.as_bytes(),
            &self.middle[..self.middle_len],
            self.tail.as_bytes(),
        ]
    }

    /// Appends the URI to `out`.
    pub fn write_str(&self, out: &mut String) {
        out.reserve(self.len());
        out.push_str(self.head);
        out.extend(self.middle().iter().map(|byte| char::from(*byte)));
        out.push_str(self.tail);
    }

    /// The part of the URI that names the file below the storage's root, or the object. Keys that
    /// share a file have the same.
    pub fn place(&self) -> Place {
        let mut place = String::from(&self.head[self.place..]);
        let middle = &self.middle[..self.place_end];
        place.extend(middle.iter().map(|byte| char::from(*byte)));
        Place::new(place)
    }

    fn middle(&self) -> &[u8] {
        &self.middle[..self.middle_len]
    }

    fn push(&mut self, bytes: &[u8]) {
        let end = self.middle_len + bytes.len();
        self.middle[self.middle_len..end].copy_from_slice(bytes);
        self.middle_len = end;
    }

    fn hex(&mut self, number: u64) {
        self.push(write_hex(&mut [0; 16], number));
    }

    fn decimal(&mut self, mut number: u32) {
        let mut digits = [0; 10];
        let mut start = digits.len();
        loop {
            start -= 1;
            // A remainder below ten fits.
            digits[start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.push(&digits[start..]);
    }
}

impl fmt::Display for Uri<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.head)?;
        for byte in self.middle() {
            fmt::Write::write_char(f, char::from(*byte))?;
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
        assert_eq!(template.uri(-1, grant, part).len(), MIDDLE_MAX + 6);
        let zero = Part::Block { file: 0, index: 0 };
        let text = template.uri(0, grant, zero).to_string();
        assert!(text[3..].starts_with("/0000000000000000-ffff"), "{text}");
    }
}
