//! Locations as they stand, in a snapshot.

use kvcm_index::{Grant, State};

use super::codec::{DecodeError, Decoded, Put, Take};

/// Locations of one grant that have storage, spec group and state in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Locations {
    pub(crate) instance: String,
    /// Of the instance's registration: under another one the locations mean nothing.
    pub(crate) fingerprint: u64,
    pub(crate) grant: Grant,
    pub(crate) storage: u16,
    /// Name of the spec group; the empty name is all specs.
    pub(crate) group: String,
    pub(crate) state: State,
    /// Position of each key in its grant.
    pub(crate) positions: Vec<u32>,
    pub(crate) keys: Vec<i64>,
}

/// Numbers of the states. Stored, so they never change.
const WRITING: u8 = 2;
const SERVING: u8 = 3;
const DELETING: u8 = 4;

impl Locations {
    pub(super) fn encode(&self, put: &mut Put<'_>) {
        put.text(&self.instance);
        put.u64(self.fingerprint);
        put.u64(self.grant.epoch);
        put.u64(self.grant.counter);
        put.u16(self.storage);
        put.text(&self.group);
        put.u8(match self.state {
            // Not acknowledged, so never in a snapshot; would be a write of its own.
            State::Reserved | State::Writing => WRITING,
            State::Serving => SERVING,
            State::Deleting => DELETING,
        });
        put.u32s(&self.positions);
        put.keys(&self.keys);
    }

    pub(super) fn decode(take: &mut Take<'_>) -> Decoded<Self> {
        let op = Self {
            instance: take.text()?.to_owned(),
            fingerprint: take.u64()?,
            grant: Grant {
                epoch: take.u64()?,
                counter: take.u64()?,
            },
            storage: take.u16()?,
            group: take.text()?.to_owned(),
            state: match take.u8()? {
                WRITING => State::Writing,
                SERVING => State::Serving,
                DELETING => State::Deleting,
                _ => return Err(DecodeError::Malformed("the state is not known")),
            },
            positions: take.u32s()?,
            keys: take.keys()?,
        };
        if op.positions.len() != op.keys.len() {
            return Err(DecodeError::Malformed("there is not one position per key"));
        }
        Ok(op)
    }
}
