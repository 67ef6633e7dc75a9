//! How every piece of stored bytes is framed: `length u32 | crc32 u32 | body`, little-endian.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::RecordError;

/// Length and checksum.
pub(crate) const HEAD: usize = 8;

/// Appends a frame whose body `write` appends.
///
/// # Errors
/// [`RecordError::TooLong`], with `out` unchanged.
pub(crate) fn put(
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut),
) -> Result<(), RecordError> {
    let start = out.len();
    out.put_u64_le(0);
    write(out);
    let size = out.len() - start - HEAD;
    let Ok(length) = u32::try_from(size) else {
        out.truncate(start);
        return Err(RecordError::TooLong {
            what: "the record",
            size,
            limit: u32::MAX as usize,
        });
    };
    let checksum = crc32fast::hash(&out[start + HEAD..]);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..start + HEAD].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

/// Takes the body of the frame at the front of `input`. After an error `input` is unchanged.
///
/// # Errors
/// [`RecordError::Truncated`], [`RecordError::Checksum`].
pub(crate) fn take(input: &mut Bytes) -> Result<Bytes, RecordError> {
    let truncated = |need| RecordError::Truncated {
        have: input.len(),
        need,
    };
    let mut head = input.clone();
    if head.len() < HEAD {
        return Err(truncated(HEAD));
    }
    let length = head.get_u32_le() as usize;
    let expected = head.get_u32_le();
    if head.len() < length {
        return Err(truncated(HEAD.saturating_add(length)));
    }
    let body = head.split_to(length);
    let found = crc32fast::hash(&body);
    if found != expected {
        return Err(RecordError::Checksum { expected, found });
    }
    *input = head;
    Ok(body)
}
