//! Writing blocks in two phases: reserve places, write there, confirm.

use std::time::Duration;

use kvcm_proto::meta::{
    BlockMask, BoolMasksType, ErrorCode, FinishWriteCacheRequest, StartWriteCacheRequest,
    block_mask,
};
use prost::Message;

use crate::{
    blocks::Blocks,
    call::Answer,
    error::{Error, ErrorKind, Outcome},
    instance::{FINISH_WRITE, Instance, START_WRITE, garbled},
    locations::Locations,
    reply::{CallMeta, Reply},
    wire::{Fields, Malformed, Value},
};

/// How a write is begun: `WriteOptions { timeout, ..Default::default() }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// How long the session lives if it is not finished; whole seconds, rounded up.
    pub timeout: Duration,
    /// Per key, the group of pieces that will be written; empty: all pieces of every key.
    pub piece_groups: Vec<String>,
}

/// Which of a session's new blocks were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// All of them.
    All,
    /// The first so many.
    Prefix(usize),
    /// One value per new block.
    Each(Vec<bool>),
}

/// Places reserved for new blocks, until they are confirmed, given up, or the session times out.
///
/// Dropping an open session gives it up in the background, as far as that is still possible; the
/// server's time-out does the rest.
#[derive(Debug)]
pub struct WriteSession {
    instance: Instance,
    id: String,
    is_new: Vec<bool>,
    locations: Locations,
    open: bool,
}

impl Default for WriteOptions {
    /// 30 s, all pieces.
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            piece_groups: Vec::new(),
        }
    }
}

impl WriteOptions {
    pub(crate) fn to_wire(&self, instance_id: &str, blocks: Blocks<'_>) -> StartWriteCacheRequest {
        let (block_keys, token_ids) = blocks.to_wire();
        let seconds = self.timeout.as_millis().div_ceil(1000);
        StartWriteCacheRequest {
            instance_id: instance_id.to_owned(),
            block_keys,
            token_ids,
            location_spec_group_names: self.piece_groups.clone(),
            write_timeout_seconds: i32::try_from(seconds).unwrap_or(i32::MAX),
            ..StartWriteCacheRequest::default()
        }
    }
}

impl Written {
    /// How many of `new` blocks that is.
    pub(crate) fn count(&self, new: usize) -> usize {
        match self {
            Self::All => new,
            Self::Prefix(count) => *count,
            Self::Each(values) => values.iter().filter(|written| **written).count(),
        }
    }
}

impl WriteSession {
    pub(crate) fn open(instance: Instance, keys: usize, answer: Answer) -> Result<Self, Error> {
        let (id, mask) = read_head(&answer.body).map_err(|_| garbled(START_WRITE))?;
        let locations =
            Locations::read(answer.body, 4, answer.meta).map_err(|_| garbled(START_WRITE))?;
        let is_new = new_keys(mask, keys).ok_or_else(|| garbled(START_WRITE))?;
        let session = Self {
            open: !locations.is_empty(),
            instance,
            id,
            is_new,
            locations,
        };
        if session.new_count() == session.locations.len() {
            Ok(session)
        } else {
            // Dropped, and so given up.
            Err(garbled(START_WRITE))
        }
    }

    /// The server's id of the session.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where to write: one entry per new block, in the order of the keys.
    pub fn locations(&self) -> &Locations {
        &self.locations
    }

    /// Whether the key at `index` of the request is new, that is, to be written.
    pub fn is_new(&self, index: usize) -> bool {
        self.is_new.get(index).copied().unwrap_or(false)
    }

    /// The indices of the new keys in the request; the n-th belongs to the n-th location.
    pub fn new_keys(&self) -> impl Iterator<Item = usize> {
        let flags = self.is_new.iter().enumerate();
        flags.filter(|(_, is_new)| **is_new).map(|(index, _)| index)
    }

    /// How many keys are new.
    pub fn new_count(&self) -> usize {
        self.is_new.iter().filter(|is_new| **is_new).count()
    }

    /// How many keys need no write: stored, or being written by someone else.
    pub fn known_count(&self) -> usize {
        self.is_new.len() - self.new_count()
    }

    /// Who answered, and what it took.
    pub fn meta(&self) -> &CallMeta {
        self.locations.meta()
    }

    /// Confirms what was written; the other new blocks are given up. Without new blocks there is
    /// nothing to confirm and no call is made.
    ///
    /// # Errors
    /// [`ErrorKind::SessionGone`] when the server does not know the session any more: nothing of
    /// it can be read, begin again. [`ErrorKind::InvalidArgument`] when `written` does not fit
    /// the number of new blocks; the session is given up.
    pub async fn finish(mut self, written: Written) -> Result<Reply<()>, Error> {
        let mask = self.mask(written)?;
        if !std::mem::take(&mut self.open) {
            return Ok(Reply::new((), self.meta().clone()));
        }
        let meta = finish(&self.instance, &self.id, mask).await?;
        Ok(Reply::new((), meta))
    }

    /// Gives all new blocks up.
    ///
    /// # Errors
    /// As any call; a session that is gone already is no error.
    pub async fn abort(mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        abort(&self.instance, &self.id).await
    }

    fn mask(&self, written: Written) -> Result<block_mask::Info, Error> {
        let new = self.locations.len();
        let misfit = |what: String| {
            let why = format!("{what}, but the session has {new} new blocks");
            Err(Error::local(
                ErrorKind::InvalidArgument,
                FINISH_WRITE.name,
                why,
            ))
        };
        let count = match written {
            Written::All => new,
            Written::Prefix(count) if count <= new => count,
            Written::Prefix(count) => return misfit(format!("{count} blocks were written")),
            Written::Each(values) if values.len() == new => {
                return Ok(block_mask::Info::BoolMasks(BoolMasksType { values }));
            }
            Written::Each(values) => return misfit(format!("{} values", values.len())),
        };
        Ok(block_mask::Info::Offset(
            i32::try_from(count).unwrap_or(i32::MAX),
        ))
    }
}

impl Drop for WriteSession {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let instance = self.instance.clone();
        let id = std::mem::take(&mut self.id);
        runtime.spawn(async move {
            if let Err(error) = abort(&instance, &id).await {
                tracing::debug!(session = id, %error, "a dropped write session was not given up");
            }
        });
    }
}

async fn abort(instance: &Instance, id: &str) -> Result<(), Error> {
    match finish(instance, id, block_mask::Info::Offset(0)).await {
        Err(error) if error.kind() != ErrorKind::SessionGone => Err(error),
        _ => Ok(()),
    }
}

async fn finish(
    instance: &Instance,
    id: &str,
    written: block_mask::Info,
) -> Result<CallMeta, Error> {
    let request = FinishWriteCacheRequest {
        instance_id: instance.id().to_owned(),
        write_session_id: id.to_owned(),
        success_blocks: Some(BlockMask {
            info: Some(written),
        }),
        ..FinishWriteCacheRequest::default()
    };
    let result = instance.call(FINISH_WRITE, request.encode_to_vec()).await;
    result.map(|answer| answer.meta).map_err(|error| {
        // The protocol has no code of its own for it.
        let internal = ErrorKind::Server(ErrorCode::InternalError.into());
        let names_session = error.message().contains("write_session_id");
        if error.kind() == internal && names_session && error.outcome() == Outcome::NotDone {
            error.with_kind(ErrorKind::SessionGone)
        } else {
            error
        }
    })
}

/// The session id and the mask of a `StartWriteCacheResponse`, without its locations.
fn read_head(response: &[u8]) -> Result<(String, Option<BlockMask>), Malformed> {
    let mut id = String::new();
    let mut mask = None;
    for field in Fields::of(response) {
        match field? {
            (2, Value::Bytes(bytes)) => {
                id = String::from_utf8(bytes.to_vec()).map_err(|_| Malformed)?;
            }
            (3, Value::Bytes(bytes)) => {
                mask = Some(BlockMask::decode(bytes).map_err(|_| Malformed)?);
            }
            _ => {}
        }
    }
    Ok((id, mask))
}

/// Which keys are new, by the mask of those that are not.
fn new_keys(mask: Option<BlockMask>, keys: usize) -> Option<Vec<bool>> {
    match mask.and_then(|mask| mask.info) {
        None => Some(vec![true; keys]),
        Some(block_mask::Info::Offset(known)) => {
            let known = usize::try_from(known).ok().filter(|known| *known <= keys)?;
            Some((0..keys).map(|index| index >= known).collect())
        }
        Some(block_mask::Info::BoolMasks(BoolMasksType { values })) => {
            (values.len() == keys).then(|| values.iter().map(|known| !known).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_a_begun_write_tells_the_keys_that_are_not_new() {
        let offset = |known| {
            Some(BlockMask {
                info: Some(block_mask::Info::Offset(known)),
            })
        };
        assert_eq!(new_keys(None, 2), Some(vec![true, true]));
        assert_eq!(new_keys(offset(1), 3), Some(vec![false, true, true]));
        assert_eq!(new_keys(offset(3), 3), Some(vec![false; 3]));
        assert_eq!(new_keys(offset(4), 3), None);
        assert_eq!(new_keys(offset(-1), 3), None);
        let bools = |values: &[bool]| {
            Some(BlockMask {
                info: Some(block_mask::Info::BoolMasks(BoolMasksType {
                    values: values.to_vec(),
                })),
            })
        };
        assert_eq!(new_keys(bools(&[true, false]), 2), Some(vec![false, true]));
        assert_eq!(new_keys(bools(&[true]), 2), None);
    }

    #[test]
    fn session_lives_are_rounded_up_to_seconds() {
        let seconds = |ms| {
            let options = WriteOptions {
                timeout: Duration::from_millis(ms),
                ..WriteOptions::default()
            };
            let blocks = Blocks::keys(&[]);
            options.to_wire("i", blocks).write_timeout_seconds
        };
        assert_eq!((seconds(1), seconds(1000), seconds(1001)), (1, 1, 2));
    }
}
