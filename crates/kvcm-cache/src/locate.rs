//! Lookups.

use std::{borrow::Cow, sync::Arc};

use kvcm_index::{Counter, Location, LocationSink};

use crate::{
    CacheManager, Error, LocateLenRequest, LocateRequest, Mask, QueryType, ReplySink, Result, Run,
    View,
    home::Home,
    manager::require_lookup,
    placement,
    select::Selector,
    storages::{List, Usable},
    view::SpecFilter,
};

impl CacheManager {
    /// Writes the locations of the request's keys into the sink and returns the number of hits.
    /// A lookup counts as a use of the keys that it hits.
    ///
    /// Prefix match: the locations of the unmasked keys up to the first that cannot be read. The
    /// others: one entry per key, placeholders where there is nothing to read; a window match fills
    /// only its window. A location in a storage that is disabled or gone cannot be read.
    ///
    /// # Errors
    /// [`Error::MissingFields`], [`Error::InvalidArgument`] (window, mask, too many keys),
    /// [`Error::InstanceNotExist`], [`Error::Internal`] when all storages of the group are
    /// unavailable. The sink got nothing then.
    pub fn locate(
        &self,
        request: &LocateRequest<'_>,
        sink: &mut (impl ReplySink + ?Sized),
    ) -> Result<usize> {
        require_lookup(request)?;
        let lookup = self.lookup(request)?;
        let keys = self.keys(&lookup.home, request.blocks)?;
        let keys = request.asked(&keys)?;
        let mut answers = Answers::default();
        let hits = lookup.run(request, &keys, self.shared.now_s(), &mut answers)?;
        let Lookup { home, filter, .. } = &lookup;
        // Listed after the look, so that every storage that was found has its name.
        let named = home.named(&self.shared.storages.list());
        sink.expect(answers.count());
        let mut keys = &keys[..];
        for Piece { first, length } in answers.0 {
            let (its, others) = keys.split_at(length);
            keys = others;
            match first.and_then(|first| Some((first, named.get(first.storage())?))) {
                Some((first, naming)) => sink.run(&Run::new(home, filter, naming, its, first)),
                None => {
                    for key in its {
                        sink.location(&View::new(home, filter, *key, None));
                    }
                }
            }
        }
        Ok(hits)
    }

    /// The number of keys that the same lookup, without mask, would hit.
    ///
    /// # Errors
    /// As [`locate`](Self::locate).
    pub fn locate_len(&self, request: &LocateLenRequest<'_>) -> Result<usize> {
        let request = LocateRequest {
            instance_id: request.instance_id,
            query: request.query,
            blocks: request.blocks,
            mask: Mask::None,
            window: request.window,
            spec_names: &[],
        };
        require_lookup(&request)?;
        let lookup = self.lookup(&request)?;
        let keys = self.keys(&lookup.home, request.blocks)?;
        let keys = request.asked(&keys)?;
        lookup.run(
            &request,
            &keys,
            self.shared.now_s(),
            &mut Counter::default(),
        )
    }

    fn lookup(&self, request: &LocateRequest<'_>) -> Result<Lookup> {
        let home = self.home(request.instance_id)?;
        // A group that is gone has no candidates; what was written is still there.
        if let Some(group) = self.registry.group(&home.instance.group) {
            placement::available(&self.registry, &group)?;
        }
        let storages = self.shared.storages.list();
        Ok(Lookup {
            filter: SpecFilter::new(&home.instance, request.spec_names),
            usable: storages.usable(&self.registry),
            storages,
            home,
        })
    }
}

impl LocateRequest<'_> {
    /// The keys that are looked at, of those of the request.
    fn asked<'a>(&self, keys: &'a [i64]) -> Result<Cow<'a, [i64]>> {
        match self.query {
            QueryType::PrefixMatch => {
                self.mask.check("block_mask")?;
                Ok(unmasked(keys, self.mask))
            }
            QueryType::BatchGet | QueryType::ReverseRollWindow => Ok(Cow::Borrowed(keys)),
        }
    }
}

/// What one lookup works on.
struct Lookup {
    home: Arc<Home>,
    filter: SpecFilter,
    storages: List,
    usable: Usable,
}

impl Lookup {
    fn run(
        &self,
        request: &LocateRequest<'_>,
        keys: &[i64],
        now_s: u32,
        sink: &mut impl LocationSink,
    ) -> Result<usize> {
        let selector = Selector {
            home: &self.home,
            storages: &self.storages,
            usable: &self.usable,
            filter: &self.filter,
        };
        let select = |locations: &[Location]| selector.select(locations);
        let index = &self.home.index;
        Ok(match request.query {
            QueryType::BatchGet => index.get_batch(keys, now_s, select, sink),
            QueryType::PrefixMatch => index.match_prefix(keys, now_s, select, sink),
            // Tokens of less than one block: there is nothing that a window could be too long for.
            QueryType::ReverseRollWindow if keys.is_empty() && request.window > 0 => 0,
            QueryType::ReverseRollWindow => {
                let window = window(request.window, keys.len())?;
                index.match_window(keys, window, now_s, select, sink)
            }
        })
    }
}

fn window(window: i32, keys: usize) -> Result<usize> {
    // A window of nothing is found everywhere and nowhere.
    usize::try_from(window)
        .ok()
        .filter(|window| (1..=keys).contains(window))
        .ok_or_else(|| {
            Error::invalid(format!(
                "sw_size is {window}, it must be from 1 to the number of keys ({keys})"
            ))
        })
}

/// The keys that are not masked.
fn unmasked<'a>(keys: &'a [i64], mask: Mask<'_>) -> Cow<'a, [i64]> {
    match mask {
        Mask::None => Cow::Borrowed(keys),
        Mask::Offset(offset) => {
            let masked = usize::try_from(offset).unwrap_or(0).min(keys.len());
            Cow::Borrowed(&keys[masked..])
        }
        Mask::Bools(_) => {
            let keys = keys.iter().enumerate();
            let unmasked = keys.filter(|(at, _)| !mask.contains(*at));
            Cow::Owned(unmasked.map(|(_, key)| *key).collect())
        }
    }
}

/// Notes what the index finds, so that the answer is written without its lock.
#[derive(Debug, Default)]
struct Answers(Vec<Piece>);

/// Answers to some neighbouring keys.
#[derive(Debug)]
struct Piece {
    /// The location of the first, which those of the others follow; none: nothing to read.
    first: Option<Location>,
    length: usize,
}

impl Answers {
    /// How many keys are answered.
    fn count(&self) -> usize {
        self.0.iter().map(|piece| piece.length).sum()
    }

    fn push(&mut self, first: Option<Location>, length: usize) {
        if let Some(last) = self.0.last_mut() {
            let next = last.first.map(|first| first.nth(last.length as u32));
            if next == first {
                last.length += length;
                return;
            }
        }
        self.0.push(Piece { first, length });
    }
}

impl LocationSink for Answers {
    fn run(&mut self, keys: &[i64], first: &Location) {
        self.push(Some(*first), keys.len());
    }

    fn placeholder(&mut self) {
        self.push(None, 1);
    }
}
