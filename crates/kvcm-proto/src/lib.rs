//! The protocol: messages, services and their JSON mapping, generated from `proto/`.
//!
//! - [`meta`]: what inference engines call.
//! - [`admin`]: what operators and their tools call.
//! - [`debug`]: faults on demand, for tests.
//! - `json` (feature `json`): the mapping to and from JSON that the HTTP side speaks.
//!
//! Features, none on by default: `client` and `server` add the gRPC clients and service traits to
//! the two packages, `json` the mapping. `cargo xtask codegen` writes the generated files again
//! after a change in `proto/`.

#[cfg(feature = "json")]
pub mod json;

/// The data plane, package `kv_cache_manager.proto.meta`.
#[allow(
    missing_docs,
    clippy::allow_attributes_without_reason,
    clippy::all,
    reason = "generated; the comments are in proto/meta_service.proto"
)]
pub mod meta {
    include!("generated/kv_cache_manager.proto.meta.rs");
}

/// The control plane, package `kv_cache_manager.proto.admin`.
#[allow(
    missing_docs,
    clippy::allow_attributes_without_reason,
    clippy::all,
    reason = "generated; the comments are in proto/admin_service.proto"
)]
pub mod admin {
    include!("generated/kv_cache_manager.proto.admin.rs");
}

/// Faults on demand, package `kv_cache_manager.proto.debug`.
#[allow(
    missing_docs,
    clippy::allow_attributes_without_reason,
    clippy::all,
    reason = "generated; the comments are in proto/debug_service.proto"
)]
pub mod debug {
    include!("generated/kv_cache_manager.proto.debug.rs");
}

/// The encoded `FileDescriptorSet` of all packages, without comments.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
