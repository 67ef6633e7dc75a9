//! The backend.

use std::{
    collections::HashMap,
    fmt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use coordination_core::{
    Backend, DeleteOutcome, Error, Expect, HintStream, Holder, LockOutcome, Owner, RenewOutcome,
    Reservation, SetOutcome, TryLock, UnlockOutcome, Value, validate,
};
use kvcm_clock::{Clock, Moment};
use kvcm_fence::Epoch;
use kvcm_uri::Uri;
use tokio::sync::watch;

use crate::{
    Options,
    directory::Directory,
    host::{self, Process},
    lives::Lives,
    options,
    store::Store,
    watch::Watch,
    worker::Worker,
};

/// Locks and values in a directory of this host.
///
/// Dropping it is, for other processes, the death of all owners that took locks through it; a
/// process has one.
pub struct FileBackend {
    description: String,
    worker: Arc<Worker>,
    lives: Arc<Lives>,
    clock: Arc<dyn Clock>,
    directory: Arc<Path>,
    /// Something was acquired, and nothing was tidied since.
    is_untidy: AtomicBool,
    /// Dropped with the backend, which ends the watches.
    end: watch::Sender<()>,
}

impl FileBackend {
    /// Opens the directory `dir`, which comes into being when it is missing. `clock` must be the
    /// host's [`BootClock`](kvcm_clock::BootClock), but in tests: processes compare its moments.
    ///
    /// # Errors
    /// `Fatal` when the directory cannot be used: permissions, or a file system of several hosts
    /// that [`Options::allow_network_fs`] does not allow.
    pub fn open(dir: &Path, options: Options, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        Self::open_on(dir, options, clock, host::clock_name()?)
    }

    /// Opens `file:///dir[?allow_network_fs=true]`.
    ///
    /// # Errors
    /// `Fatal` when the URI has mistakes, or as [`FileBackend::open`].
    pub fn from_uri(uri: &Uri, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let (dir, options) = options::from_uri(uri)?;
        Self::open(&dir, options, clock)
    }

    /// The same on a clock that has a name of its own.
    pub(crate) fn open_on(
        dir: &Path,
        options: Options,
        clock: Arc<dyn Clock>,
        clock_name: String,
    ) -> Result<Self, Error> {
        let lives = Arc::new(Lives::new());
        let store = Store {
            directory: Directory::open(dir, options)?,
            lives: lives.clone(),
            clock: clock.clone(),
            clock_name,
            process: Process::own(),
            seen: HashMap::new(),
            numbers: HashMap::new(),
            awaited: HashMap::new(),
        };
        let worker = Worker::start(store, clock.clone()).map_err(|error| {
            let hint = "raise the limit of threads of the process";
            Error::fatal(hint, error)
        })?;
        worker.post(Store::tidy);
        let (end, _) = watch::channel(());
        Ok(Self {
            description: format!("file://{}", dir.display()),
            worker: Arc::new(worker),
            lives,
            clock,
            directory: dir.into(),
            is_untidy: AtomicBool::new(false),
            end,
        })
    }
}

// === impl Backend ===

#[async_trait]
impl Backend for FileBackend {
    fn describe(&self) -> String {
        self.description.clone()
    }

    async fn try_lock(&self, request: TryLock<'_>, deadline: Moment) -> Result<LockOutcome, Error> {
        validate::try_lock(&request)?;
        let (key, owner) = (request.key.to_owned(), request.owner.clone());
        let info = request.info.to_owned();
        let (ttl, floor, presumed_dead) = (request.ttl, request.floor, request.presumed_dead);
        let job = move |store: &mut Store, call: &_| {
            let request = TryLock {
                key: &key,
                owner: &owner,
                ttl,
                floor,
                info: &info,
                presumed_dead,
            };
            store.try_lock(&request, call)
        };
        let outcome = self.worker.run(deadline, job).await?;
        if matches!(&outcome, LockOutcome::Acquired(acquired) if !acquired.repeated) {
            self.is_untidy.store(true, Ordering::Relaxed);
        }
        Ok(outcome)
    }

    async fn renew_lock(
        &self,
        key: &str,
        owner: &Owner,
        epoch: Epoch,
        ttl: Duration,
        info: &str,
        deadline: Moment,
    ) -> Result<RenewOutcome, Error> {
        validate::key(key)?;
        validate::ttl(ttl)?;
        let (key, owner, info) = (key.to_owned(), owner.clone(), info.to_owned());
        let job = move |store: &mut Store, call: &_| {
            store.renew_lock(&key, &owner, epoch, ttl, &info, call)
        };
        let outcome = self.worker.run(deadline, job).await?;
        // Not right after the acquisition: a hand-over should not wait for it, nor what the new
        // holder asks for first.
        if self.is_untidy.swap(false, Ordering::Relaxed) {
            self.worker.post(Store::tidy);
        }
        Ok(outcome)
    }

    async fn unlock(
        &self,
        key: &str,
        owner: &Owner,
        epoch: Epoch,
        reserve_for: Option<&Reservation>,
        deadline: Moment,
    ) -> Result<UnlockOutcome, Error> {
        validate::key(key)?;
        let (key, owner) = (key.to_owned(), owner.clone());
        let wish = reserve_for.cloned();
        let job = move |store: &mut Store, call: &_| {
            store.unlock(&key, &owner, epoch, wish.as_ref(), call)
        };
        self.worker.run(deadline, job).await
    }

    async fn lock_holder(&self, key: &str, deadline: Moment) -> Result<Option<Holder>, Error> {
        validate::key(key)?;
        let key = key.to_owned();
        let job = move |store: &mut Store, call: &_| store.lock_holder(&key, call);
        self.worker.run(deadline, job).await
    }

    async fn set_value(
        &self,
        key: &str,
        text: &str,
        ttl: Option<Duration>,
        expect: Expect,
        deadline: Moment,
    ) -> Result<SetOutcome, Error> {
        validate::key(key)?;
        ttl.map_or(Ok(()), validate::ttl)?;
        let (key, text) = (key.to_owned(), text.to_owned());
        let job =
            move |store: &mut Store, call: &_| store.set_value(&key, &text, ttl, expect, call);
        self.worker.run(deadline, job).await
    }

    async fn get_value(&self, key: &str, deadline: Moment) -> Result<Option<Value>, Error> {
        validate::key(key)?;
        let key = key.to_owned();
        let job = move |store: &mut Store, call: &_| store.get_value(&key, call);
        self.worker.run(deadline, job).await
    }

    async fn delete_value(
        &self,
        key: &str,
        expect: Expect,
        deadline: Moment,
    ) -> Result<DeleteOutcome, Error> {
        validate::key(key)?;
        let key = key.to_owned();
        let job = move |store: &mut Store, call: &_| store.delete_value(&key, expect, call);
        self.worker.run(deadline, job).await
    }

    async fn list_values(
        &self,
        prefix: &str,
        deadline: Moment,
    ) -> Result<Vec<(String, Value)>, Error> {
        validate::prefix(prefix)?;
        let prefix = prefix.to_owned();
        let job = move |store: &mut Store, call: &_| store.list_values(&prefix, call);
        self.worker.run(deadline, job).await
    }

    fn watch(&self, key: &str) -> HintStream {
        let watch = Watch::new(
            key,
            &self.directory,
            Arc::downgrade(&self.worker),
            self.clock.clone(),
            self.end.subscribe(),
        );
        watch.into_stream()
    }
}

impl Drop for FileBackend {
    fn drop(&mut self) {
        // Here and not when the thread ends: whoever sees the drop return can count on it.
        self.lives.end();
    }
}

impl fmt::Debug for FileBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileBackend({})", self.description)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use coordination_core::{Outcome, UnlockOutcome};
    use futures_util::poll;
    use kvcm_clock::BootClock;
    use kvcm_fence::Incarnation;
    use tempfile::TempDir;

    use super::*;

    /// A disk that hangs for as long as it is kept.
    fn hang(backend: &FileBackend) -> mpsc::SyncSender<()> {
        let (hung, end) = mpsc::sync_channel(0);
        backend.worker.post(move |_| end.recv().unwrap_or_default());
        hung
    }

    #[tokio::test]
    async fn a_call_fails_at_its_deadline_or_is_given_up_and_does_not_happen_later() {
        let dir = TempDir::new().unwrap();
        let clock = Arc::new(BootClock);
        let backend = FileBackend::open(dir.path(), Options::default(), clock).unwrap();
        let owner = Owner {
            node: "a".parse().unwrap(),
            incarnation: Incarnation::random(),
        };
        let request = TryLock {
            key: "k",
            owner: &owner,
            ttl: Duration::from_secs(600),
            floor: Epoch::ZERO,
            info: "",
            presumed_dead: None,
        };
        let outcome = backend.try_lock(request, Moment::NEVER).await.unwrap();
        let LockOutcome::Acquired(acquired) = outcome else {
            panic!("{outcome:?}");
        };
        let unlock = |deadline| backend.unlock("k", &owner, acquired.epoch, None, deadline);
        let hung = hang(&backend);
        let mut given_up = unlock(Moment::NEVER);
        assert!(poll!(&mut given_up).is_pending());
        drop(given_up);
        let late = unlock(BootClock.now() + Duration::from_millis(10)).await;
        assert!(matches!(
            late,
            Err(Error::Unavailable {
                outcome: Outcome::NotDone,
                ..
            })
        ));
        drop(hung);
        let holder = backend.lock_holder("k", Moment::NEVER).await.unwrap();
        assert_eq!(holder.unwrap().epoch, acquired.epoch);
        let unlocked = unlock(Moment::NEVER).await.unwrap();
        assert_eq!(unlocked, UnlockOutcome::Unlocked);
    }
}
