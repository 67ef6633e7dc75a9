//! Blocks in whatever state they are.

use crate::{
    call::Answer,
    locations::Locations,
    wire::{Fields, Malformed, Value},
};

/// Locations and states of blocks, in the order of the request.
#[derive(Clone, Debug)]
pub struct BlockStates {
    locations: Locations,
    states: Vec<String>,
}

impl BlockStates {
    pub(crate) fn read(answer: Answer) -> Result<Self, Malformed> {
        let mut states = Vec::new();
        for field in Fields::of(&answer.body) {
            if let (3, Value::Bytes(text)) = field? {
                let text = std::str::from_utf8(text).map_err(|_| Malformed)?;
                states.push(text.to_owned());
            }
        }
        let locations = Locations::read(answer.body, 2, answer.meta)?;
        Ok(Self { locations, states })
    }

    /// Where the blocks lie, or will lie.
    pub fn locations(&self) -> &Locations {
        &self.locations
    }

    /// What the server knows of each block: JSON, `{"id":…,"status":…}`.
    pub fn states(&self) -> &[String] {
        &self.states
    }
}
