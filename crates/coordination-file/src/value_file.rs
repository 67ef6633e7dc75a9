//! The value operations, on the thread.

use std::time::Duration;

use coordination_core::{DeleteOutcome, Error, Expect, SetOutcome, StoredValue, Value};
use kvcm_clock::{Moment, wall_clock_ms};
use serde::{Deserialize, Serialize};

use crate::{
    names,
    record::{self, Read},
    store::{Store, marks},
    worker::Call,
};

/// The kind of a value's record.
const KIND: &str = "value";

/// A value as it is written.
#[derive(Debug, Serialize, Deserialize)]
struct ValueRecord {
    key: String,
    /// Names the clock of `expires_ns`.
    clock: String,
    text: String,
    version: u64,
    expires_ns: Option<u64>,
}

impl Store {
    pub(crate) fn set_value(
        &mut self,
        key: &str,
        text: &str,
        ttl: Option<Duration>,
        expect: Expect,
        call: &Call,
    ) -> Result<SetOutcome, Error> {
        let _guarded = self.enter(call)?;
        let replaced = self.live_value(key)?;
        let present = replaced.as_ref().map(|value| value.version);
        if !expect.admits(present) {
            return Ok(SetOutcome::Conflict(present));
        }
        let all_names = self.directory.names()?;
        // One counter for all keys: a version never stands for two texts, whatever was deleted,
        // lost or damaged in between.
        let (highest, old_marks) = marks(&all_names, names::VERSION);
        let version = highest.unwrap_or_else(wall_clock_ms).saturating_add(1);
        let now = call.check()?;
        let record = ValueRecord {
            key: key.to_owned(),
            clock: self.clock_name.clone(),
            text: text.to_owned(),
            version,
            expires_ns: ttl.map(|ttl| (now + ttl).as_nanos()),
        };
        let bytes = record::encode(KIND, &record)?;
        call.start_change()?;
        self.directory.add_mark(&names::version_mark(version))?;
        let name = names::value_record(key);
        if ttl.is_none() || replaced.is_some_and(|value| value.expires.is_none()) {
            self.directory.replace_durably(&name, &bytes)?;
            self.directory.make_durable()?;
        } else {
            self.directory.replace(&name, &bytes)?;
        }
        self.directory.discard(old_marks);
        Ok(SetOutcome::Stored(version))
    }

    pub(crate) fn get_value(&mut self, key: &str, call: &Call) -> Result<Option<Value>, Error> {
        let name = names::value_record(key);
        let stored = match self.load_value(&name)? {
            Read::Whole(stored) => stored,
            Read::Damaged(_) => {
                let _guarded = self.enter(call)?;
                self.load_value_repaired(&name)?
            }
        };
        let stored = stored.filter(|(found, _)| found == key);
        Ok(stored.and_then(|(_, stored)| stored.view(self.clock.now())))
    }

    pub(crate) fn delete_value(
        &mut self,
        key: &str,
        expect: Expect,
        call: &Call,
    ) -> Result<DeleteOutcome, Error> {
        let _guarded = self.enter(call)?;
        let Some(present) = self.live_value(key)? else {
            return Ok(DeleteOutcome::Absent);
        };
        if !expect.admits(Some(present.version)) {
            return Ok(DeleteOutcome::Conflict(present.version));
        }
        call.check()?;
        call.start_change()?;
        self.directory.remove(&names::value_record(key))?;
        if present.expires.is_none() {
            self.directory.make_durable()?;
        }
        Ok(DeleteOutcome::Deleted)
    }

    pub(crate) fn list_values(
        &mut self,
        prefix: &str,
        call: &Call,
    ) -> Result<Vec<(String, Value)>, Error> {
        self.directory.check()?;
        let all_names = self.directory.names()?;
        let mut list = Vec::new();
        for name in all_names.iter().filter(|name| names::is_value_record(name)) {
            let stored = match self.load_value(name)? {
                Read::Whole(stored) => stored,
                Read::Damaged(_) => {
                    let _guarded = self.enter(call)?;
                    self.load_value_repaired(name)?
                }
            };
            let stored = stored.filter(|(key, _)| key.starts_with(prefix));
            if let Some((key, stored)) = stored
                && let Some(value) = stored.view(self.clock.now())
            {
                list.push((key, value));
            }
        }
        list.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(list)
    }

    /// The names of values that have expired.
    pub(crate) fn expired_values<'n>(&mut self, all_names: &'n [String]) -> Vec<&'n str> {
        let names = all_names.iter().filter(|name| names::is_value_record(name));
        let expired = names.filter(|name| match self.load_value(name) {
            Ok(Read::Whole(Some((_, stored)))) => !stored.is_live(self.clock.now()),
            _ => false,
        });
        expired.map(String::as_str).collect()
    }

    /// The value that is there, under the guard.
    fn live_value(&mut self, key: &str) -> Result<Option<StoredValue>, Error> {
        let stored = self.load_value_repaired(&names::value_record(key))?;
        let Some((found, stored)) = stored else {
            return Ok(None);
        };
        if found != key {
            let hint = "rename one of the two keys, or remove the record while no kvcm runs";
            let source = format!("values {key} and {found} have the same file");
            return Err(Error::fatal(hint, source));
        }
        let now = self.clock.now();
        Ok(Some(stored).filter(|stored| stored.is_live(now)))
    }

    fn load_value_repaired(&mut self, name: &str) -> Result<Option<(String, StoredValue)>, Error> {
        match self.load_value(name)? {
            Read::Whole(stored) => Ok(stored),
            Read::Damaged(how) => {
                self.directory.set_aside(name, &how)?;
                Ok(None)
            }
        }
    }

    /// The key and value in a file, without the guard.
    fn load_value(&self, name: &str) -> Result<Read<Option<(String, StoredValue)>>, Error> {
        let Some(bytes) = self.directory.read(name)? else {
            return Ok(Read::Whole(None));
        };
        let record: ValueRecord = match record::decode(KIND, &bytes)? {
            Read::Whole(record) => record,
            Read::Damaged(how) => return Ok(Read::Damaged(how)),
        };
        let ours = record.clock == self.clock_name;
        let expires = record.expires_ns.map(|expires| {
            // What should have been set again on another boot's clock belongs to a dead process.
            if ours {
                Moment::from_nanos(expires)
            } else {
                Moment::ZERO
            }
        });
        let stored = StoredValue {
            text: record.text,
            version: record.version,
            expires,
        };
        Ok(Read::Whole(Some((record.key, stored))))
    }
}
