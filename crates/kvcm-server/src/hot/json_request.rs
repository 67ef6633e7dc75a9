//! Hot requests from JSON.

use kvcm_proto::{
    json::{Error, from_json},
    meta::{self, BlockMask, BoolMasksType, block_mask::Info},
};
use prost::{Message, Name};

use super::json_reader::Reader;

/// A request that ordinary JSON is read into directly.
pub(crate) trait FromJson: Message + Name + Default {
    /// The fields by their names; the number of a name is the same in both cases.
    const NAMES: &'static [(&'static str, &'static str)];

    /// Reads the value of a field by its number in the list of names.
    fn read(&mut self, field: usize, value: &mut Value<'_, '_>) -> Option<()>;
}

/// A value that is about to be read.
pub(crate) struct Value<'a, 'b>(&'a mut Reader<'b>);

/// Reads a request as the generic mapping does, only faster.
///
/// # Errors
/// Those of the generic mapping.
pub(crate) fn read_json<M: FromJson>(body: &[u8]) -> Result<M, Error> {
    match read_ordinary(body) {
        Some(message) => Ok(message),
        None => from_json(body),
    }
}

/// None for JSON that is wrong or unusual.
fn read_ordinary<M: FromJson>(body: &[u8]) -> Option<M> {
    let mut message = M::default();
    let mut reader = Reader::new(body);
    let mut seen = 0_u32;
    reader.object(|reader, name| {
        let names = M::NAMES.iter();
        let field = names
            .clone()
            .position(|(snake, camel)| *snake == name || *camel == name)?;
        // What comes twice is for the generic mapping to judge.
        let bit = 1 << field;
        if seen & bit != 0 {
            return None;
        }
        seen |= bit;
        message.read(field, &mut Value(reader))
    })?;
    reader.end()?;
    Some(message)
}

impl Value<'_, '_> {
    fn text(&mut self, to: &mut String) -> Option<()> {
        to.push_str(self.0.text()?);
        Some(())
    }

    fn texts(&mut self, to: &mut Vec<String>) -> Option<()> {
        self.0.array(|reader| {
            to.push(reader.text()?.to_owned());
            Some(())
        })
    }

    /// A list that nobody fills, but that a printer of all fields writes.
    fn nothing<T>(&mut self, _to: &mut Vec<T>) -> Option<()> {
        self.0.array(|_| None)
    }

    fn number(&mut self, to: &mut i32) -> Option<()> {
        *to = self.0.small()?;
        Some(())
    }

    fn numbers(&mut self, to: &mut Vec<i64>) -> Option<()> {
        self.0.array(|reader| {
            to.push(reader.integer()?);
            Some(())
        })
    }

    fn query_type(&mut self, to: &mut i32) -> Option<()> {
        if !self.0.is_text() {
            return self.number(to);
        }
        // An unknown name is not an error, and not for here.
        *to = meta::QueryType::from_str_name(self.0.text()?)?.into();
        Some(())
    }

    fn mask(&mut self, to: &mut Option<BlockMask>) -> Option<()> {
        let mut info = None;
        self.0.object(|reader, name| {
            // One of the two.
            if info.is_some() {
                return None;
            }
            info = Some(match name {
                "offset" => Info::Offset(reader.small()?),
                "bool_masks" | "boolMasks" => Info::BoolMasks(bools(reader)?),
                _ => return None,
            });
            Some(())
        })?;
        *to = Some(BlockMask { info });
        Some(())
    }
}

fn bools(reader: &mut Reader<'_>) -> Option<BoolMasksType> {
    let mut masks = None;
    reader.object(|reader, name| {
        if name != "values" || masks.is_some() {
            return None;
        }
        let mut values = Vec::new();
        reader.array(|reader| {
            values.push(reader.boolean()?);
            Some(())
        })?;
        masks = Some(values);
        Some(())
    })?;
    Some(BoolMasksType {
        values: masks.unwrap_or_default(),
    })
}

/// The fields of a request, with the method of [`Value`] that reads each.
macro_rules! from_json {
    ($($request:ident { $($snake:literal $camel:literal $field:ident $read:ident;)* })*) => { $(
        impl FromJson for meta::$request {
            const NAMES: &'static [(&'static str, &'static str)] = &[$(($snake, $camel)),*];

            fn read(&mut self, field: usize, value: &mut Value<'_, '_>) -> Option<()> {
                let mut number = 0..;
                $(
                    if number.next() == Some(field) {
                        return value.$read(&mut self.$field);
                    }
                )*
                None
            }
        }
    )* };
}

from_json! {
    GetCacheLocationRequest {
        "block_keys" "blockKeys" block_keys numbers;
        "trace_id" "traceId" trace_id text;
        "instance_id" "instanceId" instance_id text;
        "query_type" "queryType" query_type query_type;
        "token_ids" "tokenIds" token_ids numbers;
        "block_mask" "blockMask" block_mask mask;
        "sw_size" "swSize" sw_size number;
        "location_spec_names" "locationSpecNames" location_spec_names texts;
    }
    GetCacheLocationLenRequest {
        "block_keys" "blockKeys" block_keys numbers;
        "trace_id" "traceId" trace_id text;
        "instance_id" "instanceId" instance_id text;
        "query_type" "queryType" query_type query_type;
        "token_ids" "tokenIds" token_ids numbers;
        "sw_size" "swSize" sw_size number;
    }
    StartWriteCacheRequest {
        "block_keys" "blockKeys" block_keys numbers;
        "trace_id" "traceId" trace_id text;
        "instance_id" "instanceId" instance_id text;
        "token_ids" "tokenIds" token_ids numbers;
        "location_spec_group_names" "locationSpecGroupNames" location_spec_group_names texts;
        "write_timeout_seconds" "writeTimeoutSeconds" write_timeout_seconds number;
    }
    FinishWriteCacheRequest {
        "trace_id" "traceId" trace_id text;
        "instance_id" "instanceId" instance_id text;
        "write_session_id" "writeSessionId" write_session_id text;
        "success_blocks" "successBlocks" success_blocks mask;
        "locations" "locations" locations nothing;
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, option, prelude::*, sample::Index};

    use super::*;

    fn white() -> impl Strategy<Value = &'static str> {
        prop_oneof![4 => Just(""), 1 => Just(" "), 1 => Just("\n\t\r ")]
    }

    fn integer() -> impl Strategy<Value = String> {
        let number = prop_oneof![
            any::<i64>(),
            -3i64..300,
            Just(i64::MIN),
            any::<i32>().prop_map(i64::from),
        ];
        let odd = prop_oneof![
            Just("9223372036854775808".to_owned()),
            Just("-0".to_owned()),
            Just("007".to_owned()),
            Just("1.0".to_owned()),
            Just("1e2".to_owned()),
            Just("null".to_owned()),
            Just("true".to_owned()),
            Just("[]".to_owned()),
        ];
        prop_oneof![
            20 => (number, any::<bool>()).prop_map(|(number, is_text)| match is_text {
                true => format!("\"{number}\""),
                false => number.to_string(),
            }),
            1 => odd.clone(),
            1 => odd.prop_map(|odd| format!("\"{odd}\"")),
        ]
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            10 => "[a-zü_0-9]{0,8}",
            1 => Just("a\\n\\u00fc".to_owned()),
            1 => Just("\u{1}".to_owned()),
            1 => Just("QT_PREFIX_MATCH".to_owned()),
        ]
        .prop_map(|text| format!("\"{text}\""))
    }

    fn list(of: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
        (vec((white(), of, white()), 0..8), white()).prop_map(|(values, inner)| {
            let values: Vec<_> = values
                .iter()
                .map(|(a, of, b)| format!("{a}{of}{b}"))
                .collect();
            format!("[{inner}{}]", values.join(","))
        })
    }

    fn member(
        name: impl Strategy<Value = &'static str>,
        value: impl Strategy<Value = String>,
    ) -> impl Strategy<Value = String> {
        (name, white(), white(), value, white())
            .prop_map(|(name, a, b, value, c)| format!("{a}\"{name}\"{b}:{value}{c}"))
    }

    fn mask() -> impl Strategy<Value = String> {
        let values = list(prop_oneof![
            4 => Just("true".to_owned()), 4 => Just("false".to_owned()), 1 => Just("1".to_owned()),
        ]);
        let bools = member(prop_oneof![9 => Just("values"), 1 => Just("x")], values);
        let bools = vec(bools, 0..2).prop_map(|members| format!("{{{}}}", members.join(",")));
        let one = prop_oneof![
            member(Just("offset"), integer()),
            member(prop_oneof![Just("bool_masks"), Just("boolMasks")], bools),
            member(Just("y"), integer()),
        ];
        vec(one, 0..3).prop_map(|members| format!("{{{}}}", members.join(",")))
    }

    /// Objects that are mostly right, with a few values of a wrong kind.
    fn object(names: &'static [(&'static str, &'static str)]) -> impl Strategy<Value = String> {
        let one =
            (any::<Index>(), any::<bool>(), 0u8..12).prop_flat_map(move |(at, snake, odd)| {
                let (name, camel) = names[at.index(names.len())];
                let value = match (odd, name) {
                    (0, _) => prop_oneof![integer(), text(), mask(), list(integer())].boxed(),
                    (_, "block_keys" | "token_ids") => list(integer()).boxed(),
                    (_, "query_type" | "sw_size" | "write_timeout_seconds") => {
                        prop_oneof![integer(), text(), (0i32..6).prop_map(|n| n.to_string())]
                            .boxed()
                    }
                    (_, "block_mask" | "success_blocks") => mask().boxed(),
                    (2, "locations") => Just("[{}]".to_owned()).boxed(),
                    (_, "locations") => list(Just(String::new())).boxed(),
                    (_, "location_spec_names" | "location_spec_group_names") => {
                        list(text()).boxed()
                    }
                    _ => text().boxed(),
                };
                let name = match (odd, snake) {
                    (1, _) => "unknown",
                    (_, true) => name,
                    (_, false) => camel,
                };
                member(Just(name), value)
            });
        (
            vec(one, 0..7),
            white(),
            option::weighted(0.05, any::<char>()),
        )
            .prop_map(|(members, white, after)| {
                let after = after.map(String::from).unwrap_or_default();
                format!("{white}{{{}}}{white}{after}", members.join(","))
            })
    }

    fn same<M: FromJson + std::fmt::Debug>(body: &[u8]) -> Result<bool, TestCaseError> {
        let text = |read: Result<M, Error>| match read {
            Ok(message) => format!("{message:?}"),
            Err(error) => format!("refused: {error}"),
        };
        prop_assert_eq!(text(read_json(body)), text(from_json(body)));
        Ok(read_ordinary::<M>(body).is_some())
    }

    fn damaged(mut body: Vec<u8>, at: Index, byte: Option<u8>) -> Vec<u8> {
        if !body.is_empty() {
            let at = at.index(body.len());
            match byte {
                Some(byte) => body[at] = byte,
                None => body.truncate(at),
            }
        }
        body
    }

    macro_rules! reads_as_the_generic_mapping {
        ($($test:ident $request:ident;)*) => { $(
            proptest! {
                #![proptest_config(ProptestConfig::with_cases(1000))]

                #[test]
                fn $test(
                    body in object(meta::$request::NAMES), at: Index,
                    byte in option::of(prop_oneof![any::<u8>(), Just(b'"'), Just(b','), 0x30u8..0x3a])
                ) {
                    same::<meta::$request>(body.as_bytes())?;
                    same::<meta::$request>(&damaged(body.into_bytes(), at, byte))?;
                }
            }
        )* };
    }

    reads_as_the_generic_mapping! {
        lookups_are_read_as_the_generic_mapping_reads_them GetCacheLocationRequest;
        counts_are_read_as_the_generic_mapping_reads_them GetCacheLocationLenRequest;
        starts_are_read_as_the_generic_mapping_reads_them StartWriteCacheRequest;
        finishes_are_read_as_the_generic_mapping_reads_them FinishWriteCacheRequest;
    }

    /// Printers of all fields, and the generic mapping is one, are no reason for the long way.
    #[test]
    fn a_request_that_is_printed_with_all_its_fields_takes_the_short_way() {
        fn short<M: FromJson + std::fmt::Debug>(message: &M) {
            let text = kvcm_proto::json::to_json(message).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(same::<M>(text.as_bytes()).unwrap(), "{text}");
        }
        let mask = BlockMask {
            info: Some(Info::Offset(128)),
        };
        short(&meta::FinishWriteCacheRequest {
            success_blocks: Some(mask),
            ..Default::default()
        });
        short(&meta::StartWriteCacheRequest {
            block_keys: vec![i64::MIN, 7],
            ..Default::default()
        });
        short(&meta::GetCacheLocationRequest {
            query_type: meta::QueryType::QtPrefixMatch.into(),
            ..Default::default()
        });
        short(&meta::GetCacheLocationLenRequest::default());
    }

    #[test]
    fn ordinary_requests_take_the_short_way() {
        let lookup = br#" {"trace_id": "t", "instance_id":"i", "query_type":"QT_PREFIX_MATCH",
            "blockKeys":["-1", 2], "block_mask":{"bool_masks":{"values":[true,false]}},
            "location_spec_names":["tp0"], "sw_size": 3}"#;
        assert!(same::<meta::GetCacheLocationRequest>(lookup).unwrap());
        let finish = br#"{"instance_id":"i","write_session_id":"s","success_blocks":{"offset":2},
            "locations":[ ]}"#;
        assert!(same::<meta::FinishWriteCacheRequest>(finish).unwrap());
        let start = br#"{"instance_id":"i","block_keys":[],"write_timeout_seconds":"60"}"#;
        assert!(same::<meta::StartWriteCacheRequest>(start).unwrap());
        let len = br#"{"instance_id":"i","query_type":2,"token_ids":[1]}"#;
        assert!(same::<meta::GetCacheLocationLenRequest>(len).unwrap());
        assert!(!same::<meta::GetCacheLocationRequest>(br#"{"instance_id":null}"#).unwrap());
    }
}
