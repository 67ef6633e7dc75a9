//! Sessions as they stand, in a snapshot.

use kvcm_index::Grant;

use super::codec::{DecodeError, Decoded, Put, Take};
use crate::{mask::Success, session_id::SessionId};

/// An open session; its locations stand elsewhere in the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenSession {
    pub(crate) session: SessionId,
    pub(crate) instance: String,
    pub(crate) fingerprint: u64,
    pub(crate) grant: Grant,
    pub(crate) life_ms: u32,
    pub(crate) keys: Vec<i64>,
}

/// A finished session whose outcome is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FinishedSession {
    pub(crate) session: SessionId,
    pub(crate) success: Success,
}

impl OpenSession {
    pub(super) fn encode(&self, put: &mut Put<'_>) {
        self.session.encode(put.0);
        put.text(&self.instance);
        put.u64(self.fingerprint);
        put.u64(self.grant.epoch);
        put.u64(self.grant.counter);
        put.u32(self.life_ms);
        put.keys(&self.keys);
    }

    pub(super) fn decode(take: &mut Take<'_>) -> Decoded<Self> {
        Ok(Self {
            session: SessionId::decode(take.raw(SessionId::LEN)?)?,
            instance: take.text()?.to_owned(),
            fingerprint: take.u64()?,
            grant: Grant {
                epoch: take.u64()?,
                counter: take.u64()?,
            },
            life_ms: take.u32()?,
            keys: take.keys()?,
        })
    }
}

impl FinishedSession {
    pub(super) fn encode(&self, put: &mut Put<'_>) {
        self.session.encode(put.0);
        encode_success(&self.success, put);
    }

    pub(super) fn decode(take: &mut Take<'_>) -> Decoded<Self> {
        Ok(Self {
            session: SessionId::decode(take.raw(SessionId::LEN)?)?,
            success: decode_success(take)?,
        })
    }
}

pub(super) fn encode_success(success: &Success, put: &mut Put<'_>) {
    put.len(success.len());
    put.u64s(success.bits());
}

pub(super) fn decode_success(take: &mut Take<'_>) -> Decoded<Success> {
    let len = take.u32()? as usize;
    let bits = take.u64s()?.into_boxed_slice();
    Success::from_bits(bits, len).ok_or(DecodeError::Malformed(
        "the success mask has not one bit per key",
    ))
}
