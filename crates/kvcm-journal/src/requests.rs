//! Requests that were carried out, so that a repeat gets the same answer.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    time::Duration,
};

use kvcm_clock::Moment;

/// One request of one client. Both numbers are stored, so they come from hashes that never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey {
    /// Of the id that the client gave it.
    pub id: u128,
    /// Of the call and what it says: the same id with another body is a mistake of the client.
    pub body: u64,
}

/// What a state machine remembers of requests: it writes the record of each in the batch that holds
/// its effect, and into its snapshots. Kept for a time, and at most so many: the oldest go first.
#[derive(Clone, Debug)]
pub struct Requests<T> {
    kept_for: Duration,
    count_max: usize,
    entries: HashMap<u128, (u64, T)>,
    /// When each was noted, the oldest first.
    order: VecDeque<(Moment, u128)>,
    /// How many went from the front of it.
    forgotten: u64,
}

impl<T> Requests<T> {
    /// Nothing yet.
    pub fn new(kept_for: Duration, count_max: usize) -> Self {
        Self {
            kept_for,
            count_max,
            entries: HashMap::new(),
            order: VecDeque::new(),
            forgotten: 0,
        }
    }

    /// Notes what became of a request. What is noted twice keeps its first outcome.
    pub fn note(&mut self, key: RequestKey, outcome: T, now: Moment) {
        while let Some((at, id)) = self.order.front().copied()
            && (now.since(at) >= self.kept_for || self.order.len() >= self.count_max)
        {
            self.order.pop_front();
            self.forgotten += 1;
            self.entries.remove(&id);
        }
        if let std::collections::hash_map::Entry::Vacant(entry) = self.entries.entry(key.id) {
            entry.insert((key.body, outcome));
            self.order.push_back((now, key.id));
        }
    }

    /// What is known of the request with this id: the hash of its body, and what became of it.
    pub fn get(&self, id: u128) -> Option<(u64, &T)> {
        self.entries
            .get(&id)
            .map(|(body, outcome)| (*body, outcome))
    }

    /// All of them, in the order in which they were noted.
    pub fn iter(&self) -> impl Iterator<Item = (RequestKey, &T)> {
        self.places(self.all_places())
    }

    /// The places of all of them. Each has the one after its predecessor's and keeps it.
    pub fn all_places(&self) -> Range<u64> {
        self.forgotten..self.forgotten + self.order.len() as u64
    }

    /// Those in these places that are not forgotten, in the order in which they were noted.
    pub fn places(&self, places: Range<u64>) -> impl Iterator<Item = (RequestKey, &T)> {
        let index = |place: u64| {
            let index = usize::try_from(place.saturating_sub(self.forgotten));
            index.map_or(self.order.len(), |index| index.min(self.order.len()))
        };
        let (from, end) = (index(places.start), index(places.end));
        self.order.range(from..end.max(from)).filter_map(|(_, id)| {
            let (body, outcome) = self.entries.get(id)?;
            let key = RequestKey {
                id: *id,
                body: *body,
            };
            Some((key, outcome))
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    fn key(id: u128) -> RequestKey {
        RequestKey { id, body: 7 }
    }

    fn ids(requests: &Requests<u32>) -> Vec<u128> {
        requests.iter().map(|(key, _)| key.id).collect()
    }

    #[test]
    fn the_first_outcome_stays_and_is_found_with_its_body() {
        let mut requests = Requests::new(Duration::from_secs(600), 10);
        requests.note(key(1), 1, at(0));
        requests.note(RequestKey { id: 1, body: 8 }, 2, at(1));
        assert_eq!(requests.get(1), Some((7, &1)));
        assert_eq!(requests.get(2), None);
        assert_eq!(requests.len(), 1);
    }

    #[test]
    fn the_oldest_are_forgotten_after_their_time_or_when_there_are_too_many() {
        let mut requests = Requests::new(Duration::from_secs(600), 3);
        for id in 0..4 {
            requests.note(key(id), 0, at(0));
        }
        assert_eq!(ids(&requests), [1, 2, 3]);
        requests.note(key(9), 0, at(600));
        assert_eq!(ids(&requests), [9]);
        assert_eq!(requests.get(3), None);
    }

    #[test]
    fn each_keeps_its_place_when_others_are_forgotten() {
        let mut requests = Requests::new(Duration::from_secs(600), 3);
        let places = |requests: &Requests<u32>, from, to| -> Vec<u128> {
            requests.places(from..to).map(|(key, _)| key.id).collect()
        };
        for id in 0..5 {
            requests.note(key(id), 0, at(0));
        }
        assert_eq!(requests.all_places(), 2..5);
        assert_eq!(places(&requests, 0, 3), [2]);
        assert_eq!(places(&requests, 3, 4), [3]);
        assert_eq!(places(&requests, 4, 9), [4]);
        assert_eq!(places(&requests, 5, 9), []);
        assert_eq!(places(&requests, 0, 1), []);
    }
}
