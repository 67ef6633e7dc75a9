//! Which file of a grant a key is in.

/// Where a key's bytes are within its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// A file (or object) of its own, named by the key.
    Whole,
    /// One block of a file that several keys share.
    Block {
        /// Names the file among those of its grant.
        file: u64,
        /// The block's position in the file.
        index: u32,
    },
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

    use super::*;

    proptest! {
        #[test]
        fn hex_is_that_of_format(number: u64) {
            let mut buffer = [0; 16];
            let expected = format!("{number:x}");
            prop_assert_eq!(write_hex(&mut buffer, number), expected.as_bytes());
        }
    }
}
