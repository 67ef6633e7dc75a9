//! Where blocks lie: a view over the bytes of a reply.
//!
//! A reply may hold thousands of URIs. They are checked once, without a copy, and read in place.

use std::ops::Range;

use bytes::Bytes;

use crate::{
    reply::CallMeta,
    wire::{Fields, Malformed, Value},
};

/// The locations of a reply, in its order.
#[derive(Clone, Debug)]
pub struct Locations {
    body: Bytes,
    spans: Vec<Range<u32>>,
    hits: usize,
    meta: CallMeta,
}

/// Where one block lies; a placeholder when it is not stored.
#[derive(Clone, Copy, Debug)]
pub struct Location<'a> {
    message: &'a [u8],
}

/// One piece of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spec<'a> {
    /// The piece's name, as registered with the instance.
    pub name: &'a str,
    /// Where its bytes are; opaque, empty when it is not stored.
    pub uri: &'a str,
}

/// What kind of store holds a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StorageKind {
    /// None: the block is not stored.
    None,
    /// A 3FS file system.
    ThreeFs,
    /// A Mooncake store.
    Mooncake,
    /// A Tair memory pool.
    TairMemPool,
    /// Files on NFS or a local directory.
    Nfs,
    /// 3FS behind a service of its own.
    VcnsThreeFs,
    /// Another kind, by its number in the protocol's `StorageType`.
    Other(i32),
}

impl Locations {
    /// Takes the field `number` of a response, which lists locations.
    pub(crate) fn read(body: Bytes, number: u64, meta: CallMeta) -> Result<Self, Malformed> {
        let base = body.as_ptr() as usize;
        let mut spans = Vec::new();
        let mut hits = 0;
        for field in Fields::of(&body) {
            let (field_number, value) = field?;
            if field_number != number {
                continue;
            }
            let Value::Bytes(message) = value else {
                return Err(Malformed);
            };
            hits += usize::from(check(message)?);
            let start = offset(message.as_ptr() as usize - base)?;
            spans.push(start..start + offset(message.len())?);
        }
        Ok(Self {
            body,
            spans,
            hits,
            meta,
        })
    }

    /// How many entries there are, placeholders included.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// How many entries are stored blocks.
    pub fn hits(&self) -> usize {
        self.hits
    }

    /// The entry at `index`.
    pub fn get(&self, index: usize) -> Option<Location<'_>> {
        let span = self.spans.get(index)?;
        let message = self.body.get(span.start as usize..span.end as usize)?;
        Some(Location { message })
    }

    /// All entries, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Location<'_>> {
        self.spans.iter().map(|span| Location {
            message: &self.body[span.start as usize..span.end as usize],
        })
    }

    /// Who answered, and what it took.
    pub fn meta(&self) -> &CallMeta {
        &self.meta
    }
}

impl<'a> Location<'a> {
    /// What kind of store holds it.
    pub fn storage(self) -> StorageKind {
        let kind = self.fields().find_map(|field| match field {
            (1, Value::Varint(kind)) => Some(kind),
            _ => None,
        });
        StorageKind::from_wire(kind.unwrap_or(0))
    }

    /// The pieces, in the order of the reply.
    pub fn specs(self) -> impl Iterator<Item = Spec<'a>> {
        self.fields().filter_map(|field| match field {
            (3, Value::Bytes(spec)) => read_spec(spec).ok(),
            _ => None,
        })
    }

    /// The URI of the piece `name`, when it is stored.
    pub fn uri(self, name: &str) -> Option<&'a str> {
        self.specs()
            .find(|spec| spec.name == name && !spec.uri.is_empty())
            .map(|spec| spec.uri)
    }

    /// Whether the block is stored: at least one piece has a URI.
    pub fn is_stored(self) -> bool {
        self.specs().any(|spec| !spec.uri.is_empty())
    }

    fn fields(self) -> impl Iterator<Item = (u64, Value<'a>)> {
        // Checked when the reply was read.
        Fields::of(self.message).map_while(Result::ok)
    }
}

impl StorageKind {
    fn from_wire(number: u64) -> Self {
        match number {
            0 => Self::None,
            1 => Self::ThreeFs,
            2 => Self::Mooncake,
            3 => Self::TairMemPool,
            4 => Self::Nfs,
            5 => Self::VcnsThreeFs,
            // Enums are 32 bits wide on the wire, sign-extended.
            other => Self::Other(other as i32),
        }
    }
}

/// Walks one location; tells whether it is stored.
fn check(message: &[u8]) -> Result<bool, Malformed> {
    let mut stored = false;
    for field in Fields::of(message) {
        if let (3, Value::Bytes(spec)) = field? {
            stored |= !read_spec(spec)?.uri.is_empty();
        }
    }
    Ok(stored)
}

fn read_spec(message: &[u8]) -> Result<Spec<'_>, Malformed> {
    let mut spec = Spec { name: "", uri: "" };
    for field in Fields::of(message) {
        let (number, value) = field?;
        if let (1 | 2, Value::Bytes(bytes)) = (number, value) {
            let text = std::str::from_utf8(bytes).map_err(|_| Malformed)?;
            if number == 1 {
                spec.name = text;
            } else {
                spec.uri = text;
            }
        }
    }
    Ok(spec)
}

fn offset(bytes: usize) -> Result<u32, Malformed> {
    u32::try_from(bytes).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kvcm_proto::meta::{CacheLocation, GetCacheLocationResponse, LocationSpec};
    use prost::Message;

    use super::*;

    fn meta() -> CallMeta {
        CallMeta {
            epoch: None,
            node: "n:1".into(),
            cluster_id: None,
            attempts: 1,
            elapsed: Duration::ZERO,
            request_id: String::new(),
            history: [].into(),
        }
    }

    fn location(kind: i32, specs: &[(&str, &str)]) -> CacheLocation {
        CacheLocation {
            r#type: kind,
            spec_size: specs.len() as i32,
            location_specs: specs
                .iter()
                .map(|(name, uri)| LocationSpec {
                    name: (*name).to_owned(),
                    uri: (*uri).to_owned(),
                })
                .collect(),
        }
    }

    fn response() -> GetCacheLocationResponse {
        GetCacheLocationResponse {
            header: None,
            locations: vec![
                location(4, &[("tp0", "file://a/b?size=1"), ("tp1", "file://a/c")]),
                location(0, &[("tp0", ""), ("tp1", "")]),
                location(0, &[]),
                location(-3, &[("tp0", "x://")]),
            ],
        }
    }

    #[test]
    fn the_view_says_what_the_generated_types_say() {
        let response = response();
        let view = Locations::read(response.encode_to_vec().into(), 2, meta()).unwrap();
        assert_eq!((view.len(), view.hits(), view.iter().len()), (4, 2, 4));
        for (index, expected) in response.locations.iter().enumerate() {
            let specs: Vec<_> = view.get(index).unwrap().specs().collect();
            let expected: Vec<_> = expected
                .location_specs
                .iter()
                .map(|spec| Spec {
                    name: &spec.name,
                    uri: &spec.uri,
                })
                .collect();
            assert_eq!(specs, expected);
        }
        let first = view.get(0).unwrap();
        assert_eq!(first.storage(), StorageKind::Nfs);
        assert_eq!(first.uri("tp1"), Some("file://a/c"));
        assert_eq!(first.uri("tp2"), None);
        let placeholder = view.get(1).unwrap();
        assert!(!placeholder.is_stored());
        assert_eq!(placeholder.uri("tp0"), None);
        assert_eq!(view.get(3).unwrap().storage(), StorageKind::Other(-3));
        assert!(view.get(4).is_none());
    }

    #[test]
    fn any_cut_of_a_reply_is_read_or_refused_and_never_panics() {
        let bytes = response().encode_to_vec();
        for len in 0..bytes.len() {
            let cut = Bytes::copy_from_slice(&bytes[..len]);
            if let Ok(view) = Locations::read(cut, 2, meta()) {
                assert_eq!(view.iter().filter(|at| at.is_stored()).count(), view.hits());
            }
        }
    }

    #[test]
    fn text_that_is_not_utf8_is_refused() {
        let mut bytes = response().encode_to_vec();
        let at = bytes.windows(4).position(|four| four == b"file").unwrap();
        bytes[at] = 0xff;
        assert!(Locations::read(bytes.into(), 2, meta()).is_err());
    }
}
