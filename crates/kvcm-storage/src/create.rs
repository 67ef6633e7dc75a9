//! Creation of directories, and of files where that is asked for.

use std::{io, os::fd::OwnedFd, sync::Arc, time::Duration};

use crate::{
    Place,
    health::{Problem, Reason},
    pool::{Call, Lane, NoAnswer},
    root::Root,
};

/// Why nothing could be made.
pub(crate) struct Failure {
    pub(crate) problem: Problem,
    /// What it says of the storage.
    pub(crate) weight: Weight,
}

/// What a failure says of the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Nothing: its threads were busy with others.
    Nothing,
    /// As much as a check that failed.
    Check,
    /// That it is down.
    Certain,
}

/// Makes the directories of the places, and the empty files when `with_files`.
///
/// # Errors
/// [`Failure`]. Files that it made are removed again then, if that works.
pub(crate) async fn create(
    root: &Arc<Root>,
    places: Vec<Place>,
    with_files: bool,
    within: Duration,
) -> Result<(), Failure> {
    let (job_root, path) = (Arc::clone(root), root.disk.root().display());
    let job = move |call: &Call| create_all(&job_root, &places, with_files, call);
    let hung = |detail, weight| Failure {
        problem: Problem {
            reason: Reason::Hung,
            detail: format!("{path}: {detail}"),
        },
        weight,
    };
    match root.pool.run(Lane::Urgent, within, job).await {
        Ok(created) => created.map_err(|problem| Failure {
            problem,
            weight: Weight::Check,
        }),
        Err(NoAnswer::Hangs) => Err(hung("no answer in time", Weight::Check)),
        Err(NoAnswer::NotBegun(why)) if root.pool.is_hung() => Err(hung(why, Weight::Certain)),
        Err(NoAnswer::NotBegun(why)) => Err(hung(why, Weight::Nothing)),
    }
}

fn create_all(root: &Root, places: &[Place], with_files: bool, call: &Call) -> Result<(), Problem> {
    let mut made = Vec::new();
    let created = places.iter().try_for_each(|place| {
        if !call.is_awaited() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let (directory, name) = place.split();
        let parent = make_path(root, directory)?;
        if with_files {
            root.disk.create(&parent, name)?;
            made.push((parent, name));
        }
        Ok(())
    });
    created.map_err(|error: io::Error| {
        for (parent, name) in made {
            // What is left is one empty file.
            let _ = root.disk.remove(parent, name);
        }
        Problem {
            reason: Reason::of(&error),
            detail: format!("{}: {error}", root.disk.root().display()),
        }
    })
}

/// The directory of this path below the root, made where it is missing.
fn make_path(root: &Root, path: &str) -> io::Result<OwnedFd> {
    let mut handle = root.disk.make_root()?;
    for segment in path.split('/') {
        handle = root.disk.open_or_make_directory(&handle, segment)?;
    }
    Ok(handle)
}
