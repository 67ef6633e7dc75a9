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
    /// Where the keys are in their grant.
    pub(crate) positions: Positions,
    pub(crate) keys: Vec<i64>,
}

/// A rising or any other order of positions, as runs: the first position of each and how many
/// follow one another from there on, at least one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Positions(Vec<(u32, u32)>);

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
        put.len(self.positions.0.len());
        for (first, count) in &self.positions.0 {
            put.u32(*first);
            put.u32(*count);
        }
        put.keys(&self.keys);
    }

    pub(super) fn decode(take: &mut Take<'_>) -> Decoded<Self> {
        Self::decode_with(take, |take| {
            let runs = take.list(|take| Ok((take.u32()?, take.u32()?)), 8)?;
            Ok(Positions(runs))
        })
    }

    /// As it was written once, with each position by itself.
    pub(super) fn decode_each(take: &mut Take<'_>) -> Decoded<Self> {
        Self::decode_with(take, |take| Ok(take.u32s()?.into_iter().collect()))
    }

    fn decode_with<'a>(
        take: &mut Take<'a>,
        positions: impl FnOnce(&mut Take<'a>) -> Decoded<Positions>,
    ) -> Decoded<Self> {
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
            positions: positions(take)?,
            keys: take.keys()?,
        };
        if op.positions.len() != op.keys.len() as u64 {
            return Err(DecodeError::Malformed("there is not one position per key"));
        }
        Ok(op)
    }

    /// The keys, each with its position.
    pub(crate) fn placed(&self) -> impl ExactSizeIterator<Item = (i64, u32)> + '_ {
        let mut runs = self.positions.0.iter().copied();
        let mut run = (0, 0);
        self.keys.iter().map(move |key| {
            while run.1 == 0 {
                // As many positions as keys were counted when it was read or made.
                let Some(next) = runs.next() else { break };
                run = next;
            }
            let position = run.0;
            run = (position.wrapping_add(1), run.1.saturating_sub(1));
            (*key, position)
        })
    }
}

impl Positions {
    /// Adds one.
    pub(crate) fn push(&mut self, position: u32) {
        match self.0.last_mut() {
            Some((first, count)) if first.wrapping_add(*count) == position => *count += 1,
            _ => self.0.push((position, 1)),
        }
    }

    fn len(&self) -> u64 {
        self.0.iter().map(|(_, count)| u64::from(*count)).sum()
    }
}

impl FromIterator<u32> for Positions {
    fn from_iter<I: IntoIterator<Item = u32>>(positions: I) -> Self {
        let mut all = Self::default();
        positions
            .into_iter()
            .for_each(|position| all.push(position));
        all
    }
}
