//! Claiming a directory. See the [module](super) for why the order of the steps is what it is.

use std::fs::File;

use kvcm_fence::{Claim, ClaimRefused, Epoch};

use super::{
    directory::{Directory, UnfitFileSystem},
    file_error::FileError,
    mark,
    names::{self, Names, SegmentId},
    segment::{Before, Header},
};
use crate::{ClaimError, Outcome, RecordError, group};

/// What a claim that was accepted has to go on with.
#[derive(Debug)]
pub(super) struct Claimed {
    /// The claim that stood before.
    pub(super) former: Option<Claim>,
    /// The segment of the new reign.
    pub(super) id: SegmentId,
    /// Its file.
    pub(super) file: File,
    /// Its header.
    pub(super) header: Header,
}

/// Makes `claim` the one that stands, and begins its log.
pub(super) fn claim(directory: &Directory, claim: &Claim) -> Result<Claimed, ClaimError> {
    directory.create().map_err(not_done)?;
    directory.check_file_system().map_err(|error| match error {
        UnfitFileSystem::Shared { .. } => fatal("give the journal another place", error),
        UnfitFileSystem::Unknown(error) => not_done(error),
    })?;
    let former = former(directory)?;
    if let Some(by) = &former {
        refuse(by, claim)?;
    }
    make_visible(directory, claim)?;

    // From here on no writer of an older claim acknowledges anything that is not in its log yet.
    let names = directory.names().map_err(unknown)?;
    overtaken(directory, &names, claim)?;
    let before = names.segments.iter().rfind(|id| id.epoch < claim.epoch);
    let before = before.map(|id| scan(directory, *id)).transpose()?;
    let header = Header {
        claim: claim.clone(),
        base: before.map_or(0, |(_, last)| last),
        before: before.map(|(before, _)| before),
    };
    let id = SegmentId {
        epoch: claim.epoch,
        number: 0,
    };
    let file = begin(directory, id, &header).map_err(unknown)?;
    let file = file.ok_or_else(|| fatal("report this", "the log of a new epoch exists already"))?;
    let names = directory.names().map_err(unknown)?;
    overtaken(directory, &names, claim)?;
    tidy(directory, names, claim.epoch);
    Ok(Claimed {
        former,
        id,
        file,
        header,
    })
}

/// The claim that stands; none where nobody has ever made one.
pub(super) fn standing(directory: &Directory) -> Result<Option<Claim>, ClaimError> {
    match directory.is_there().map_err(not_done)? {
        true => former(directory),
        false => Ok(None),
    }
}

fn former(directory: &Directory) -> Result<Option<Claim>, ClaimError> {
    let names = directory.names().map_err(not_done)?;
    let former = highest(directory, &names)?;
    if former.is_none() && names.has_content() {
        return Err(fatal(
            "restore the files `claim-…` from a backup, or give the journal an empty directory",
            format!(
                "{} holds a journal that has lost its fence",
                directory.path().display()
            ),
        ));
    }
    Ok(former)
}

/// Writes a new segment with nothing but its header; none when there is one of that name.
pub(super) fn begin(
    directory: &Directory,
    id: SegmentId,
    header: &Header,
) -> Result<Option<File>, FileError> {
    // A header is far below the limit of a frame.
    let bytes = header.encode().unwrap_or_default();
    let mut file = directory.begin(id.epoch)?;
    directory.extend(&mut file, &bytes)?;
    directory.finish(file, &names::segment(id))
}

/// The claim with the highest epoch.
fn highest(directory: &Directory, names: &Names) -> Result<Option<Claim>, ClaimError> {
    let Some(epoch) = names.claims.last() else {
        return Ok(None);
    };
    let name = names::claim(*epoch);
    let path = directory.path_of(&name);
    let damaged = |error: RecordError| {
        fatal(
            "restore the file from a backup, or remove it while no node leads",
            format!("{} is damaged: {error}", path.display()),
        )
    };
    let Some(bytes) = directory.read(&name).map_err(not_done)? else {
        // Only a successor removes it.
        return Err(not_done("another node is claiming the journal"));
    };
    mark::decode(bytes).map(Some).map_err(damaged)
}

fn make_visible(directory: &Directory, claim: &Claim) -> Result<(), ClaimError> {
    let bytes = mark::encode(claim).map_err(not_done)?;
    let mut file = directory.begin(claim.epoch).map_err(not_done)?;
    directory.extend(&mut file, &bytes).map_err(not_done)?;
    // Seen by all processes of the host at once. A power cut ends them all, so the name may become
    // durable together with that of the log.
    let made = directory.name(file, &names::claim(claim.epoch));
    if made.map_err(unknown)?.is_some() {
        return Ok(());
    }
    // Somebody else was faster, in the same epoch.
    let names = directory.names().map_err(not_done)?;
    match highest(directory, &names)? {
        Some(by) => refuse(&by, claim),
        None => Err(not_done("another node is claiming the journal")),
    }
}

fn refuse(by: &Claim, claim: &Claim) -> Result<(), ClaimError> {
    let mut fence = kvcm_fence::Fence::restored(Some(by.clone()));
    Ok(fence.claim(claim.clone())?)
}

fn overtaken(directory: &Directory, names: &Names, claim: &Claim) -> Result<(), ClaimError> {
    if names.claims.last() == Some(&claim.epoch) {
        return Ok(());
    }
    match highest(directory, names)? {
        Some(by) => Err(ClaimRefused::Superseded { by }.into()),
        None => Err(not_done("somebody removes the files of the journal")),
    }
}

/// Where the last segment is to be cut, and the number of its last batch.
fn scan(directory: &Directory, id: SegmentId) -> Result<(Before, u64), ClaimError> {
    let name = names::segment(id);
    let path = directory.path_of(&name);
    let Some(mut bytes) = directory.read(&name).map_err(unknown)? else {
        return Err(unknown("somebody removes the files of the journal"));
    };
    let length = bytes.len();
    let header = Header::take(&mut bytes).map_err(|error| {
        fatal(
            "restore the file from a backup, or move it away to go on without its records",
            format!("the header of {} is damaged: {error}", path.display()),
        )
    })?;
    let start = length - bytes.len();
    let found = group::cut(&bytes);
    let records = found
        .pieces
        .last()
        .map(|(_, piece)| group::records(piece).0);
    let last = records.and_then(|records| records.last().map(|record| record.seq));
    let cut = start + found.end;
    if cut < length {
        let torn = length - cut;
        tracing::info!(file = %path.display(), torn, "the last write of the former leader was torn");
    }
    // The predecessor may have died between its write and its sync.
    directory.sync_file(&name).map_err(unknown)?;
    let before = Before {
        id,
        cut: cut as u64,
    };
    Ok((before, last.unwrap_or(header.base)))
}

/// Removes what earlier claimants left.
fn tidy(directory: &Directory, names: Names, epoch: Epoch) {
    let claims = names.claims.iter().filter(|old| **old < epoch);
    let claims: Vec<_> = claims.map(|old| names::claim(*old)).collect();
    let temporary = names.temporary.into_iter();
    let temporary = temporary.filter(|(old, _)| *old < epoch);
    directory.discard(claims.into_iter().chain(temporary.map(|(_, name)| name)));
}

fn fatal(hint: &str, source: impl Into<crate::Source>) -> ClaimError {
    ClaimError::Fatal {
        hint: hint.to_owned(),
        source: source.into(),
    }
}

fn not_done(source: impl Into<crate::Source>) -> ClaimError {
    ClaimError::Unavailable {
        outcome: Outcome::NotDone,
        source: source.into(),
    }
}

fn unknown(source: impl Into<crate::Source>) -> ClaimError {
    ClaimError::Unavailable {
        outcome: Outcome::Unknown,
        source: source.into(),
    }
}
