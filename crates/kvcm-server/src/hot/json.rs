//! Answers as JSON text.

use std::{io::Write as _, marker::PhantomData};

use bytes::Bytes;
use kvcm_cache::{Skipped, View};
use kvcm_proto::{
    json::to_json,
    meta::{self, CommonResponseHeader, ErrorCode},
};

use super::{
    layout::{Entry, Layout},
    written::{Form, ROOM, Written},
};
use crate::convert;

/// Answers as the generic mapping prints them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Json<T>(PhantomData<T>);

/// Which answer it is.
pub(crate) trait Text {
    /// What stands between the header and the end of an answer that says nothing else.
    const EMPTY: &str;
}

impl Text for meta::GetCacheLocationResponse {
    const EMPTY: &str = "\"locations\":[]}";
}

impl Text for meta::StartWriteCacheResponse {
    const EMPTY: &str = "\"write_session_id\":\"\",\"locations\":[]}";
}

/// Appends a text in quotes.
fn put_text(out: &mut Vec<u8>, text: &str) {
    // Vectors grow, so there is always room, and a text always has a JSON form.
    let _infallible = serde_json::to_writer(out, text);
}

/// Appends a piece of a text, without quotes.
fn put_piece(out: &mut Vec<u8>, piece: &[u8]) {
    let start = out.len();
    put_text(out, &String::from_utf8_lossy(piece));
    out.pop();
    out.remove(start);
}

impl<T: Text> Entry for Json<T> {
    /// Each entry ends with a comma; that of the last one is taken back.
    fn lay_out(view: &View<'_>, layout: &mut Layout) {
        let number = view
            .storage_type()
            .map_or(0, kvcm_registry::StorageType::number);
        let out = &mut layout.bytes;
        out.extend_from_slice(b"{\"type\":");
        match meta::StorageType::try_from(number) {
            Ok(kind) => put_text(out, kind.as_str_name()),
            Err(_) => out.extend_from_slice(number.to_string().as_bytes()),
        }
        let count = view.spec_count();
        let _infallible = write!(out, ",\"spec_size\":{count},\"location_specs\":[");
        for (at, spec) in view.specs().enumerate() {
            let out = &mut layout.bytes;
            out.extend_from_slice(if at > 0 {
                b",{\"name\":"
            } else {
                b"{\"name\":"
            });
            put_text(out, spec.name());
            out.extend_from_slice(b",\"uri\":\"");
            if let Some(uri) = spec.uri() {
                uri.before().iter().for_each(|piece| put_piece(out, piece));
                // Middles need no escapes.
                layout.leave();
                let out = &mut layout.bytes;
                uri.after().iter().for_each(|piece| put_piece(out, piece));
            }
            layout.bytes.extend_from_slice(b"\"}");
        }
        layout.bytes.extend_from_slice(b"]},");
    }
}

impl<T: Text + Send + Sync + 'static> Form for Json<T> {
    fn header(header: &CommonResponseHeader) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(b"{\"header\":");
        put_header(&mut out, header);
        out.push(b',');
        out
    }

    fn started(session_id: &str, skipped: Skipped, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"write_session_id\":");
        put_text(out, session_id);
        out.extend_from_slice(b",\"block_mask\":");
        match skipped {
            Skipped::Offset(_) => {
                let mask = convert::skipped(skipped);
                out.extend_from_slice(&to_json(&mask).unwrap_or_default());
            }
            Skipped::Bools(values) => {
                out.extend_from_slice(b"{\"bool_masks\":{\"values\":[");
                for (at, value) in values.iter().enumerate() {
                    out.extend_from_slice(if at > 0 { b"," } else { b"" });
                    out.extend_from_slice(if *value { b"true" } else { b"false" });
                }
                out.extend_from_slice(b"]}}");
            }
        }
        out.push(b',');
    }

    fn before_locations(out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"locations\":[");
    }
}

/// An answer that has a JSON form of its own making.
pub(crate) trait IntoJson {
    /// The whole text.
    fn into_json(self) -> Bytes;
}

impl IntoJson for meta::CommonResponse {
    fn into_json(self) -> Bytes {
        let mut out = before(self.header);
        // The comma after the header.
        out.pop();
        out.push(b'}');
        out.into()
    }
}

impl IntoJson for meta::GetCacheLocationLenResponse {
    fn into_json(self) -> Bytes {
        let mut out = before(self.header);
        let length = self.cache_location_len;
        let _infallible = write!(out, "\"cache_location_len\":\"{length}\"}}");
        out.into()
    }
}

/// The text up to the first field after the header; every answer has a header.
fn before(header: Option<CommonResponseHeader>) -> Vec<u8> {
    Json::<meta::GetCacheLocationResponse>::header(&header.unwrap_or_default())
}

impl<T: Text + Send + Sync + 'static> IntoJson for Written<Json<T>> {
    fn into_json(mut self) -> Bytes {
        let body = self.body();
        if body.len() == ROOM {
            body.extend_from_slice(T::EMPTY.as_bytes());
        } else {
            // The comma after the last location.
            if body.last() == Some(&b',') {
                body.pop();
            }
            body.extend_from_slice(b"]}");
        }
        let head = self.head();
        self.joined(&[], &head)
    }
}

/// Appends a header. Those with a hint are rare and long, so the generic mapping prints them.
fn put_header(out: &mut Vec<u8>, header: &CommonResponseHeader) {
    let status = header.status.as_ref();
    let code = status.and_then(|status| ErrorCode::try_from(status.code).ok());
    let (Some(status), Some(code), None) = (status, code, &header.leader_hint) else {
        out.extend_from_slice(&to_json(header).unwrap_or_default());
        return;
    };
    out.extend_from_slice(b"{\"status\":{\"code\":");
    put_text(out, code.as_str_name());
    out.extend_from_slice(b",\"message\":");
    put_text(out, &status.message);
    out.extend_from_slice(b"},\"request_id\":");
    put_text(out, &header.request_id);
    out.extend_from_slice(b",\"tracer_result\":");
    put_text(out, &header.tracer_result);
    if let Some(epoch) = header.epoch {
        let _infallible = write!(out, ",\"epoch\":\"{epoch}\"");
    }
    if let Some(cluster_id) = &header.cluster_id {
        out.extend_from_slice(b",\"cluster_id\":");
        put_text(out, cluster_id);
    }
    out.push(b'}');
}
