//! What the places of one grant are called.

use crate::{Grant, Part, hex};

/// What the places of a storage are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Files: each grant's lie in one of many directories, and `?` ends the path.
    Files,
    /// Objects: there are no directories, and the key is itself a parameter, which `&` ends.
    Objects,
}

/// Longest: two dashes, two numbers, one separator.
const NAMES_MAX: usize = 2 * 17 + 1;
const BLOCK: &[u8; 6] = b"blkid=";
/// Longest middle: the name of a file, names, block.
const MIDDLE_MAX: usize = 16 + NAMES_MAX + BLOCK.len() + 10;

/// What all places of one grant have in common, written down once for many keys.
#[derive(Clone, Copy, Debug)]
pub struct GrantNames {
    /// The directory with its slash, for files.
    directory: [u8; 4],
    directory_len: usize,
    /// `-<epoch hex>-<counter hex>?`, and then [`BLOCK`].
    names: [u8; NAMES_MAX + BLOCK.len()],
    names_len: usize,
}

/// What a URI has that those of other keys of its grant have not: hexadecimal digits of the key, or
/// the file of the grant and the block in it, with what stands between them. Plain ASCII without
/// quotes or white space.
#[derive(Clone, Copy, Debug)]
pub struct Middle {
    bytes: [u8; MIDDLE_MAX],
    start: usize,
    end: usize,
}

// === impl GrantNames ===

impl GrantNames {
    /// Those of `grant` in a storage whose places are of this form.
    pub fn new(grant: Grant, form: Form) -> Self {
        let mut this = Self {
            directory: [b'/'; 4],
            directory_len: 0,
            names: [0; _],
            names_len: 0,
        };
        if form == Form::Files {
            this.directory[..3].copy_from_slice(&grant.directory());
            this.directory_len = this.directory.len();
        }
        for number in [grant.epoch, grant.counter] {
            this.push(b"-");
            let digits = hex::digits(number);
            this.push(&digits[hex::leading_zeros(number)..]);
        }
        let (separator, end) = match form {
            Form::Files => (b"?", this.names_len + 1),
            Form::Objects => (b"&", this.names_len + 1),
        };
        this.push(separator);
        this.push(BLOCK);
        this.names_len = end;
        this
    }

    /// The middle of the URI of a key.
    #[inline]
    pub fn middle(&self, key: i64, part: Part) -> Middle {
        let mut middle = Middle {
            bytes: [0; MIDDLE_MAX],
            start: 0,
            end: 16,
        };
        match part {
            Part::Whole => {
                middle.bytes[..16].copy_from_slice(&hex::key_digits(key));
                middle.start = 16 - hex::key_length(key);
            }
            Part::Block { file, index } => {
                // File names have all 16 digits, as the predecessor's have.
                middle.bytes[..16].copy_from_slice(&hex::digits(file));
                middle.push(&self.names[..self.names_len + BLOCK.len()]);
                middle.decimal(index);
            }
        }
        middle
    }

    /// The directory with its slash, or nothing.
    pub(crate) fn directory(&self) -> &[u8] {
        &self.directory[..self.directory_len]
    }

    /// What follows the middle.
    pub(crate) fn after(&self, part: Part) -> &[u8] {
        match part {
            Part::Whole => &self.names[..self.names_len],
            Part::Block { .. } => b"&",
        }
    }

    /// The name of the file or object.
    pub(crate) fn name<'a>(&'a self, middle: &'a Middle, part: Part) -> [&'a [u8]; 2] {
        // Without the separator.
        let names = &self.names[..self.names_len - 1];
        match part {
            Part::Whole => [middle.as_bytes(), names],
            Part::Block { .. } => [&middle.bytes[..16], names],
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        let end = self.names_len + bytes.len();
        self.names[self.names_len..end].copy_from_slice(bytes);
        self.names_len = end;
    }
}

// === impl Middle ===

impl Middle {
    /// Its text.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    fn push(&mut self, bytes: &[u8]) {
        let end = self.end + bytes.len();
        self.bytes[self.end..end].copy_from_slice(bytes);
        self.end = end;
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
