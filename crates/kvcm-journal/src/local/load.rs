//! Reading the directory.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    sync::Arc,
};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::{
    directory::Directory,
    file_error::FileError,
    names::{self, Names, SegmentId},
    segment::Header,
    snapshot_file,
    store::{LocalStore, Reign},
};
use crate::{
    LoadError, LoadSink, Loaded, LogSize,
    group::{self, Piece},
    replay::Replay,
    store::StoreError,
};

/// How often files may vanish under a load because their writer drops what a new snapshot covers.
const TRIES: usize = 5;
/// Where a header ends at the latest.
const HEADER_BYTES: u64 = 1024;

/// Bytes of the log that are handed over at once.
const STEP_BYTES: usize = 1 << 20;

/// What the thread hands over. At most one waits, so that it is at most one file ahead.
enum Step {
    Through(u64),
    Chunk(u64, u16, Bytes),
    Pieces(String, Vec<(usize, Piece)>),
    Skip(String, String),
}

/// See [`Store::load`](crate::store::Store::load).
pub(super) async fn load(
    store: &LocalStore,
    sink: &mut (dyn LoadSink + Send),
) -> Result<(Loaded, LogSize), LoadError> {
    let (steps, mut given) = mpsc::channel(1);
    let reign = store.reign.clone();
    let reading = store.disk.run(move || read(&reign, &steps));
    // A sink that gives up drops the receiver, and the thread stops.
    let feeding = async move {
        let mut replay = Replay::new(store.reign.claim.cluster.clone());
        while let Some(step) = given.recv().await {
            feed(&mut replay, step, sink)?;
            // So that a load can be dropped, and other tasks run.
            tokio::task::yield_now().await;
        }
        Ok::<_, LoadError>(replay)
    };
    let (read, fed) = tokio::join!(reading, feeding);
    let replay = fed?;
    let read = read.map_err(|no_answer| unavailable(no_answer.why))?;
    read.map_err(|error| match error {
        StoreError::Fenced(fenced) => LoadError::Fenced(fenced),
        StoreError::WentBack(_) => unavailable("the journal went back in time"),
        StoreError::Unavailable(why) => unavailable(why),
    })?;
    Ok(replay.finish("the end of the log", store.reign.header.base))
}

fn feed(
    replay: &mut Replay,
    step: Step,
    sink: &mut (dyn LoadSink + Send),
) -> Result<(), LoadError> {
    match step {
        Step::Through(through) => replay.snapshot_through(through),
        Step::Chunk(through, version, chunk) => replay.chunk(through, version, chunk, sink)?,
        Step::Skip(place, reason) => replay.skip(&place, reason),
        Step::Pieces(file, pieces) => {
            for (at, piece) in pieces {
                replay.piece(|| format!("{file}, byte {at}"), &piece, sink)?;
            }
        }
    }
    Ok(())
}

/// Reads everything and hands it over; stops early when nobody takes it.
fn read(reign: &Reign, steps: &mpsc::Sender<Step>) -> Result<(), StoreError> {
    let failed = |error: FileError| StoreError::Unavailable(error.to_string());
    let mut log = reign.log.lock();
    reign.check(&log)?;
    let selected = Selected::find(reign).map_err(failed)?;
    log.closed = selected.closed.clone();
    let mut give = |step| steps.blocking_send(step).is_ok();
    for (place, reason) in selected.skipped {
        if !give(Step::Skip(place, reason)) {
            return Ok(());
        }
    }
    if let Some((name, bytes)) = selected.snapshot
        && !give_snapshot(&name, bytes, &mut give)
    {
        return Ok(());
    }
    for part in selected.parts.into_iter().rev() {
        let name = names::segment(part.id);
        let bytes = part.read(&reign.directory).map_err(failed)?;
        let found = group::cut(&bytes);
        let mut pieces = found.pieces;
        if found.end < bytes.len() {
            // It was whole when it was cut here.
            let reason = crate::RecordError::Malformed("it was whole at the end of its reign");
            let bytes = bytes.slice(found.end..);
            pieces.push((found.end, Piece::Damaged { bytes, reason }));
        }
        for step in steps_of(pieces) {
            if !give(Step::Pieces(name.clone(), step)) {
                return Ok(());
            }
        }
    }
    // A successor may have dropped files meanwhile.
    reign.check(&log)
}

/// Puts pieces together to steps that are worth handing over.
fn steps_of(pieces: Vec<(usize, Piece)>) -> impl Iterator<Item = Vec<(usize, Piece)>> {
    let mut pieces = pieces.into_iter();
    std::iter::from_fn(move || {
        let mut step = Vec::new();
        let mut bytes = 0;
        while bytes < STEP_BYTES
            && let Some((at, piece)) = pieces.next()
        {
            bytes += piece.len();
            step.push((at, piece));
        }
        (!step.is_empty()).then_some(step)
    })
}

fn give_snapshot(name: &str, mut bytes: Bytes, give: &mut impl FnMut(Step) -> bool) -> bool {
    // It was read once already.
    let Ok(header) = snapshot_file::Header::take(&mut bytes) else {
        return true;
    };
    if !give(Step::Through(header.through)) {
        return false;
    }
    for index in 0..header.chunks {
        let step = match snapshot_file::take_chunk(&mut bytes) {
            Ok(chunk) => Step::Chunk(header.through, header.version, chunk),
            Err(error) => Step::Skip(format!("{name}, chunk {index}"), error.to_string()),
        };
        if !give(step) {
            return false;
        }
    }
    true
}

/// What a load has to read.
#[derive(Default)]
struct Selected {
    snapshot: Option<(String, Bytes)>,
    /// Newest first. Open, so that they can be read when they are removed.
    parts: Vec<Part>,
    /// Oldest first: each segment with its last batch.
    closed: Vec<(SegmentId, u64)>,
    skipped: Vec<(String, String)>,
}

struct Part {
    id: SegmentId,
    file: File,
    /// Where the groups begin.
    start: u64,
    cut: u64,
}

impl Selected {
    fn find(reign: &Reign) -> Result<Self, FileError> {
        let mut tries = 0;
        loop {
            let names = reign.directory.names()?;
            let (selected, is_complete) = Self::select(reign, &names)?;
            tries += 1;
            // Files vanish when a newer snapshot covers them.
            let unchanged = || Ok(reign.directory.names()?.snapshots == names.snapshots);
            if is_complete || tries == TRIES || unchanged()? {
                return Ok(selected);
            }
        }
    }

    fn select(reign: &Reign, names: &Names) -> Result<(Self, bool), FileError> {
        let directory = &reign.directory;
        let mut selected = Self::default();
        let mut is_complete = true;
        let mut through = 0;
        for id in names.snapshots.iter().rev() {
            let name = names::snapshot(*id);
            let Some(bytes) = directory.read(&name)? else {
                is_complete = false;
                continue;
            };
            match snapshot_file::Header::take(&mut bytes.clone()) {
                Ok(header) if header.claim.cluster == reign.claim.cluster => {
                    through = header.through;
                    selected.snapshot = Some((name, bytes));
                    break;
                }
                Ok(header) => {
                    let reason = format!("it is of cluster {}", header.claim.cluster);
                    selected.skipped.push((name, reason));
                }
                Err(error) => selected.skipped.push((name, error.to_string())),
            }
        }
        let mut header = reign.header.clone();
        while header.base > through {
            let Some(before) = header.before else {
                break;
            };
            selected.closed.push((before.id, header.base));
            let name = names::segment(before.id);
            let Some((file, found, start)) = open(directory, &name)? else {
                is_complete = false;
                selected
                    .skipped
                    .push((name, "the file is missing".to_owned()));
                break;
            };
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    selected
                        .skipped
                        .push((name, format!("its header: {error}")));
                    break;
                }
            };
            selected.parts.push(Part {
                id: before.id,
                file,
                start,
                cut: before.cut,
            });
            header = found;
        }
        selected.closed.reverse();
        Ok((selected, is_complete))
    }
}

type Opened = (File, Result<Header, crate::RecordError>, u64);

/// A segment, its header, and where its groups begin; none when it is not there.
fn open(directory: &Arc<Directory>, name: &str) -> Result<Option<Opened>, FileError> {
    let path = directory.path_of(name);
    let failed = || FileError::when("read", &path);
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed()(error)),
    };
    let mut head = Vec::new();
    let read = (&mut file).take(HEADER_BYTES).read_to_end(&mut head);
    read.map_err(failed())?;
    let length = head.len();
    let mut head = Bytes::from(head);
    let header = Header::take(&mut head);
    let start = (length - head.len()) as u64;
    Ok(Some((file, header, start)))
}

impl Part {
    /// The groups up to the cut.
    fn read(mut self, directory: &Arc<Directory>) -> Result<Bytes, FileError> {
        let path = directory.path_of(&names::segment(self.id));
        let mut bytes = Vec::new();
        let read = self.file.seek(SeekFrom::Start(self.start)).and_then(|_| {
            let length = self.cut.saturating_sub(self.start);
            (&mut self.file).take(length).read_to_end(&mut bytes)
        });
        read.map_err(FileError::when("read", &path))?;
        Ok(bytes.into())
    }
}

fn unavailable(source: impl Into<crate::Source>) -> LoadError {
    LoadError::Unavailable {
        source: source.into(),
    }
}
