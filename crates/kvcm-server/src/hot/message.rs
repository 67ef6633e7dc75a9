//! Reading a message whose bulk is block keys.

use kvcm_proto::meta;
use prost::{DecodeError, Message};

use super::numbers::{read_packed, read_varint};

/// A request of the protocol that names blocks.
pub(crate) trait Keyed: Message + Default {
    /// The list that field number `number` is, if it is one of keys or tokens.
    fn numbers(&mut self, number: u64) -> Option<&mut Vec<i64>>;
}

macro_rules! keyed {
    ($($request:ident { $($number:literal => $list:ident),* })*) => { $(
        impl Keyed for meta::$request {
            fn numbers(&mut self, _number: u64) -> Option<&mut Vec<i64>> {
                match _number {
                    $($number => Some(&mut self.$list),)*
                    _ => None,
                }
            }
        }
    )* };
}

keyed! {
    GetCacheLocationRequest { 4 => block_keys, 5 => token_ids }
    GetCacheLocationLenRequest { 4 => block_keys, 5 => token_ids }
    StartWriteCacheRequest { 3 => block_keys, 4 => token_ids }
    FinishWriteCacheRequest {}
}

/// Reads a message as the generated code does, only faster.
///
/// # Errors
/// Those of the generated code.
pub(crate) fn read<M: Keyed>(bytes: &[u8]) -> Result<M, DecodeError> {
    match read_well_formed(bytes) {
        Some(message) => Ok(message),
        // It knows what is wrong, or that nothing is.
        None => M::decode(bytes),
    }
}

/// Reads packed keys itself and leaves all between them to the generated code. None for what is
/// damaged or unusual.
fn read_well_formed<M: Keyed>(bytes: &[u8]) -> Option<M> {
    let mut message = M::default();
    let mut rest = bytes;
    // What the generated code has yet to read begins here.
    let mut others = bytes;
    while !rest.is_empty() {
        let before = rest;
        let key = read_varint(&mut rest)?;
        let length = match key & 7 {
            0 => {
                read_varint(&mut rest)?;
                continue;
            }
            1 => 8,
            2 => usize::try_from(read_varint(&mut rest)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (value, after) = rest.split_at_checked(length)?;
        rest = after;
        if key & 7 == 2 && message.numbers(key >> 3).is_some() {
            // First what comes before: values that stand alone may belong to the same list.
            let passed = others.len() - before.len();
            message.merge(&others[..passed]).ok()?;
            others = after;
            read_packed(value, message.numbers(key >> 3)?)?;
        }
    }
    message.merge(others).ok()?;
    Some(message)
}

#[cfg(test)]
mod tests {
    use kvcm_proto::meta::{BlockMask, BoolMasksType, GetCacheLocationRequest, block_mask::Info};
    use proptest::{collection::vec, prelude::*, sample::Index};

    use super::*;

    /// One field, or a piece of one, as bytes.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let number = prop_oneof![any::<i64>(), -3i64..300];
        let message = |request: GetCacheLocationRequest| request.encode_to_vec();
        let mask = prop_oneof![
            Just(None),
            any::<i32>().prop_map(|offset| Some(Info::Offset(offset))),
            vec(any::<bool>(), 0..9)
                .prop_map(|values| Some(Info::BoolMasks(BoolMasksType { values }))),
        ];
        prop_oneof![
            (vec(number, 0..30), any::<bool>()).prop_map(move |(numbers, are_keys)| {
                let (block_keys, token_ids) = match are_keys {
                    true => (numbers, Vec::new()),
                    false => (Vec::new(), numbers),
                };
                message(GetCacheLocationRequest {
                    block_keys,
                    token_ids,
                    ..Default::default()
                })
            }),
            (".{0,5}", ".{0,5}", any::<i32>(), any::<i32>()).prop_map(
                move |(trace_id, instance_id, query_type, sw_size)| {
                    message(GetCacheLocationRequest {
                        trace_id,
                        instance_id,
                        query_type,
                        sw_size,
                        ..Default::default()
                    })
                }
            ),
            (mask, vec(".{0,3}", 0..3)).prop_map(move |(info, location_spec_names)| {
                message(GetCacheLocationRequest {
                    block_mask: Some(BlockMask { info }),
                    location_spec_names,
                    ..Default::default()
                })
            }),
            // Keys one by one, unknown fields of every kind, groups, numbers of fields that are
            // too large, bytes that are nothing.
            any::<u8>().prop_map(|key| vec![0x20, key & 0x7f]),
            Just(vec![0x80, 0x3d, 1]),
            Just(vec![0x81, 0x3d, 1, 2, 3, 4, 5, 6, 7, 8]),
            Just(vec![0x82, 0x3d, 2, 1, 2]),
            Just(vec![0x85, 0x3d, 1, 2, 3, 4]),
            Just(vec![0x83, 0x3d, 0x84, 0x3d]),
            Just(vec![0xfa, 0xff, 0xff, 0xff, 0xff, 0x01, 1, 0]),
            vec(any::<u8>(), 0..6),
        ]
    }

    fn same(bytes: &[u8]) -> Result<(), TestCaseError> {
        let text = |read: Result<GetCacheLocationRequest, DecodeError>| match read {
            Ok(message) => format!("{message:?}"),
            Err(error) => format!("refused: {error}"),
        };
        prop_assert_eq!(
            text(read(bytes)),
            text(GetCacheLocationRequest::decode(bytes))
        );
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_message_is_read_as_the_generated_code_reads_it(pieces in vec(piece(), 0..8)) {
            same(&pieces.concat())?;
        }

        #[test]
        fn a_damaged_message_ends_as_with_the_generated_code(
            pieces in vec(piece(), 1..6), at: Index, byte: u8, cut: bool
        ) {
            let mut bytes = pieces.concat();
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                match cut {
                    true => bytes.truncate(at),
                    false => bytes[at] = byte,
                }
            }
            same(&bytes)?;
        }
    }

    #[test]
    fn ordinary_requests_take_the_short_way() {
        let request = GetCacheLocationRequest {
            trace_id: "t".to_owned(),
            instance_id: "i".to_owned(),
            query_type: 2,
            block_keys: vec![1, -1, i64::MIN],
            location_spec_names: vec!["tp0".to_owned()],
            ..Default::default()
        };
        let bytes = request.encode_to_vec();
        assert_eq!(read_well_formed(&bytes), Some(request));
    }
}
