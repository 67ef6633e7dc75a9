//! A look at whether a storage works.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::future::join_all;

use crate::{
    DataStorage,
    health::{Change, Problem, Reason},
    pool::{Lane, NoAnswer},
    root::Root,
    space::Space,
};

/// Where probes write. No instance can have this name: in theirs, `=` stands only before dots.
const DIRECTORY: &str = "=probe";
/// The file. Several nodes may write it at a time, always the same.
const FILE: &str = "probe";
const CONTENT: &[u8] = b"kvcm was here\n";

/// Looks at all of them, each root once and all at the same time, and tells the log what has
/// changed. It returns within the time that is given; one that does not answer then has failed.
/// Needs a tokio runtime.
pub async fn probe_all<'a>(storages: impl IntoIterator<Item = &'a DataStorage>, within: Duration) {
    // With the names of the storages that share it.
    let mut roots: Vec<(Arc<Root>, String)> = Vec::new();
    for storage in storages {
        let Some(root) = storage.root() else {
            continue;
        };
        match roots.iter_mut().find(|(known, _)| Arc::ptr_eq(known, root)) {
            Some((_, names)) if names.split(", ").any(|name| name == storage.name()) => {}
            Some((_, names)) => *names = format!("{names}, {}", storage.name()),
            None => roots.push((Arc::clone(root), storage.name().to_owned())),
        }
    }
    let probes = roots.iter().map(async |(root, names)| {
        if let Some(change) = probe(root, within).await {
            tell(names, root, &change);
        }
    });
    join_all(probes).await;
}

/// Tells the log of a change.
pub(crate) fn tell(storage: &str, root: &Root, change: &Change) {
    let root = root.disk.root().display();
    match &change.problem {
        None => tracing::info!(storage, %root, "a data storage works again"),
        Some(problem) => tracing::warn!(
            storage,
            %root,
            level = ?change.to,
            reason = problem.reason.as_str(),
            detail = problem.detail,
            "a data storage takes no new blocks"
        ),
    }
}

/// One look at one root.
pub(crate) async fn probe(root: &Arc<Root>, within: Duration) -> Option<Change> {
    let was_full = root
        .health
        .problem()
        .is_some_and(|problem| problem.reason == Reason::Full);
    let hung = |why| Problem {
        reason: Reason::Hung,
        detail: format!("{}: {why}", root.disk.root().display()),
    };
    let Some(turn) = Turn::take(root) else {
        let problem = hung("an earlier check has not returned");
        return root.health.failed(problem, false);
    };
    let job = move |_: &_| look(&turn.0, was_full);
    match root.pool.run(Lane::Urgent, within, job).await {
        Ok(Ok(space)) => {
            *root.space.lock() = Some(space);
            let change = root.health.succeeded();
            if change.is_some() {
                // What is there now need not be what was there before.
                root.lost();
            }
            change
        }
        Ok(Err(problem)) => root.health.failed(problem, false),
        Err(NoAnswer::Hangs) => {
            let problem = hung("no answer in time");
            root.health.failed(problem, false)
        }
        Err(NoAnswer::NotBegun(why)) => root.health.failed(hung(why), root.pool.is_hung()),
    }
}

/// The right to probe a root. One that hangs keeps it, so that probes take one thread at most.
struct Turn(Arc<Root>);

impl Turn {
    fn take(root: &Arc<Root>) -> Option<Self> {
        let taken = root.probing.swap(true, Ordering::AcqRel);
        (!taken).then(|| Self(Arc::clone(root)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.probing.store(false, Ordering::Release);
    }
}

/// Whether a block can be written, read and deleted.
fn look(root: &Root, was_full: bool) -> Result<Space, Problem> {
    let disk = &root.disk;
    let failed = |error: io::Error| Problem {
        reason: Reason::of(&error),
        detail: format!("{}: {error}", disk.root().display()),
    };
    let handle = disk.make_root().map_err(failed)?;
    let space = disk.space(&handle).map_err(failed)?;
    if let Some(mut problem) = space.problem(was_full) {
        *root.space.lock() = Some(space);
        problem.detail = format!("{}: {}", disk.root().display(), problem.detail);
        return Err(problem);
    }
    let round_trip = || {
        let directory = match disk.open_directory(&handle, DIRECTORY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Somebody has emptied the root, or it is another one.
                root.lost();
                disk.open_or_make_directory(&handle, DIRECTORY)?
            }
            other => other?,
        };
        let read = disk.write_and_read(&directory, FILE, CONTENT)?;
        match disk.remove(&directory, FILE) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if read == CONTENT {
            Ok(())
        } else {
            Err(io::Error::other("what was written is not what is read"))
        }
    };
    round_trip().map_err(failed)?;
    Ok(space)
}
