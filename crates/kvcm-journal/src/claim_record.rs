//! A claim as it stands in a store.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kvcm_fence::{Claim, Epoch, Incarnation};

use crate::RecordError;

/// Appends `cluster (length u8, text) | epoch u64 | incarnation u128`, little-endian.
pub(crate) fn put(out: &mut BytesMut, claim: &Claim) {
    let cluster = claim.cluster.as_str().as_bytes();
    // A cluster id has at most 64 bytes.
    out.put_u8(cluster.len() as u8);
    out.put_slice(cluster);
    out.put_u64_le(claim.epoch.get());
    out.put_u128_le(claim.incarnation.bits());
}

/// Takes a claim from the front of `body`.
///
/// # Errors
/// [`RecordError::Malformed`].
pub(crate) fn take(body: &mut Bytes) -> Result<Claim, RecordError> {
    let short = |_| RecordError::Malformed("it ends inside a claim");
    let length = usize::from(body.try_get_u8().map_err(short)?);
    if body.len() < length {
        return Err(RecordError::Malformed("it ends inside a claim"));
    }
    let cluster = body.split_to(length);
    let cluster = std::str::from_utf8(&cluster).ok();
    let cluster = cluster.and_then(|text| text.parse().ok());
    let cluster = cluster.ok_or(RecordError::Malformed("the cluster id is none"))?;
    let epoch = Epoch::new(body.try_get_u64_le().map_err(short)?)
        .map_err(|_| RecordError::Malformed("the epoch is out of range"))?;
    let incarnation = Incarnation::from_bits(body.try_get_u128_le().map_err(short)?);
    Ok(Claim {
        cluster,
        epoch,
        incarnation,
    })
}
