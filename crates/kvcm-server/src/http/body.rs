//! Reading the body of a request within limits.

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use kvcm_proto::meta::ErrorCode;
use tokio::time::timeout;

use super::{BodyLimits, Refusal};

/// How much of a body that is too large is still read and thrown away. Whoever is still sending
/// when the connection closes sees a reset instead of the answer.
const DISCARD_MAX: usize = 64 << 20;

/// Reads a whole body.
///
/// # Errors
/// A body that is too large, too slow, encoded, or that breaks off.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Body,
    limits: BodyLimits,
) -> Result<Bytes, Refusal> {
    check_encoding(headers)?;
    match timeout(limits.read_timeout, collect(headers, body, limits.bytes)).await {
        Ok(result) => result,
        Err(_) => Err(Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            ErrorCode::InvalidArgument,
            format!(
                "the body did not arrive within {} ms, the limit that \
                 kvcm.service.read_timeout_ms sets",
                limits.read_timeout.as_millis()
            ),
        )),
    }
}

fn check_encoding(headers: &HeaderMap) -> Result<(), Refusal> {
    match headers.get(header::CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ErrorCode::InvalidArgument,
            "header content-encoding: bodies must be sent without encoding",
        )),
        _ => Ok(()),
    }
}

async fn collect(headers: &HeaderMap, mut body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let announced = body.size_hint().lower();
    if usize::try_from(announced).map_or(true, |announced| announced > limit) {
        // A client that asks before it sends needs no one to take its bytes.
        if !headers.contains_key(header::EXPECT) {
            discard(body).await;
        }
        return Err(too_large(Some(announced), limit));
    }
    // Most bodies are one frame, which is not copied.
    let Some(first) = next(&mut body).await? else {
        return Ok(Bytes::new());
    };
    let mut whole = BytesMut::new();
    let mut frame = first;
    loop {
        if whole.len() + frame.len() > limit {
            discard(body).await;
            return Err(too_large(None, limit));
        }
        match next(&mut body).await? {
            None if whole.is_empty() => return Ok(frame),
            None => {
                whole.extend_from_slice(&frame);
                return Ok(whole.freeze());
            }
            Some(following) => {
                if whole.is_empty() {
                    whole.reserve(usize::try_from(announced).unwrap_or(0));
                }
                whole.extend_from_slice(&frame);
                frame = following;
            }
        }
    }
}

/// The next frame of data; none at the end.
async fn next(body: &mut Body) -> Result<Option<Bytes>, Refusal> {
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Refusal::bad_request(format!("the body broke off: {error}")))?;
        // What is no data is a trailer, which means nothing here.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

async fn discard(mut body: Body) {
    let mut discarded = 0;
    while discarded < DISCARD_MAX {
        match next(&mut body).await {
            Ok(Some(data)) => discarded += data.len(),
            Ok(None) | Err(_) => return,
        }
    }
}

fn too_large(announced: Option<u64>, limit: usize) -> Refusal {
    let size = announced.map(|bytes| format!(" of {bytes} bytes"));
    let size = size.unwrap_or_default();
    Refusal::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::InvalidArgument,
        format!(
            "the body{size} is larger than {limit} bytes, the limit that \
             kvcm.service.max_request_bytes sets: send fewer keys per request"
        ),
    )
}
