//! The value operations, on the thread.
//!
//! All values are in one record, so that a change of any is one step. What has to last (a value
//! without a time to live) is in the memory of the kernel like everything else, and on the disk in a
//! copy: the record with its last change, under a second name, synced before the change is answered.
//! A process that is killed or stopped in between leaves a record whose copy is missing; the next
//! change makes one.

use std::time::Duration;

use coordination_core::{DeleteOutcome, Error, Expect, SetOutcome, StoredValue, Value};
use kvcm_clock::wall_clock_ms;

use crate::{
    chain::{Chain, Draft, Newest},
    names,
    record::{self, Read},
    store::Store,
    values_record::ValuesRecord,
    worker::Call,
};

/// The kind of the record.
const KIND: &str = "values";

impl Store {
    pub(crate) fn set_value(
        &mut self,
        key: &str,
        text: &str,
        ttl: Option<Duration>,
        expect: Expect,
        call: &Call,
    ) -> Result<SetOutcome, Error> {
        self.change(call, |store| {
            let (newest, mut values) = store.load_values(call)?;
            let replaced = values.get(key);
            let present = replaced.as_ref().map(|value| value.version);
            if !expect.admits(present) {
                return Ok(Some(SetOutcome::Conflict(present)));
            }
            values.version = values.version.saturating_add(1);
            let version = values.version;
            let now = call.check()?;
            let value = StoredValue {
                text: text.to_owned(),
                version,
                expires: ttl.map(|ttl| now + ttl),
            };
            values.put(key, Some(value));
            let lasts = ttl.is_none() || replaced.is_some_and(|value| value.expires.is_none());
            let is_first = store.write_values(&newest, values, lasts, call)?;
            Ok(is_first.then_some(SetOutcome::Stored(version)))
        })
    }

    pub(crate) fn get_value(&mut self, key: &str, call: &Call) -> Result<Option<Value>, Error> {
        let (_, values) = self.load_values(call)?;
        let now = self.clock.now();
        Ok(values.get(key).and_then(|stored| stored.view(now)))
    }

    pub(crate) fn delete_value(
        &mut self,
        key: &str,
        expect: Expect,
        call: &Call,
    ) -> Result<DeleteOutcome, Error> {
        self.change(call, |store| {
            let (newest, mut values) = store.load_values(call)?;
            let Some(present) = values.get(key) else {
                return Ok(Some(DeleteOutcome::Absent));
            };
            if !expect.admits(Some(present.version)) {
                return Ok(Some(DeleteOutcome::Conflict(present.version)));
            }
            values.version = values.version.saturating_add(1);
            values.put(key, None);
            let lasts = present.expires.is_none();
            let is_first = store.write_values(&newest, values, lasts, call)?;
            Ok(is_first.then_some(DeleteOutcome::Deleted))
        })
    }

    pub(crate) fn list_values(
        &mut self,
        prefix: &str,
        call: &Call,
    ) -> Result<Vec<(String, Value)>, Error> {
        let (_, values) = self.load_values(call)?;
        let now = self.clock.now();
        let listed = values.iter().filter(|(key, _)| key.starts_with(prefix));
        let mut list: Vec<_> = listed
            .filter_map(|(key, stored)| Some((key.to_owned(), stored.view(now)?)))
            .collect();
        list.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(list)
    }

    /// The values that are there, and their record.
    fn load_values(&mut self, call: &Call) -> Result<(Newest, ValuesRecord), Error> {
        let chain = Chain::new(names::VALUES);
        let newest = self.newest(&chain, call)?;
        if let Some(bytes) = &newest.bytes {
            match record::decode::<ValuesRecord>(KIND, bytes)? {
                Read::Whole(values) if values.clock == self.clock_name => {
                    let now = self.clock.now();
                    return Ok((newest, values.bring_to(&self.clock_name, now)));
                }
                // Of another boot; a power cut may have lost later ones.
                Read::Whole(_) => {}
                Read::Damaged(how) => {
                    let aside = names::damaged(&chain, newest.number);
                    let record = chain.record(newest.number);
                    self.directory.set_aside(&record, &aside, &how);
                }
            }
        } else {
            self.directory.check()?;
        }
        let mut values = self.recover_values(&chain)?;
        // Versions that are lost are not given again.
        values.version = values.version.max(wall_clock_ms());
        Ok((newest, values))
    }

    /// The latest of all records and copies that are whole.
    fn recover_values(&self, chain: &Chain) -> Result<ValuesRecord, Error> {
        let all_names = self.directory.names()?;
        let records = chain.records(&all_names).into_iter();
        let records = records.map(|number| chain.record(number));
        let copies = all_names.iter().cloned();
        let copies = copies.filter(|name| name.starts_with(names::VALUES_COPY));
        let mut latest = ValuesRecord::default();
        for name in records.chain(copies) {
            let Some(bytes) = self.directory.read(&name)? else {
                continue;
            };
            if let Read::Whole(values) = record::decode::<ValuesRecord>(KIND, &bytes)?
                && values.version >= latest.version
            {
                latest = values;
            }
        }
        Ok(latest.bring_to(&self.clock_name, self.clock.now()))
    }

    /// Replaces the values; returns whether it was the first to do so. With `lasts`, something
    /// changes that has to last.
    fn write_values(
        &mut self,
        replaces: &Newest,
        mut values: ValuesRecord,
        lasts: bool,
        call: &Call,
    ) -> Result<bool, Error> {
        let is_kept =
            values.lasting == 0 || self.directory.exists(&names::values_copy(values.lasting))?;
        let version = values.version;
        let copy = (lasts || !is_kept).then(|| names::values_copy(version));
        if copy.is_some() {
            values.lasting = version;
        }
        let draft = Draft {
            replaces,
            bytes: &record::encode(KIND, &values)?,
            copy: copy.as_deref(),
        };
        let is_first = self.publish(&Chain::new(names::VALUES), draft, call)?;
        if is_first && copy.is_some() {
            self.discard_copies(version);
        }
        Ok(is_first)
    }

    /// Removes the copies of earlier versions, if possible.
    fn discard_copies(&self, version: u64) {
        let Ok(all_names) = self.directory.names() else {
            return;
        };
        let earlier = all_names.iter().map(String::as_str).filter(|name| {
            let of = name.strip_prefix(names::VALUES_COPY);
            of.and_then(|of| of.parse::<u64>().ok())
                .is_some_and(|of| of < version)
        });
        self.directory.discard(earlier);
    }
}
