//! A write session ends.

use super::{
    codec::{DecodeError, Decoded, Put, Take},
    session::{decode_success, encode_success},
};
use crate::{mask::Success, session_id::SessionId};

/// A session ends: the keys that were written serve, the others are free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) session: SessionId,
    pub(crate) ending: Ending,
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its writer said which keys were written.
    Finished(Success),
    /// Its time was up; no key was written.
    Expired,
    /// Its writer's mask did not fit; no key counts as written.
    BadMask,
}

/// Numbers of the endings. Stored, so they never change.
const FINISHED: u8 = 1;
const EXPIRED: u8 = 2;
const BAD_MASK: u8 = 3;

impl End {
    pub(super) fn encode(&self, put: &mut Put<'_>) {
        self.session.encode(put.0);
        match &self.ending {
            Ending::Finished(success) => {
                put.u8(FINISHED);
                encode_success(success, put);
            }
            Ending::Expired => put.u8(EXPIRED),
            Ending::BadMask => put.u8(BAD_MASK),
        }
    }

    pub(super) fn decode(take: &mut Take<'_>) -> Decoded<Self> {
        let session = SessionId::decode(take.raw(SessionId::LEN)?)?;
        let ending = match take.u8()? {
            FINISHED => Ending::Finished(decode_success(take)?),
            EXPIRED => Ending::Expired,
            BAD_MASK => Ending::BadMask,
            _ => return Err(DecodeError::Malformed("the ending is not known")),
        };
        Ok(Self { session, ending })
    }
}
