//! Creation of directories, and of files where that is asked for.

use std::{io, os::fd::OwnedFd, sync::Arc, time::Duration};

use crate::{
    Place,
    disk::Disk,
    grant::{directory_name, directory_of_name},
    health::{Problem, Reason},
    pool::{Call, Lane, NoAnswer},
    root::Root,
    way::{Blocked, Way},
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

/// Directories to make.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// What they are in, below the root.
    pub(crate) parent: String,
    /// The one that has to be there.
    pub(crate) number: usize,
    /// Others, which will be needed soon.
    pub(crate) ahead: Vec<usize>,
    /// Whether to look for all that are there, when the first one is.
    pub(crate) looks: bool,
}

/// The numbers of directories that are there.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) numbers: Vec<usize>,
    /// All of them were looked for.
    pub(crate) has_looked: bool,
}

/// Makes directories and empty files. Gives the directories that are known to be there now, for each
/// of `wanted`.
///
/// # Errors
/// [`Failure`]. Files that it made are removed again then, if that works.
pub(crate) async fn create(
    root: &Arc<Root>,
    wanted: Vec<Wanted>,
    files: Vec<Place>,
    within: Duration,
) -> Result<Vec<Known>, Failure> {
    let (job_root, path) = (Arc::clone(root), root.disk.root().display());
    let job = move |call: &Call| create_all(&job_root.disk, &wanted, &files, call);
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

fn create_all(
    disk: &Disk,
    wanted: &[Wanted],
    files: &[Place],
    call: &Call,
) -> Result<Vec<Known>, Problem> {
    let mut way = Way::making(disk);
    let mut made_files = 0;
    let mut make = || {
        let mut known = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            known.push(make_directories(disk, &mut way, wanted, call)?);
        }
        for place in files {
            check_awaited(call)?;
            let (directory, name) = place.split();
            let parent = way.to(directory).map_err(Blocked::into_error)?;
            disk.create(parent, name)?;
            made_files += 1;
        }
        // Nobody learns of them when the caller has gone.
        check_awaited(call)?;
        Ok(known)
    };
    let made = make();
    made.map_err(|error: io::Error| {
        for place in &files[..made_files] {
            let (directory, name) = place.split();
            if let Ok(parent) = way.to(directory) {
                // What is left is one empty file.
                let _ = disk.remove(parent, name);
            }
        }
        Problem {
            reason: Reason::of(&error),
            detail: format!("{}: {error}", disk.root().display()),
        }
    })
}

fn check_awaited(call: &Call) -> io::Result<()> {
    if call.is_awaited() {
        Ok(())
    } else {
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// Makes the directory that has to be there, and those ahead as far as that works. When the first one
/// is there already, made by the leader before for instance, it looks for all of his.
fn make_directories(
    disk: &Disk,
    way: &mut Way<'_>,
    wanted: &Wanted,
    call: &Call,
) -> io::Result<Known> {
    check_awaited(call)?;
    let parent = way.to(&wanted.parent).map_err(Blocked::into_error)?;
    let mut numbers = vec![wanted.number];
    let is_new = make_directory(disk, parent, wanted.number)?;
    let mut has_looked = false;
    if wanted.looks && !is_new {
        let found = disk.list_directories(parent, |name| numbers.extend(directory_of_name(name)));
        // Without it they are found one by one.
        has_looked = found.is_ok();
    }
    for number in wanted.ahead.iter().copied() {
        if !call.is_awaited() || make_directory(disk, parent, number).is_err() {
            break;
        }
        numbers.push(number);
    }
    Ok(Known {
        numbers,
        has_looked,
    })
}

/// Makes the directory of this number; says whether it was missing.
fn make_directory(disk: &Disk, parent: &OwnedFd, number: usize) -> io::Result<bool> {
    let name = directory_name(number);
    let is_new = disk.make_directory(parent, &name[..])?;
    if !is_new {
        // That it is no link, for instance.
        disk.open_directory(parent, &name[..])?;
    }
    Ok(is_new)
}
