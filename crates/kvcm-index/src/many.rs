//! Keys with several locations: few, so they live beside the slots.

use crate::Location;

/// Lists of two or more locations, by number.
#[derive(Debug, Default)]
pub(crate) struct ManyTable {
    lists: Vec<Vec<Location>>,
    free: Vec<u32>,
}

impl ManyTable {
    /// Stores a list and returns its number.
    pub(crate) fn insert(&mut self, list: Vec<Location>) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.lists[number as usize] = list;
                number
            }
            None => {
                self.lists.push(list);
                // Bounded by the slots, whose numbers are u32.
                (self.lists.len() - 1) as u32
            }
        }
    }

    /// The list of that number.
    pub(crate) fn get(&self, number: usize) -> &[Location] {
        &self.lists[number]
    }

    /// The list of that number, to be changed; it keeps two or more.
    pub(crate) fn get_mut(&mut self, number: usize) -> &mut Vec<Location> {
        &mut self.lists[number]
    }

    /// Takes the list out; the number is used again.
    pub(crate) fn remove(&mut self, number: usize) -> Vec<Location> {
        self.free.push(number as u32);
        std::mem::take(&mut self.lists[number])
    }
}
