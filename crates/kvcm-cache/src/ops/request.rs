//! A request of a client, with what became of it.

use kvcm_journal::RequestKey;

use super::codec::{DecodeError, Decoded, Put, Take};
use crate::{
    Skipped,
    answered::{RequestOutcome, StartedBefore},
    session_id::SessionId,
};

/// The batch holds the effect of this request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) key: RequestKey,
    pub(crate) outcome: RequestOutcome,
}

/// Numbers of the outcomes. Stored, so they never change.
const DONE: u8 = 1;
const STARTED: u8 = 2;
const BAD_MASK: u8 = 3;
/// And of the ways to say which keys were skipped.
const FIRST: u8 = 1;
const EACH: u8 = 2;

impl Request {
    /// Appends it to others.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        self.encode(&mut Put(out));
    }

    /// The first one of those that were appended, and the bytes of the others; none at the end.
    pub(crate) fn take_from(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut take = Take(bytes);
        let request = Self::decode(&mut take).ok()?;
        Some((request, take.0))
    }

    /// The id of the first one; without any, 0.
    pub(crate) fn id_of(bytes: &[u8]) -> u128 {
        Self::take_id(&mut Take(bytes)).unwrap_or_default()
    }

    fn take_id(take: &mut Take<'_>) -> Decoded<u128> {
        let (high, low) = (take.u64()?, take.u64()?);
        Ok(u128::from(high) << 64 | u128::from(low))
    }

    pub(super) fn encode(&self, put: &mut Put<'_>) {
        put.u64((self.key.id >> 64) as u64);
        put.u64(self.key.id as u64);
        put.u64(self.key.body);
        match &self.outcome {
            RequestOutcome::Done => put.u8(DONE),
            RequestOutcome::Started(started) => {
                put.u8(STARTED);
                started.session.encode(put.0);
                put.u64(started.grant.epoch);
                put.u64(started.grant.counter);
                put.u16(started.storage);
                encode_skipped(&started.skipped, put);
            }
            RequestOutcome::BadMask(why) => {
                put.u8(BAD_MASK);
                put.text(why);
            }
        }
    }

    pub(super) fn decode(take: &mut Take<'_>) -> Decoded<Self> {
        let key = RequestKey {
            id: Self::take_id(take)?,
            body: take.u64()?,
        };
        let outcome = match take.u8()? {
            DONE => RequestOutcome::Done,
            STARTED => RequestOutcome::Started(Box::new(StartedBefore {
                session: SessionId::decode(take.raw(SessionId::LEN)?)?,
                grant: kvcm_index::Grant {
                    epoch: take.u64()?,
                    counter: take.u64()?,
                },
                storage: take.u16()?,
                skipped: decode_skipped(take)?,
            })),
            BAD_MASK => RequestOutcome::BadMask(take.text()?.into()),
            _ => return Err(DecodeError::Malformed("the outcome is not known")),
        };
        Ok(Self { key, outcome })
    }
}

fn encode_skipped(skipped: &Skipped, put: &mut Put<'_>) {
    match skipped {
        Skipped::Offset(count) => {
            put.u8(FIRST);
            put.len(*count);
        }
        Skipped::Bools(bools) => {
            put.u8(EACH);
            put.len(bools.len());
            for eight in bools.chunks(8) {
                let bits = eight.iter().enumerate();
                put.u8(bits.fold(0, |byte, (at, bit)| byte | u8::from(*bit) << at));
            }
        }
    }
}

fn decode_skipped(take: &mut Take<'_>) -> Decoded<Skipped> {
    match take.u8()? {
        FIRST => Ok(Skipped::Offset(take.u32()? as usize)),
        EACH => {
            let len = take.u32()? as usize;
            let bytes = take.raw(len.div_ceil(8))?;
            let bit = |at: usize| bytes[at / 8] >> (at % 8) & 1 == 1;
            Ok(Skipped::Bools((0..len).map(bit).collect()))
        }
        _ => Err(DecodeError::Malformed("the skipped keys are not said")),
    }
}
