//! The scripts, each put together from its parts.

use std::sync::LazyLock;

use kvcm_redis::Script;

const BEGIN: &str = include_str!("lua/begin.lua");
const LOCK: &str = include_str!("lua/lock.lua");
const VALUE: &str = include_str!("lua/value.lua");

pub(crate) static TRY_LOCK: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[BEGIN, LOCK, include_str!("lua/try_lock.lua")]));
pub(crate) static RENEW_LOCK: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[BEGIN, LOCK, include_str!("lua/renew_lock.lua")]));
pub(crate) static UNLOCK: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[BEGIN, LOCK, include_str!("lua/unlock.lua")]));
pub(crate) static LOCK_HOLDER: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[BEGIN, LOCK, include_str!("lua/lock_holder.lua")]));
pub(crate) static SET_VALUE: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[BEGIN, VALUE, include_str!("lua/set_value.lua")]));
pub(crate) static GET_VALUE: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[BEGIN, VALUE, include_str!("lua/get_value.lua")]));
pub(crate) static DELETE_VALUE: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[BEGIN, VALUE, include_str!("lua/delete_value.lua")]));
