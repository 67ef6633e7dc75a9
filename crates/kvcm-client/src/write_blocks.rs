//! Both phases of a write around what the engine does between them.

use crate::{
    blocks::Blocks,
    error::{Error, ErrorKind},
    instance::Instance,
    locations::{Location, Locations},
    reply::CallMeta,
    write::{WriteOptions, WriteSession, Written},
};

/// How often a write is begun again because its session was lost with a leader.
const SESSIONS_MAX: u32 = 4;

/// The blocks that are to be written, and where. Cheap to clone, for the tasks that write.
#[derive(Clone, Debug)]
pub struct NewBlocks {
    indices: Vec<usize>,
    locations: Locations,
}

/// What a write came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteReport {
    /// Blocks that were asked for.
    pub blocks: usize,
    /// Blocks that were written and confirmed now.
    pub written: usize,
    /// Blocks that needed no write: stored, or being written by someone else.
    pub known: usize,
    /// How often places were reserved; more than 1 when sessions were lost with their leaders.
    pub sessions: u32,
    /// Who confirmed, or told that there is nothing to write.
    pub meta: CallMeta,
}

impl NewBlocks {
    fn of(session: &WriteSession) -> Self {
        Self {
            indices: session.new_keys().collect(),
            locations: session.locations().clone(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// Each block's index in the request, and where to write it.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (usize, Location<'_>)> {
        self.indices.iter().copied().zip(self.locations.iter())
    }

    /// Where to write, in the same order.
    pub fn locations(&self) -> &Locations {
        &self.locations
    }
}

pub(crate) async fn write_blocks<F>(
    instance: &Instance,
    blocks: Blocks<'_>,
    options: &WriteOptions,
    mut write: impl FnMut(NewBlocks) -> F,
) -> Result<WriteReport, Error>
where
    F: Future<Output = Written>,
{
    let mut sessions = 0;
    loop {
        let session = instance.begin_write_with(blocks, options).await?;
        sessions += 1;
        let (new, known) = (session.new_count(), session.known_count());
        let report = |written, meta| WriteReport {
            blocks: new + known,
            written,
            known,
            sessions,
            meta,
        };
        if new == 0 {
            return Ok(report(0, session.meta().clone()));
        }
        let written = write(NewBlocks::of(&session)).await;
        let count = written.count(new);
        match session.finish(written).await {
            Ok(reply) => return Ok(report(count, reply.meta().clone())),
            Err(error) if error.kind() == ErrorKind::SessionGone && sessions < SESSIONS_MAX => {
                tracing::debug!(%error, "a write session is gone: beginning again");
            }
            Err(error) => return Err(error),
        }
    }
}
