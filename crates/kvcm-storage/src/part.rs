//! Which file of a grant a key is in.

use xxhash_rust::xxh3::Xxh3;

/// The seed of the predecessor's file names.
const SEED: u64 = 42;

/// Where a key's bytes are within its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// A file (or object) of its own, named by the key.
    Whole,
    /// One block of a file that several keys share.
    Block {
        /// Names the file: XXH3-64 over the hex texts of its keys, joined by `|`.
        file: u64,
        /// The block's position in the file.
        index: u32,
    },
}

impl Part {
    /// Cuts `keys`, which one grant covers, into files of at most `keys_per_file` keys, and
    /// appends the part of each key to `out`.
    pub fn split(keys: &[i64], keys_per_file: u32, out: &mut Vec<Self>) {
        if keys_per_file <= 1 {
            out.extend(keys.iter().map(|_| Self::Whole));
            return;
        }
        out.reserve(keys.len());
        for keys in keys.chunks(keys_per_file as usize) {
            let file = file_name(keys);
            out.extend(
                (0u32..)
                    .zip(keys)
                    .map(|(index, _)| Self::Block { file, index }),
            );
        }
    }
}

fn file_name(keys: &[i64]) -> u64 {
    let mut hash = Xxh3::with_seed(SEED);
    for (index, key) in keys.iter().enumerate() {
        if index > 0 {
            hash.update(b"|");
        }
        let mut hex = [0; 16];
        hash.update(write_hex(&mut hex, key.cast_unsigned()));
    }
    hash.digest()
}

/// The hex digits of `number` without leading zeros, at the end of `buffer`.
pub(crate) fn write_hex(buffer: &mut [u8; 16], mut number: u64) -> &[u8] {
    let mut start = buffer.len();
    loop {
        start -= 1;
        // Four bits always name a digit.
        buffer[start] = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
        if number == 0 {
            return &buffer[start..];
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use xxhash_rust::xxh3::xxh3_64_with_seed;

    use super::*;

    #[test]
    fn keys_fill_one_file_after_the_other() {
        let mut parts = Vec::new();
        Part::split(&[1, -1, 16], 2, &mut parts);
        let first = xxh3_64_with_seed(b"1|ffffffffffffffff", SEED);
        let second = xxh3_64_with_seed(b"10", SEED);
        let block = |file, index| Part::Block { file, index };
        assert_eq!(parts, [block(first, 0), block(first, 1), block(second, 0)]);
    }

    #[test]
    fn one_key_per_file_needs_no_shared_file() {
        for keys_per_file in [0, 1] {
            let mut parts = Vec::new();
            Part::split(&[1, 2], keys_per_file, &mut parts);
            assert_eq!(parts, [Part::Whole; 2]);
        }
    }

    proptest! {
        #[test]
        fn hex_is_that_of_format(number: u64) {
            let mut buffer = [0; 16];
            let expected = format!("{number:x}");
            prop_assert_eq!(write_hex(&mut buffer, number), expected.as_bytes());
        }
    }
}
