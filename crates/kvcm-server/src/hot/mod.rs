//! Short ways for the calls that engines make all day long: GetCacheLocation, GetCacheLocationLen,
//! StartWriteCache, FinishWriteCache.
//!
//! - [`Requests`] reads messages, their block keys without a detour through the generated code.
//! - [`read_json`] does the same with ordinary JSON, and leaves all other to the generic mapping.
//! - [`Written`] is an answer whose locations are written as the bytes of its protocol at once, no
//!   object for each key in between. Entries that were written together are laid out once and
//!   copied ([`Layout`](layout::Layout)).
//! - [`Frame`] hands those bytes to the connection without another copy. Their memory is used again
//!   by the next answer ([`Buffer`](buffer::Buffer)).
//!
//! The generated code is what all of it is held to: property tests compare every byte, and every
//! refusal of damaged input is the generated code's own.

mod buffer;
mod codec;
mod frame;
mod json;
mod json_reader;
mod json_request;
mod layout;
mod message;
mod numbers;
mod protobuf;
mod reply;
mod written;

pub(crate) use self::{
    codec::Requests,
    frame::Frame,
    json::{IntoJson, Json},
    json_request::{FromJson, read_json},
    message::Keyed,
    protobuf::Protobuf,
    reply::{Framed, Locations, StartReply},
    written::Written,
};

#[cfg(test)]
mod tests;
