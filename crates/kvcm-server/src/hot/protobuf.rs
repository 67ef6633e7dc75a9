//! Answers as protobuf.

use kvcm_cache::{Skipped, Uri, View};
use kvcm_proto::meta;
use prost::{Message, length_delimiter_len};

use super::{
    layout::{Entry, Layout},
    written::Form,
};
use crate::convert;

/// Locations as protobuf; they are field `LOCATIONS` of their answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Protobuf<const LOCATIONS: u8>;

/// The key of a field that has a length.
const fn field(number: u8) -> u8 {
    number << 3 | 2
}

/// Appends a length.
fn put_length(out: &mut Vec<u8>, length: usize) {
    // Vectors grow, so there is always room.
    let _infallible = prost::encode_length_delimiter(length, out);
}

/// Bytes of a text field with a number below 16; an empty text is not written.
fn text_length(length: usize) -> usize {
    match length {
        0 => 0,
        _ => 1 + length_delimiter_len(length) + length,
    }
}

/// Bytes of a URI whose middle has `hole` bytes.
fn uri_length(uri: &Uri<'_>, hole: usize) -> usize {
    let around = uri.before().into_iter().chain(uri.after());
    hole + around.map(<[u8]>::len).sum::<usize>()
}

impl<const LOCATIONS: u8> Entry for Protobuf<LOCATIONS> {
    fn lay_out(view: &View<'_>, layout: &mut Layout) {
        let hole = layout.hole();
        let spec_lengths = view.specs().map(|spec| {
            let uri = spec.uri().map_or(0, |uri| uri_length(&uri, hole));
            text_length(spec.name().len()) + text_length(uri)
        });
        // Type and number of specs; the fields before the list of specs.
        let mut head = Vec::with_capacity(16);
        let numbers = meta::CacheLocation {
            r#type: view
                .storage_type()
                .map_or(0, kvcm_registry::StorageType::number),
            spec_size: i32::try_from(view.spec_count()).unwrap_or(i32::MAX),
            location_specs: Vec::new(),
        };
        let _infallible = numbers.encode(&mut head);
        let specs: usize = spec_lengths
            .map(|length| 1 + length_delimiter_len(length) + length)
            .sum();
        layout.bytes.push(field(LOCATIONS));
        put_length(&mut layout.bytes, head.len() + specs);
        layout.bytes.extend_from_slice(&head);
        for spec in view.specs() {
            let uri = spec.uri();
            let length = uri.as_ref().map_or(0, |uri| uri_length(uri, hole));
            let bytes = &mut layout.bytes;
            bytes.push(field(3));
            put_length(bytes, text_length(spec.name().len()) + text_length(length));
            if !spec.name().is_empty() {
                bytes.push(field(1));
                put_length(bytes, spec.name().len());
                bytes.extend_from_slice(spec.name().as_bytes());
            }
            if let Some(uri) = uri {
                bytes.push(field(2));
                put_length(bytes, length);
                bytes.extend_from_slice(&uri.before().concat());
                layout.leave();
                layout.bytes.extend_from_slice(&uri.after().concat());
            }
        }
    }
}

impl<const LOCATIONS: u8> Form for Protobuf<LOCATIONS> {
    fn header(header: &meta::CommonResponseHeader) -> Vec<u8> {
        let length = header.encoded_len();
        let mut bytes = Vec::with_capacity(length + 4);
        bytes.push(field(1));
        put_length(&mut bytes, length);
        let _infallible = header.encode(&mut bytes);
        bytes
    }

    fn started(session_id: &str, skipped: Skipped, out: &mut Vec<u8>) {
        let started = meta::StartWriteCacheResponse {
            write_session_id: session_id.to_owned(),
            block_mask: Some(convert::skipped(skipped)),
            ..Default::default()
        };
        let _infallible = started.encode(out);
    }
}
