//! The first phase of a write.

mod creation;

use std::sync::Arc;

use kvcm_index::{Grant, Location, ReserveError, ReservePolicy, State};
use kvcm_registry::Group;

use self::creation::Failed;
use crate::{
    CacheManager, Capacity, Error, ErrorKind, ReplySink, RequestOutcome, Result, Run, SessionId,
    Skipped, StartRequest,
    answered::StartedBefore,
    home::Home,
    manager::{BLOCKS, Shared, has_blocks, require},
    naming::Naming,
    ops::{self, Op},
    placement,
    sessions::Session,
    specs::ALL,
    storages::{Known, Usable},
    view::SpecFilter,
};

/// A write session that has begun.
#[derive(Debug)]
pub struct Started {
    /// Names it in the finish.
    pub session_id: SessionId,
    /// Which keys of the request got no new location: they are there, or being written by another
    /// session, or come twice.
    pub skipped: Skipped,
    /// The new locations.
    pub granted: Granted,
}

/// The locations that a start handed out, one for each new key in request order. Lookups give the
/// same ones later.
#[derive(Debug)]
pub struct Granted {
    home: Arc<Home>,
    grant: Grant,
    keys: Arc<[i64]>,
    wanted: Wanted,
    storage: Option<(Arc<Known>, Arc<Naming>)>,
}

/// The set of specs that each key is written with.
#[derive(Clone, Debug)]
enum Wanted {
    Same(u16),
    Each(Vec<u16>),
}

impl Wanted {
    fn of(&self, at: usize) -> u16 {
        match self {
            Self::Same(set) => *set,
            Self::Each(sets) => sets.get(at).copied().unwrap_or(ALL),
        }
    }

    /// The sets of some of the keys.
    fn pick(&self, numbers: &[u32]) -> Self {
        match self {
            Self::Same(set) => Self::Same(*set),
            Self::Each(sets) => Self::Each(numbers.iter().map(|at| sets[*at as usize]).collect()),
        }
    }
}

impl Granted {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no key was new.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The new keys.
    pub fn keys(&self) -> &[i64] {
        &self.keys
    }

    /// Writes the locations into the sink.
    pub fn write_to(&self, sink: &mut (impl ReplySink + ?Sized)) {
        let Some((known, naming)) = &self.storage else {
            return;
        };
        sink.expect(self.keys.len());
        let mut start = 0;
        while start < self.keys.len() {
            let specs = self.wanted.of(start);
            let end = match &self.wanted {
                Wanted::Same(_) => self.keys.len(),
                Wanted::Each(sets) => {
                    let alike = sets[start..].iter().take_while(|other| **other == specs);
                    start + alike.count()
                }
            };
            let first = Location::new(
                self.grant,
                start as u32,
                known.number,
                specs,
                State::Writing,
            );
            let keys = &self.keys[start..end];
            sink.run(&Run::new(&self.home, &SpecFilter::All, naming, keys, first));
            start = end;
        }
    }
}

impl CacheManager {
    /// Begins a write session: each key that is not there yet and that nobody else is writing gets
    /// a location, which belongs to the session until its finish or until its time is up.
    ///
    /// A key is there when at least `min_replica_count` of its locations, being written or
    /// serving, each hold all the specs that are asked for in a storage that can be used. All new
    /// keys of one call go to one storage, the first that can take them: its directories are there
    /// when this returns. It happens as a whole or not at all.
    ///
    /// # Errors
    /// [`Error::MissingFields`], [`Error::InvalidArgument`] (spec groups, too many keys),
    /// [`Error::InstanceNotExist`], [`Error::Capacity`] (keys of the instance, bytes of the group
    /// or of a storage type, sessions), [`Error::Internal`] (no storage that works, no group), and those of
    /// the journal: [`Error::NotStored`], [`Error::Fenced`], [`Error::Unknown`]; after an unknown
    /// outcome the keys come free by the session's time-out at the latest.
    pub async fn start_write(&self, request: &StartRequest<'_>) -> Result<Started> {
        let Prepared {
            session_id,
            skipped,
            granted,
            mut ops,
            life,
        } = self.reserve(request).await?;
        let shared = Arc::clone(&self.shared);
        let (home, keys) = (Arc::clone(&granted.home), Arc::clone(&granted.keys));
        let grant = granted.grant;
        let storage = granted.storage.as_ref().map(|(known, _)| Arc::clone(known));
        let recorded = request.request.map(|key| ops::Request {
            key,
            outcome: RequestOutcome::Started(Box::new(StartedBefore {
                session: session_id,
                grant,
                storage: storage.as_ref().map_or(0, |known| known.number),
                skipped: skipped.clone(),
            })),
        });
        ops.extend(shared.answered.begin(recorded.as_ref()));
        let settle = move |stored: bool| {
            if stored {
                if let Some(storage) = storage {
                    storage.set_defined();
                    home.share_files(&storage, grant, &keys);
                }
                home.set_defined();
                shared.stats.sessions_started.add(1);
                home.index.confirm(&keys, grant);
                let session = Session {
                    instance_id: Arc::clone(&home.id),
                    home,
                    keys,
                    grant,
                    life,
                };
                shared
                    .sessions
                    .open(session_id, session, shared.clock.now());
            } else {
                shared.release(&home, &keys, grant);
            }
            let now = shared.clock.now();
            shared.answered.settle(recorded, stored, now);
        };
        if let Err(error) = self.log.commit(&ops, settle).await {
            // Whoever reads the journal may find the places in it unless it is certain.
            if error.kind() == ErrorKind::NotStored {
                self.remove_files(&granted).await;
            }
            return Err(error);
        }
        Ok(Started {
            session_id,
            skipped,
            granted,
        })
    }

    /// What a start has granted before, told anew for the same request.
    pub(crate) fn granted_before(
        &self,
        request: &StartRequest<'_>,
        before: &StartedBefore,
    ) -> Result<Started> {
        let home = self.home(request.instance_id)?;
        let keys = self.keys(&home, request.blocks)?;
        let wanted = wanted(&home, request.spec_group_names, keys.len())?;
        let is_new = |at: &u32| match &before.skipped {
            Skipped::Offset(skipped) => *at as usize >= *skipped,
            Skipped::Bools(skipped) => skipped.get(*at as usize) == Some(&false),
        };
        let new: Vec<u32> = (0..keys.len() as u32).filter(is_new).collect();
        let storages = self.shared.storages.list();
        let storage = storages.get(before.storage).and_then(|known| {
            let naming = Arc::clone(home.named(&storages).get(known.number)?);
            Some((Arc::clone(known), naming))
        });
        Ok(Started {
            session_id: before.session,
            skipped: before.skipped.clone(),
            granted: Granted {
                keys: new.iter().map(|at| keys[*at as usize]).collect(),
                wanted: wanted.pick(&new),
                home,
                grant: before.grant,
                storage: storage.filter(|_| !new.is_empty()),
            },
        })
    }

    /// Everything before the journal but what a storage needs: reserves the keys, in a storage that
    /// has not failed.
    fn prepare(&self, request: &StartRequest<'_>, failed: &[Failed]) -> Result<Prepared> {
        require(&[
            ("instance_id", !request.instance_id.is_empty()),
            (BLOCKS, has_blocks(request.blocks)),
        ])?;
        let home = self.home(request.instance_id)?;
        let keys = self.keys(&home, request.blocks)?;
        let wanted = wanted(&home, request.spec_group_names, keys.len())?;
        let (open, most) = (self.shared.sessions.len(), self.config.sessions_max);
        if open >= most {
            return Err(Error::Capacity(Capacity {
                limit: "the limit sessions_max of open write sessions".into(),
                unit: "sessions",
                used: open as u64,
                requested: 1,
                capacity: i64::try_from(most).unwrap_or(i64::MAX),
            }));
        }
        let group_name = &home.instance.group;
        let group = self.registry.group(group_name).ok_or_else(|| {
            Error::Internal(format!("instance group `{group_name}` does not exist"))
        })?;
        let mut candidates = placement::candidates(&self.registry, &self.shared.storages, &group)?;
        candidates.retain(|known| failed.iter().all(|failed| failed.storage != known.number));
        if let (true, Some(failed)) = (candidates.is_empty(), failed.last()) {
            return Err(Error::Internal(failed.error.to_string()));
        }
        let storages = self.shared.storages.list();
        let mut policy = Policy {
            home: &home,
            group: &group,
            candidates: &candidates,
            usable: storages.usable(&self.registry),
            wanted: &wanted,
            replicas: usize::try_from(request.min_replica_count)
                .unwrap_or(0)
                .max(1),
            chosen: None,
        };
        let max_keys = group.cache_config.meta_indexer_config.max_key_count;
        let grant = self.next_grant();
        let new = home
            .index
            .reserve(
                &keys,
                grant,
                usize::try_from(max_keys).unwrap_or(0),
                self.shared.now_s(),
                &mut policy,
            )
            .map_err(|error| match error {
                ReserveError::Policy(error) => error,
                ReserveError::Full(full) => Error::Capacity(Capacity {
                    limit: format!("max_key_count of instance `{}`", home.id),
                    unit: "keys",
                    used: full.used as u64,
                    requested: full.requested as u64,
                    capacity: max_keys,
                }),
            })?;
        let storage = policy.chosen.and_then(|known| {
            let named = home.named(&self.shared.storages.list());
            let naming = Arc::clone(named.get(known.number)?);
            Some((known, naming))
        });
        let mut life = self.config.session_life(request.write_timeout_seconds);
        if new.is_empty() {
            life = life.min(self.config.empty_session_life);
        }
        let session_id = SessionId::random(&mut fastrand::Rng::new());
        let granted = Granted {
            keys: new.iter().map(|at| keys[*at as usize]).collect(),
            wanted: wanted.pick(&new),
            home,
            grant,
            storage,
        };
        Ok(Prepared {
            session_id,
            skipped: Skipped::new(&new, keys.len()),
            ops: operations(session_id, &granted, life),
            granted,
            life,
        })
    }
}

struct Prepared {
    session_id: SessionId,
    skipped: Skipped,
    granted: Granted,
    ops: Vec<Op>,
    life: std::time::Duration,
}

fn operations(session: SessionId, granted: &Granted, life: std::time::Duration) -> Vec<Op> {
    let storage = granted.storage.as_ref().map(|(known, _)| &**known);
    let specs = &granted.home.specs;
    // Groups go by name: numbers would tie the journal to the order of the registration.
    let (groups, group_of_key) = match &granted.wanted {
        Wanted::Same(set) => (vec![specs.group(*set).to_owned()], Vec::new()),
        Wanted::Each(sets) => {
            let mut used = sets.clone();
            used.sort_unstable();
            used.dedup();
            let place = |set: &u16| used.partition_point(|used| used < set) as u16;
            let of_key = sets.iter().map(place).collect();
            let names = used.iter().map(|set| specs.group(*set).to_owned());
            (names.collect(), of_key)
        }
    };
    let start = Op::Start(ops::Start {
        session,
        instance: granted.home.id.as_ref().to_owned(),
        fingerprint: granted.home.fingerprint,
        grant: granted.grant,
        life_ms: u32::try_from(life.as_millis()).unwrap_or(u32::MAX),
        storage: storage.map_or(0, |known| known.number),
        groups,
        group_of_key,
        keys: granted.keys.to_vec(),
    });
    let storage = storage.and_then(Known::definition).map(Op::DefineStorage);
    let instance = granted.home.definition().map(Op::DefineInstance);
    storage.into_iter().chain(instance).chain([start]).collect()
}

fn wanted(home: &Home, names: &[String], keys: usize) -> Result<Wanted> {
    if names.is_empty() {
        return Ok(Wanted::Same(ALL));
    }
    if names.len() != keys {
        return Err(Error::invalid(format!(
            "location_spec_group_names has {} names for {keys} keys, it needs one per key or none",
            names.len()
        )));
    }
    let number = |name: &String| {
        home.specs.number(name).ok_or_else(|| {
            Error::invalid(format!(
                "location_spec_group_names: instance `{}` has no spec group `{name}`",
                home.id
            ))
        })
    };
    let first = number(&names[0])?;
    if names.iter().all(|name| *name == names[0]) {
        return Ok(Wanted::Same(first));
    }
    Ok(Wanted::Each(
        names.iter().map(number).collect::<Result<_>>()?,
    ))
}

struct Policy<'a> {
    home: &'a Home,
    group: &'a Group,
    candidates: &'a [Arc<Known>],
    usable: Usable,
    wanted: &'a Wanted,
    replicas: usize,
    chosen: Option<Arc<Known>>,
}

impl ReservePolicy for Policy<'_> {
    type Error = Error;

    fn is_satisfied(&self, at: usize, locations: &[Location]) -> bool {
        let wanted = self.wanted.of(at);
        // One that is being deleted does not count: the new one has another path.
        let counts = |location: &&Location| {
            location.state() != State::Deleting
                && self.home.specs.covers(location.specs(), wanted)
                && self.usable.contains(location.storage())
        };
        locations.iter().filter(counts).take(self.replicas).count() == self.replicas
    }

    fn specs(&self, at: usize) -> u16 {
        self.wanted.of(at)
    }

    fn place(&mut self, new: &[u32]) -> Result<u16> {
        let specs = &self.home.specs;
        let bytes = match self.wanted {
            Wanted::Same(set) => specs.bytes(*set).saturating_mul(new.len() as u64),
            Wanted::Each(sets) => new.iter().map(|at| specs.bytes(sets[*at as usize])).sum(),
        };
        let kinds = self.candidates.iter().map(|known| known.kind());
        let at = self.home.usage.take(self.group, kinds, bytes)?;
        let chosen = &self.candidates[at];
        self.chosen = Some(Arc::clone(chosen));
        Ok(chosen.number)
    }
}

impl Shared {
    /// The locations of a grant go, and their bytes come back.
    pub(crate) fn release(&self, home: &Home, keys: &[i64], grant: Grant) {
        home.freeing(&self.storages.list(), |drop| {
            home.index.release(keys, grant, drop);
        });
    }
}
