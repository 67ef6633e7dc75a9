//! An answer that is bytes from the start.

use std::marker::PhantomData;

use bytes::Bytes;
use kvcm_cache::{ReplySink, Skipped};
use kvcm_proto::meta::CommonResponseHeader;
use tonic::Status;

use super::{
    Frame, Framed, Locations, Protobuf, StartReply,
    buffer::Buffer,
    frame,
    layout::{Entries, Entry},
    reply::too_large,
};
use crate::{
    http::Answer,
    reply::{Header, Reply},
};

/// Room for what comes before the body and is known after it: the header, and the prefix of its
/// frame. A header that needs more costs a copy.
pub(super) const ROOM: usize = 512;

/// How a protocol writes answers.
pub(crate) trait Form: Entry + Send + Sync + 'static {
    /// What comes before the body.
    fn header(header: &CommonResponseHeader) -> Vec<u8>;

    /// Appends what StartWriteCache answers before its locations.
    fn started(session_id: &str, skipped: Skipped, out: &mut Vec<u8>);

    /// Appends what stands before the first location.
    fn before_locations(_out: &mut Vec<u8>) {}
}

/// An answer in the bytes of the form `F`: a header, and locations that are written straight behind
/// the room that it will take.
#[derive(Debug)]
pub(crate) struct Written<F> {
    header: Option<CommonResponseHeader>,
    /// Empty, or [`ROOM`] bytes and all fields but the header.
    bytes: Buffer,
    form: PhantomData<F>,
}

impl<F> Default for Written<F> {
    fn default() -> Self {
        Self {
            header: None,
            bytes: Buffer::default(),
            form: PhantomData,
        }
    }
}

impl<F: Form> Written<F> {
    /// Where fields go.
    pub(super) fn body(&mut self) -> &mut Vec<u8> {
        if self.bytes.is_empty() {
            self.bytes = Buffer::used();
            self.bytes.resize(ROOM, 0);
        }
        &mut self.bytes
    }

    pub(super) fn head(&self) -> Vec<u8> {
        self.header.as_ref().map(F::header).unwrap_or_default()
    }

    /// Puts `prefix` and `head` before the body.
    pub(super) fn joined(self, prefix: &[u8], head: &[u8]) -> Bytes {
        let mut bytes = self.bytes;
        let needed = prefix.len() + head.len();
        match bytes.get_mut(..ROOM).and_then(|room| {
            let start = room.len().checked_sub(needed)?;
            let (before, after) = room[start..].split_at_mut(prefix.len());
            before.copy_from_slice(prefix);
            after.copy_from_slice(head);
            Some(start)
        }) {
            Some(start) => Bytes::from_owner(bytes).slice(start..),
            None => {
                let body = bytes.get(ROOM..).unwrap_or_default();
                [prefix, head, body].concat().into()
            }
        }
    }
}

impl<F> Answer for Written<F> {
    fn header(&self) -> (i32, &str) {
        self.header.as_ref().map_or((0, ""), |header| {
            let code = header.status.as_ref().map_or(0, |status| status.code);
            (code, &header.request_id)
        })
    }
}

impl<F: Form> Reply for Written<F> {
    fn set_header(&mut self, header: Header) {
        self.header = Some(header.into());
    }
}

impl<F: Form> Locations for Written<F> {
    fn sink(&mut self) -> impl ReplySink {
        let body = self.body();
        F::before_locations(body);
        Entries::<F>::new(body)
    }
}

impl<F: Form> StartReply for Written<F> {
    fn begin(&mut self, session_id: &str, skipped: Skipped) {
        F::started(session_id, skipped, self.body());
    }
}

impl<const LOCATIONS: u8> Framed for Written<Protobuf<LOCATIONS>> {
    fn into_frame(self) -> Result<Frame, Status> {
        let head = self.head();
        let length = head.len() + self.bytes.len().saturating_sub(ROOM);
        let prefix = frame::prefix(length).ok_or_else(|| too_large(length))?;
        Ok(Frame::new(self.joined(&prefix, &head)))
    }
}
