//! Which storages new blocks may go to.

use std::sync::Arc;

use kvcm_registry::{Group, Registry, Storage, StorageType};
use kvcm_storage::Problem;

use crate::{
    Error, Result,
    storages::{Known, Storages},
};

/// The storages of a group that may take new blocks now, best first; never empty.
///
/// # Errors
/// [`Error::Internal`] or [`Error::Unsupported`] that says what to do.
pub(crate) fn candidates(
    registry: &Registry,
    storages: &Storages,
    group: &Group,
) -> Result<Vec<Arc<Known>>> {
    let (mut closed, mut unhealthy) = (None, Vec::new());
    let mut open = Vec::new();
    for storage in available(registry, group)? {
        match storages.number(&storage) {
            Ok(known) if known.data.is_available() => open.push(known),
            Ok(known) => unhealthy.extend(known.data.status().problem),
            Err(error) => closed = Some(error),
        }
    }
    let name = &group.name;
    if open.is_empty() {
        return Err(closed.unwrap_or_else(|| all_unavailable(group, &unhealthy)));
    }
    let strategy = Strategy::new(group.cache_config.cache_prefer_strategy);
    let (mut first, rest): (Vec<_>, Vec<_>) = open
        .into_iter()
        .partition(|known| Some(known.kind()) == strategy.kind);
    if !strategy.always {
        first.extend(rest);
    }
    match (first.is_empty(), strategy.kind) {
        (false, _) => Ok(first),
        (true, kind) => Err(Error::Internal(format!(
            "instance group `{name}` wants storages of type {} only and has none available",
            kind.map_or("unknown", StorageType::as_str),
        ))),
    }
}

/// The candidates of a group that are enabled, in its order; never empty.
///
/// # Errors
/// [`Error::Internal`] that says what to do.
pub(crate) fn available(registry: &Registry, group: &Group) -> Result<Vec<Arc<Storage>>> {
    let mut storages = registry.storages_of(group);
    let existing = storages.len();
    storages.retain(|storage| storage.is_available);
    match (existing, storages.is_empty()) {
        (0, _) => Err(Error::Internal(format!(
            "no storage of instance group `{}` exists ({}); add one",
            group.name,
            group.storage_candidates.join(", ")
        ))),
        (_, true) => Err(all_unavailable(group, &[])),
        (_, false) => Ok(storages),
    }
}

/// Those that are not disabled have these problems.
fn all_unavailable(group: &Group, problems: &[Problem]) -> Error {
    let mut text = format!(
        "all storages are unavailable for instance group `{}` ({}); enable one",
        group.name,
        group.storage_candidates.join(", ")
    );
    for (at, problem) in problems.iter().enumerate() {
        let start = if at == 0 {
            ", or repair what is "
        } else {
            ", "
        };
        text.push_str(&format!("{start}{problem}"));
    }
    Error::Internal(text)
}

/// The protocol's CachePreferStrategy.
struct Strategy {
    kind: Option<StorageType>,
    always: bool,
}

impl Strategy {
    /// Odd numbers are "always", the even ones after them "prefer"; 0 and unknown ones have no
    /// preference.
    fn new(number: i32) -> Self {
        let kind = match number {
            1 | 2 => Some(StorageType::Hf3fs),
            3 | 4 => Some(StorageType::Mooncake),
            5 | 6 => Some(StorageType::Pace),
            7 | 8 => Some(StorageType::VcnsHf3fs),
            9 | 10 => Some(StorageType::PaceSsd),
            _ => None,
        };
        Self {
            kind,
            always: kind.is_some() && number % 2 == 1,
        }
    }
}
