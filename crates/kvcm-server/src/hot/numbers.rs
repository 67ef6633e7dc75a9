//! Packed varints.

/// A byte of a varint that is not its last has it set.
const MORE: u64 = 0x8080_8080_8080_8080;

/// Appends packed `int64` values to `numbers`; none when they are damaged, and then nobody knows
/// what was appended.
///
/// Block keys are hashes, so most take nine or ten bytes, half of them each: the way for those has
/// no branch that depends on which.
pub(super) fn read_packed(mut bytes: &[u8], numbers: &mut Vec<i64>) -> Option<()> {
    // Enough for hashes. To count the values takes as long as to read them.
    numbers.reserve(bytes.len() / 9 + 1);
    while let Some(window) = bytes.first_chunk::<10>() {
        let [w0, w1, w2, w3, w4, w5, w6, w7, ninth, tenth] = *window;
        let word = u64::from_le_bytes([w0, w1, w2, w3, w4, w5, w6, w7]);
        let ends = !word & MORE;
        let length = if ends == 0 {
            let has_tenth = ninth >> 7;
            if has_tenth & (tenth >> 1) != 0 || has_tenth == 1 && tenth > 1 {
                return None;
            }
            let high = u64::from(ninth & 0x7f) << 56 | u64::from(tenth & has_tenth) << 63;
            numbers.push((squeeze(word) | high).cast_signed());
            9 + usize::from(has_tenth)
        } else {
            let bits = ends.trailing_zeros() + 1;
            numbers.push(squeeze(word & (u64::MAX >> (64 - bits))).cast_signed());
            bits as usize / 8
        };
        bytes = &bytes[length..];
    }
    while !bytes.is_empty() {
        numbers.push(read_varint(&mut bytes)?.cast_signed());
    }
    Some(())
}

/// Reads one varint from the front of `bytes`.
pub(super) fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if *byte < 0x80 {
            // The tenth has room for one bit.
            let fits = at < 9 || *byte < 2;
            *bytes = &bytes[at + 1..];
            return fits.then_some(value);
        }
    }
    None
}

/// Puts the seven lower bits of each byte together.
fn squeeze(word: u64) -> u64 {
    let word = (word & 0x007f_007f_007f_007f) | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let word = (word & 0x0000_3fff_0000_3fff) | (word & 0x3fff_0000_3fff_0000) >> 2;
    (word & 0x0fff_ffff) | (word & 0x0fff_ffff_0000_0000) >> 4
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use prost::Message;

    use super::*;

    /// What the generated code reads.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Packed {
        #[prost(int64, repeated, tag = "1")]
        numbers: Vec<i64>,
    }

    fn oracle(bytes: &[u8]) -> Option<Vec<i64>> {
        let mut message = vec![0x0a];
        prost::encode_length_delimiter(bytes.len(), &mut message).unwrap();
        message.extend_from_slice(bytes);
        Some(Packed::decode(&message[..]).ok()?.numbers)
    }

    fn ours(bytes: &[u8]) -> Option<Vec<i64>> {
        let mut numbers = Vec::new();
        read_packed(bytes, &mut numbers)?;
        Some(numbers)
    }

    fn number() -> impl Strategy<Value = i64> {
        (any::<i64>(), 0u32..64).prop_map(|(number, shift)| number >> shift)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn all_numbers_are_read(numbers in vec(number(), 0..40)) {
            let message = Packed { numbers: numbers.clone() }.encode_to_vec();
            let mut rest = &message[message.len().min(1)..];
            let length = match rest { [] => 0, _ => read_varint(&mut rest).unwrap() };
            prop_assert_eq!(length, rest.len() as u64);
            prop_assert_eq!(ours(rest), Some(numbers));
        }

        #[test]
        fn any_bytes_are_read_or_refused_as_the_generated_code_does(
            bytes in vec(prop_oneof![any::<u8>(), 0x80u8..=0xff, 0u8..4], 0..60)
        ) {
            prop_assert_eq!(ours(&bytes), oracle(&bytes));
        }
    }

    #[test]
    fn the_last_byte_of_ten_has_room_for_one_bit() {
        let mut bytes = [0xff; 10];
        for (tenth, expected) in [
            (1, Some(vec![-1])),
            (2, None),
            (0x80, None),
            (0, Some(vec![i64::MAX])),
        ] {
            bytes[9] = tenth;
            assert_eq!(ours(&bytes), expected, "{tenth}");
            assert_eq!(oracle(&bytes), expected, "{tenth}");
        }
    }
}
