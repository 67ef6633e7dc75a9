//! Compare-and-set of a record, by names that are given once.
//!
//! Record *n* + 1 replaces record *n*. Its bytes are written to a file of another name first, a
//! *candidate*, which then gets the name *n* + 1 as well, by `link(2)`. That fails when the name is
//! taken: of all who replace record *n* one succeeds, and nobody ever waits for another. So whoever is
//! stopped, at whatever point, is in nobody's way, and finds out when it goes on.
//!
//! Old records are removed. This must not free a name for those who were stopped before they linked:
//!
//! - A writer creates its candidate, named after the number it is for; then sees that the number is
//!   not taken; then that the record it replaces is still there, as it was read; then links.
//! - A cleaner knows the newest number, lists the directory, removes all candidates for numbers up to
//!   it, and then the older records from the lowest to the highest.
//!
//! **No number is given twice.** Suppose that a writer links *m* when *m* had been given and removed.
//! It saw that *m* is not taken, and after that record *m* − 1. Records are removed in their order, so
//! *m* had not been removed when it looked, hence not yet been given. Its candidate is older than that
//! look, so it is older than record *m*, which is older than the listing of the cleaner that removed
//! *m*. So it was listed, and removed before *m* was; and without its candidate the writer cannot link.
//!
//! **The record that is found is the newest one.** A reader reads *n*, sees that *n* + 1 is not taken,
//! and then that *n* is still there. Had *n* + 1 been given before, it would have been removed before
//! *n* was.
//!
//! The first record replaces none. That "none" is still there is told by the absence of a file that
//! every cleaner creates before it removes anything. When all records have gone, by somebody's hand or
//! a power cut, all candidates are removed, then that file, and the chain begins again; what it was for
//! is lost, which is for the reader to judge.
//!
//! `chain_model_tests` plays all orders of all steps, and those of protocols with one rule less.

use std::collections::BTreeSet;

use coordination_core::Error;

use crate::{directory::Directory, names, worker::Call};

/// How often a directory is listed before it counts as one without records: names that come and go
/// meanwhile need not be in a list.
const LISTINGS: usize = 3;

/// One chain of records.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Chain {
    name: String,
}

/// The newest record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    /// Its number; 0 when there is none.
    pub(crate) number: u64,
    /// None when there is none.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// What is to be published.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft<'d> {
    /// What it was made from.
    pub(crate) replaces: &'d Newest,
    pub(crate) bytes: &'d [u8],
    /// A second name for the file; then its bytes are on the disk before anybody sees them.
    pub(crate) copy: Option<&'d str>,
}

impl Chain {
    /// The chain whose files' names begin with `name`.
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    /// All chains that have a record.
    pub(crate) fn all(all_names: &[String]) -> BTreeSet<Self> {
        let chain = |name: &String| {
            let (chain, number) = name.split_once(names::RECORD)?;
            number_of(number).map(|_| Self::new(chain))
        };
        all_names.iter().filter_map(chain).collect()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The file of a record.
    pub(crate) fn record(&self, number: u64) -> String {
        format!("{}{}{number}", self.name, names::RECORD)
    }

    fn candidate(&self, number: u64) -> String {
        let unique = fastrand::u128(..);
        format!("{}{}{number}.{unique:032x}", self.name, names::CANDIDATE)
    }

    fn begun(&self) -> String {
        format!("{}{}", self.name, names::BEGUN)
    }

    /// The numbers of all records, in their order.
    pub(crate) fn records(&self, all_names: &[String]) -> BTreeSet<u64> {
        let number = |name: &String| {
            let rest = name.strip_prefix(&self.name)?;
            number_of(rest.strip_prefix(names::RECORD)?)
        };
        all_names.iter().filter_map(number).collect()
    }

    /// The candidates for numbers up to `number`.
    fn candidates<'n>(
        &self,
        all_names: &'n [String],
        number: u64,
    ) -> impl Iterator<Item = &'n str> {
        let is_for = move |name: &&str| {
            let rest = name.strip_prefix(&self.name);
            let rest = rest.and_then(|rest| rest.strip_prefix(names::CANDIDATE));
            let (of, _) = rest
                .and_then(|rest| rest.split_once('.'))
                .unwrap_or_default();
            number_of(of).is_some_and(|of| of <= number)
        };
        all_names.iter().map(String::as_str).filter(is_for)
    }

    /// The newest record. `known` was its number at some time, or is 0.
    pub(crate) fn newest(
        &self,
        directory: &Directory,
        known: u64,
        call: &Call,
    ) -> Result<Newest, Error> {
        let mut number = known;
        loop {
            call.check()?;
            if number == 0 {
                number = self.highest(directory)?;
            }
            if number == 0 {
                return Ok(Newest {
                    number,
                    bytes: None,
                });
            }
            while directory.exists(&self.record(number + 1))? {
                number += 1;
            }
            let bytes = directory.read(&self.record(number))?;
            // The order of the looks matters.
            let is_newest = bytes.is_some()
                && !directory.exists(&self.record(number + 1))?
                && directory.exists(&self.record(number))?;
            if is_newest {
                return Ok(Newest { number, bytes });
            }
            number = 0;
        }
    }

    /// Gives a record its number. Returns whether it was the first to replace that record; if not,
    /// nothing has changed.
    ///
    /// # Errors
    /// When nothing has changed; or, with a copy, when it is not known whether the change survives
    /// a power cut.
    pub(crate) fn publish(
        &self,
        directory: &Directory,
        draft: Draft<'_>,
        call: &Call,
    ) -> Result<bool, Error> {
        if draft.replaces.number == 0 {
            self.begin(directory)?;
        }
        let number = draft.replaces.number + 1;
        let candidate = self.candidate(number);
        let published = directory
            .write_new(&candidate, draft.bytes, draft.copy.is_some())
            .and_then(|()| self.link(directory, &candidate, draft.replaces, call));
        if let (Ok(true), Some(copy)) = (&published, draft.copy) {
            directory.keep_durably(&candidate, copy, draft.bytes)?;
        } else {
            directory.discard([candidate.as_str()]);
        }
        published
    }

    fn link(
        &self,
        directory: &Directory,
        candidate: &str,
        replaces: &Newest,
        call: &Call,
    ) -> Result<bool, Error> {
        call.check()?;
        // The order of the looks matters. Should somebody have put another directory here, in which
        // that number is reached, too, then what is there is not what was read.
        let number = replaces.number;
        let next = self.record(number + 1);
        if directory.exists(&next)? {
            return Ok(false);
        }
        let is_there = match number {
            0 => !directory.exists(&self.begun())? && self.highest(directory)? == 0,
            _ => directory.read(&self.record(number))? == replaces.bytes,
        };
        if !is_there {
            return Ok(false);
        }
        call.start_change()?;
        directory.link(candidate, &next)
    }

    /// The highest number of a record; 0 when there is none.
    fn highest(&self, directory: &Directory) -> Result<u64, Error> {
        for _ in 0..LISTINGS {
            if let Some(highest) = self.records(&directory.names()?).last() {
                return Ok(*highest);
            }
        }
        Ok(0)
    }

    /// Comes before the first record, also after all have gone.
    fn begin(&self, directory: &Directory) -> Result<(), Error> {
        directory.mark_format()?;
        let begun = self.begun();
        if directory.exists(&begun)? && self.highest(directory)? == 0 {
            tracing::warn!(chain = self.name, "all records have gone, beginning again");
            // Whoever was stopped before it replaced one of them must not replace a new one.
            for candidate in self.candidates(&directory.names()?, u64::MAX) {
                directory.remove(candidate)?;
            }
            directory.remove(&begun)?;
        }
        Ok(())
    }

    /// Removes what was there before record `newest`, which the caller has seen.
    pub(crate) fn clean(&self, directory: &Directory, newest: u64) -> Result<(), Error> {
        let all_names = directory.names()?;
        let records = self.records(&all_names);
        let mut old = records.range(..newest).peekable();
        if old.peek().is_none() {
            return Ok(());
        }
        for candidate in self.candidates(&all_names, newest) {
            directory.remove(candidate)?;
        }
        directory.add_mark(&self.begun())?;
        for number in old {
            directory.remove(&self.record(*number))?;
        }
        Ok(())
    }
}

/// The number in a name. None for what we would not write.
fn number_of(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    let ours = number > 0 && number < u64::MAX && number.to_string() == text;
    ours.then_some(number)
}
