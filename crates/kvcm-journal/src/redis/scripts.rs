//! The scripts, each put together from its parts.

use std::sync::LazyLock;

use kvcm_redis::Script;

const TEXT: &str = include_str!("lua/text.lua");
#[cfg(not(feature = "unsafe-no-fencing"))]
const FENCE: &str = include_str!("lua/fence.lua");
#[cfg(feature = "unsafe-no-fencing")]
const FENCE: &str = "local seq = tonumber(redis.call('HGET', KEYS[1], 'seq') or '0')\n";

pub(super) static CLAIM: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[TEXT, include_str!("lua/claim.lua")]));
pub(super) static STANDING: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[include_str!("lua/standing.lua")]));
pub(super) static PROBE: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[include_str!("lua/probe.lua")]));
pub(super) static APPEND: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[TEXT, FENCE, include_str!("lua/append.lua")]));
pub(super) static READ: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[TEXT, FENCE, include_str!("lua/read.lua")]));
pub(super) static CHUNK: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[TEXT, FENCE, include_str!("lua/chunk.lua")]));
pub(super) static SNAPSHOT: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[TEXT, FENCE, include_str!("lua/snapshot.lua")]));
