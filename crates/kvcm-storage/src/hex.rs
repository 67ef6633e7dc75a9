//! Hexadecimal digits, all of a number at once.

const LOW: u64 = 0x0f0f_0f0f_0f0f_0f0f;
const ONES: u64 = 0x0101_0101_0101_0101;

/// The 16 digits of `number`, in lower case.
#[inline]
pub(crate) fn digits(number: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    digits[..8].copy_from_slice(&eight(number >> 32));
    digits[8..].copy_from_slice(&eight(number & 0xffff_ffff));
    digits
}

/// The 16 hexadecimal digits of a key. Places are named by the last
/// [`key_length`] of them.
#[inline]
pub fn key_digits(key: i64) -> [u8; 16] {
    digits(key.cast_unsigned())
}

/// How many digits a key has without the zeros in front, at least one.
#[inline]
pub fn key_length(key: i64) -> usize {
    16 - leading_zeros(key.cast_unsigned())
}

/// How many of the 16 digits are zeros in front; the last digit never counts.
#[inline]
pub(crate) fn leading_zeros(number: u64) -> usize {
    (number | 1).leading_zeros() as usize / 4
}

/// The digits of the lower half of `number`; the upper half is zero.
#[inline]
fn eight(number: u64) -> [u8; 8] {
    // One digit in each byte, the lowest in the lowest.
    let spread = (number | number << 16) & 0x0000_ffff_0000_ffff;
    let spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    let spread = (spread | spread << 4) & LOW;
    // One in each byte whose digit is a letter, which stand 39 further than `9`.
    let letters = ((spread + 6 * ONES) >> 4) & ONES;
    (spread + u64::from(b'0') * ONES + 39 * letters).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn digits_are_those_of_format(number: u64, shift in 0u32..64) {
            let number = number >> shift;
            let text = digits(number);
            let expected = format!("{number:016x}");
            prop_assert_eq!(&text[..], expected.as_bytes());
            let expected = format!("{number:x}");
            prop_assert_eq!(&text[leading_zeros(number)..], expected.as_bytes());
        }
    }

    #[test]
    fn zero_has_one_digit() {
        assert_eq!(&digits(0)[leading_zeros(0)..], b"0");
    }
}
