//! A write session begins.

use kvcm_index::Grant;

use super::codec::{Decoded, Put, Take};
use crate::session_id::SessionId;

/// A session begins, and its keys get locations under one grant: key number `n` has position `n`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) session: SessionId,
    pub(crate) instance: String,
    /// Of the instance's registration: under another one the locations mean nothing.
    pub(crate) fingerprint: u64,
    pub(crate) grant: Grant,
    /// A duration and not an instant: a recovered session begins its life again.
    pub(crate) life_ms: u32,
    pub(crate) storage: u16,
    /// Names of the spec groups that are written; the empty name is all specs.
    pub(crate) groups: Vec<String>,
    /// For each key the number of its group in `groups`; empty: all have the first one.
    pub(crate) group_of_key: Vec<u16>,
    pub(crate) keys: Vec<i64>,
}

impl Start {
    pub(super) fn encode(&self, put: &mut Put<'_>) {
        self.session.encode(put.0);
        put.text(&self.instance);
        put.u64(self.fingerprint);
        put.u64(self.grant.epoch);
        put.u64(self.grant.counter);
        put.u32(self.life_ms);
        put.u16(self.storage);
        put.len(self.groups.len());
        self.groups.iter().for_each(|group| put.text(group));
        put.u16s(&self.group_of_key);
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
            storage: take.u16()?,
            groups: take.list(|take| take.text().map(str::to_owned), 4)?,
            group_of_key: take.u16s()?,
            keys: take.keys()?,
        })
    }

    /// Whether it says the group of every key.
    pub(crate) fn has_groups(&self) -> bool {
        let (keys, groups) = (self.keys.len(), self.groups.len());
        if self.group_of_key.is_empty() {
            return keys == 0 || groups > 0;
        }
        let known = |group: &u16| usize::from(*group) < groups;
        self.group_of_key.len() >= keys && self.group_of_key.iter().take(keys).all(known)
    }

    /// The group of key number `at` by its number in `groups`, when it
    /// [says so](Self::has_groups).
    pub(crate) fn group(&self, at: usize) -> usize {
        match &self.group_of_key[..] {
            [] => 0,
            groups => usize::from(groups[at]),
        }
    }
}
