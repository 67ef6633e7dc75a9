//! Messages to JSON.

use std::ops::RangeInclusive;

use prost::{Message, Name};
use prost_reflect::{DynamicMessage, Kind, ReflectMessage as _, Value};
use serde::ser::{Error as _, Serialize, SerializeMap as _, Serializer};

use super::{Error, pool};

/// Numbers of this project's own fields; clients that do not know them see none while unset.
const EXTENSIONS: RangeInclusive<u32> = 101..=149;

/// Lists that the protocol gained after its first public version. Old clients see what they always
/// saw; a scalar of the kind is `optional`, which a list cannot be.
const LATER_LISTS: [&str; 1] =
    ["kv_cache_manager.proto.admin.InstanceGroup.event_report_storage_candidates"];

/// Prints a message; see the module for the form.
///
/// # Errors
/// [`Error::UnknownMessage`] for a type from elsewhere; [`Error::Mapping`] for a kind of field that
/// the mapping does not know, of which the protocol has none.
pub fn to_json<M>(message: &M) -> Result<Vec<u8>, Error>
where
    M: Message + Name,
{
    let mut reflected = DynamicMessage::new(pool::descriptor::<M>()?);
    let mapping = |source| Error::Mapping {
        name: M::full_name(),
        source,
    };
    reflected
        .transcode_from(message)
        .map_err(|error| mapping(Box::new(error)))?;
    serde_json::to_vec(&Fields(&reflected)).map_err(|error| mapping(Box::new(error)))
}

/// A message as a JSON object.
struct Fields<'a>(&'a DynamicMessage);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let descriptor = self.0.descriptor();
        if descriptor.package_name() == "google.protobuf" {
            // Wrappers have forms of their own.
            return self.0.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        for field in descriptor.fields() {
            let hidden = field.supports_presence()
                || EXTENSIONS.contains(&field.number())
                || LATER_LISTS.contains(&field.full_name());
            if hidden && !self.0.has_field(&field) {
                continue;
            }
            let value = self.0.get_field(&field);
            map.serialize_entry(field.name(), &Typed(&value, &field.kind()))?;
        }
        map.end()
    }
}

/// A value with the kind of its field, which names enums.
struct Typed<'a>(&'a Value, &'a Kind);

impl Serialize for Typed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(value, kind) = self;
        match (value, kind) {
            (Value::Bool(value), _) => serializer.serialize_bool(*value),
            (Value::I32(value), _) => serializer.serialize_i32(*value),
            (Value::U32(value), _) => serializer.serialize_u32(*value),
            // A JSON number is a double to many clients: it would lose the low bits of block keys.
            (Value::I64(value), _) => serializer.collect_str(value),
            (Value::U64(value), _) => serializer.collect_str(value),
            (Value::F64(value), _) if value.is_finite() => serializer.serialize_f64(*value),
            (Value::F64(value), _) => serializer.serialize_str(match value {
                value if value.is_nan() => "NaN",
                value if value.is_sign_positive() => "Infinity",
                _ => "-Infinity",
            }),
            (Value::String(value), _) => serializer.serialize_str(value),
            (Value::EnumNumber(number), Kind::Enum(kind)) => match kind.get_value(*number) {
                Some(value) => serializer.serialize_str(value.name()),
                None => serializer.serialize_i32(*number),
            },
            (Value::Message(message), _) => Fields(message).serialize(serializer),
            (Value::List(values), kind) => {
                serializer.collect_seq(values.iter().map(|value| Typed(value, kind)))
            }
            _ => Err(S::Error::custom(format!("a field of kind {kind:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_field_that_the_protocol_has_can_be_printed() {
        for message in pool::POOL.all_messages() {
            if message.package_name() == "google.protobuf" {
                continue;
            }
            for field in message.fields() {
                let known = !matches!(field.kind(), Kind::Bytes | Kind::Float) && !field.is_map();
                assert!(known, "{}", field.full_name());
            }
        }
    }
}
