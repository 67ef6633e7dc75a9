//! Where one copy of a block lies, as numbers.

/// What a location is good for. Stages only ever rise, then the location goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum State {
    /// Handed out by a write that the journal has not acknowledged: holds the key, shows nowhere.
    Reserved = 1,
    /// Handed out; the writer has not finished.
    Writing = 2,
    /// Written: may be read.
    Serving = 3,
    /// On its way out: no longer read.
    Deleting = 4,
}

/// Names one handing-out of locations; never repeated. A location is known by its key and grant,
/// so that a late change can only meet the location it was meant for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grant {
    /// The epoch that granted, below 2^53.
    pub epoch: u64,
    /// Counts the grants of that epoch.
    pub counter: u64,
}

/// Where one copy of a block lies: 24 bytes, no text. Storage and specs are numbers that the
/// caller gave out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// Bits 0..53 the epoch, from bit 56 the state.
    head: u64,
    counter: u64,
    position: u32,
    storage: u16,
    specs: u16,
}

const STATE_SHIFT: u32 = 56;
const EPOCH_MASK: u64 = (1 << 53) - 1;

impl Location {
    /// A location.
    ///
    /// `position` is its number within the grant, `storage` and `specs` are the caller's numbers.
    /// Bits of the grant's epoch above 2^53 are dropped; epochs do not have them.
    pub const fn new(grant: Grant, position: u32, storage: u16, specs: u16, state: State) -> Self {
        Self {
            head: (grant.epoch & EPOCH_MASK) | (state as u64) << STATE_SHIFT,
            counter: grant.counter,
            position,
            storage,
            specs,
        }
    }

    /// The grant that it was handed out under.
    pub const fn grant(&self) -> Grant {
        Grant {
            epoch: self.head & EPOCH_MASK,
            counter: self.counter,
        }
    }

    /// Its number within its grant.
    pub const fn position(&self) -> u32 {
        self.position
    }

    /// The caller's number of its storage.
    pub const fn storage(&self) -> u16 {
        self.storage
    }

    /// The caller's number of its set of specs.
    pub const fn specs(&self) -> u16 {
        self.specs
    }

    /// What it is good for.
    pub const fn state(&self) -> State {
        match self.head >> STATE_SHIFT {
            1 => State::Reserved,
            2 => State::Writing,
            3 => State::Serving,
            _ => State::Deleting,
        }
    }

    /// Whether it may be read.
    pub const fn is_serving(&self) -> bool {
        self.head >> STATE_SHIFT == State::Serving as u64
    }

    /// The same location in another state.
    #[must_use]
    pub const fn with_state(mut self, state: State) -> Self {
        self.head = (self.head & EPOCH_MASK) | (state as u64) << STATE_SHIFT;
        self
    }

    /// The location `n` places further in the same grant.
    #[must_use]
    pub const fn nth(mut self, n: u32) -> Self {
        self.position = self.position.wrapping_add(n);
        self
    }

    /// The same location in another storage.
    #[must_use]
    pub(crate) const fn with_storage(mut self, storage: u16) -> Self {
        self.storage = storage;
        self
    }
}

impl std::fmt::Debug for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Location")
            .field("grant", &self.grant())
            .field("position", &self.position)
            .field("storage", &self.storage)
            .field("specs", &self.specs)
            .field("state", &self.state())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_survives_packing() {
        let grant = Grant {
            epoch: (1 << 53) - 1,
            counter: u64::MAX,
        };
        for state in [
            State::Reserved,
            State::Writing,
            State::Serving,
            State::Deleting,
        ] {
            let location = Location::new(grant, u32::MAX, 7, 9, State::Reserved).with_state(state);
            assert_eq!(location.grant(), grant);
            assert_eq!(location.position(), u32::MAX);
            assert_eq!((location.storage(), location.specs()), (7, 9));
            assert_eq!(location.state(), state);
            assert_eq!(location.is_serving(), state == State::Serving);
        }
        assert_eq!(size_of::<Location>(), 24);
    }
}
