//! Requests and what is read of answers, in the bytes of each protocol.

use anyhow::{Context, ensure};
use bytes::Bytes;
use kvcm_proto::{json, meta};
use prost::{Message, Name};

use crate::serve::Over;

/// Bytes in front of a message of gRPC.
pub(super) const PREFIX: usize = 5;

/// A request as its protocol sends it; over gRPC with the prefix of its frame.
pub(super) fn request<M: Message + Name>(over: Over, message: &M) -> anyhow::Result<Bytes> {
    match over {
        Over::Http => Ok(json::to_json(message)?.into()),
        Over::Grpc => {
            let length = message.encoded_len();
            let mut bytes = Vec::with_capacity(PREFIX + length);
            bytes.push(0);
            bytes.extend_from_slice(&u32::try_from(length)?.to_be_bytes());
            message.encode(&mut bytes)?;
            Ok(bytes.into())
        }
    }
}

/// The message of an answer.
pub(super) fn answer<M: Message + Name + Default>(over: Over, bytes: &[u8]) -> anyhow::Result<M> {
    match over {
        Over::Http => Ok(json::from_json(bytes)?),
        Over::Grpc => {
            let message = bytes.get(PREFIX..).context("an answer without a message")?;
            Ok(M::decode(message)?)
        }
    }
}

/// Fails unless the header says OK.
pub(super) fn check(header: Option<&meta::CommonResponseHeader>) -> anyhow::Result<()> {
    let status = header.and_then(|header| header.status.as_ref());
    let is_ok = status.is_some_and(|status| status.code() == meta::ErrorCode::Ok);
    ensure!(is_ok, "answered with {status:?}");
    Ok(())
}

/// The session of StartWriteCache's answer, found without reading the rest.
pub(super) fn session(over: Over, mut bytes: &[u8]) -> Option<String> {
    let session = match over {
        Over::Http => {
            const NAME: &[u8] = b"\"write_session_id\":\"";
            let at = bytes
                .windows(NAME.len())
                .position(|window| window == NAME)?;
            let rest = &bytes[at + NAME.len()..];
            rest.split(|byte| *byte == b'"').next()?
        }
        Over::Grpc => {
            bytes = bytes.get(PREFIX..)?;
            // The header is the first field, the session the second.
            bytes = bytes.strip_prefix(&[0x0a])?;
            let header = prost::decode_length_delimiter(&mut bytes).ok()?;
            bytes = bytes.get(header..)?.strip_prefix(&[0x12])?;
            let length = prost::decode_length_delimiter(&mut bytes).ok()?;
            bytes.get(..length)?
        }
    };
    Some(std::str::from_utf8(session).ok()?.to_owned())
}

/// How many locations an answer has, counted without reading them.
pub(super) fn locations(over: Over, bytes: &[u8]) -> Option<usize> {
    match over {
        Over::Http => {
            let text = std::str::from_utf8(bytes).ok()?;
            Some(text.matches("\"spec_size\":").count())
        }
        Over::Grpc => {
            let mut rest = bytes.get(PREFIX..)?;
            let mut count = 0;
            // Header, session, mask and locations all have a length.
            let mut last = 0;
            while let Some((key, field)) = rest.split_first() {
                rest = field;
                let length = prost::decode_length_delimiter(&mut rest).ok()?;
                rest = rest.get(length..)?;
                // The locations come last, and many.
                count = if *key == last { count + 1 } else { 1 };
                last = *key;
            }
            Some(if matches!(last, 0x12 | 0x22) {
                count
            } else {
                0
            })
        }
    }
}

/// The trace id that tells the bare server which answer to send.
pub(super) fn trace_id(number: usize) -> String {
    format!("b{number:06}")
}

/// The number in a request's trace id, which is its first field.
pub(super) fn number(over: Over, request: &[u8]) -> Option<usize> {
    let before = match over {
        // The key and the length of the field.
        Over::Grpc => 2,
        Over::Http => r#"{"trace_id":""#.len(),
    };
    let digits = request.get(before + 1..before + 7)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_for_is_found_in_both_protocols() {
        for over in Over::ALL {
            let lookup = meta::GetCacheLocationRequest {
                trace_id: trace_id(321),
                instance_id: "i".to_owned(),
                ..Default::default()
            };
            let bytes = request(over, &lookup).unwrap();
            let message = match over {
                Over::Grpc => &bytes[PREFIX..],
                Over::Http => &bytes[..],
            };
            assert_eq!(number(over, message), Some(321), "{over}");
            let started = meta::StartWriteCacheResponse {
                header: Some(meta::CommonResponseHeader::default()),
                write_session_id: "abc".to_owned(),
                block_mask: Some(meta::BlockMask::default()),
                locations: vec![meta::CacheLocation::default(); 3],
            };
            let bytes = request(over, &started).unwrap();
            assert_eq!(session(over, &bytes).as_deref(), Some("abc"), "{over}");
            assert_eq!(locations(over, &bytes), Some(3), "{over}");
            let found = meta::GetCacheLocationResponse {
                header: Some(meta::CommonResponseHeader::default()),
                locations: Vec::new(),
            };
            assert_eq!(
                locations(over, &request(over, &found).unwrap()),
                Some(0),
                "{over}"
            );
        }
    }
}
