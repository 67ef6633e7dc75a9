//! The descriptors at run time.

use std::sync::LazyLock;

use prost::Name;
use prost_reflect::{DescriptorPool, MessageDescriptor};

use super::Error;

/// All descriptors, decoded once per process.
pub(super) static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(crate::DESCRIPTORS).expect(
        "the descriptors are made with the code, and every test of the mapping decodes them",
    )
});

/// The descriptor of `M`.
///
/// # Errors
/// [`Error::UnknownMessage`] for a type from elsewhere.
pub(super) fn descriptor<M: Name>() -> Result<MessageDescriptor, Error> {
    let name = M::full_name();
    POOL.get_message_by_name(&name)
        .ok_or(Error::UnknownMessage(name))
}
