//! What answers can do, written at once or generated.

use kvcm_cache::{ReplySink, Skipped, View};
use kvcm_proto::meta;
use prost::Message;
use tonic::Status;

use super::{Frame, frame};
use crate::{convert, reply::Reply};

/// An answer that lists locations.
pub(crate) trait Locations: Reply {
    /// Takes them.
    fn sink(&mut self) -> impl ReplySink;
}

/// The answer of StartWriteCache.
pub(crate) trait StartReply: Locations {
    /// What it says before its locations.
    fn begin(&mut self, session_id: &str, skipped: Skipped);
}

/// An answer that can be framed for gRPC.
pub(crate) trait Framed {
    /// The frame.
    ///
    /// # Errors
    /// The status of an answer that is too large for one.
    fn into_frame(self) -> Result<Frame, Status>;
}

impl Locations for meta::GetCacheLocationResponse {
    fn sink(&mut self) -> impl ReplySink {
        |view: &View<'_>| self.locations.push(convert::meta::location(view))
    }
}

impl Locations for meta::StartWriteCacheResponse {
    fn sink(&mut self) -> impl ReplySink {
        |view: &View<'_>| self.locations.push(convert::meta::location(view))
    }
}

impl StartReply for meta::StartWriteCacheResponse {
    fn begin(&mut self, session_id: &str, skipped: Skipped) {
        self.write_session_id = session_id.to_owned();
        self.block_mask = Some(convert::skipped(skipped));
    }
}

impl<M: Message> Framed for M {
    fn into_frame(self) -> Result<Frame, Status> {
        let length = self.encoded_len();
        let mut bytes = Vec::with_capacity(frame::PREFIX + length);
        bytes.extend_from_slice(&frame::prefix(length).ok_or_else(|| too_large(length))?);
        // Vectors grow, so there is always room.
        let _infallible = self.encode(&mut bytes);
        Ok(Frame::new(bytes.into()))
    }
}

/// What tonic says of it.
pub(super) fn too_large(length: usize) -> Status {
    Status::resource_exhausted(format!(
        "Cannot return body with more than 4GB of data but got {length} bytes"
    ))
}
