//! Requests in, nothing out: answers go another way, see [`Frame`](super::Frame).

use std::marker::PhantomData;

use bytes::Buf as _;
use prost::DecodeError;
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

use super::message::{Keyed, read};

/// Reads requests by [`read`]. Framing and limits are tonic's.
#[derive(Debug)]
pub(crate) struct Requests<M>(PhantomData<M>);

impl<M> Default for Requests<M> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<M: Keyed + 'static> Codec for Requests<M> {
    type Encode = ();
    type Decode = M;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self::default()
    }

    fn decoder(&mut self) -> Self {
        Self::default()
    }
}

impl<M> Encoder for Requests<M> {
    type Item = ();
    type Error = Status;

    fn encode(&mut self, (): (), _to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        Ok(())
    }
}

impl<M: Keyed> Decoder for Requests<M> {
    type Item = M;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<M>, Status> {
        let bytes = from.chunk();
        let message = if bytes.len() == from.remaining() {
            let message = read(bytes);
            from.advance(from.remaining());
            message
        } else {
            M::decode(from)
        };
        // The status that the generated code's codec has for it.
        let status = |error: DecodeError| Status::internal(error.to_string());
        message.map(Some).map_err(status)
    }
}
