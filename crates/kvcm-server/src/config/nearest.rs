//! The known key that an unknown one probably means.

use super::KEYS;

/// More edits than this make another word.
const DISTANCE_MAX: usize = 4;

/// The known key nearest to `written`, if one is near.
pub(super) fn nearest(written: &str) -> Option<&'static str> {
    let names = || {
        KEYS.iter()
            .flat_map(|key| [Some(key.name), key.alias])
            .flatten()
    };
    // Someone may leave out the first parts, or use the form for the environment.
    let tail = format!(".{written}");
    if let Some(name) = names().find(|name| name.ends_with(&tail)) {
        return Some(name);
    }
    let plain = |text: &str| text.to_ascii_lowercase().replace(['_', '-'], ".");
    let written = plain(written);
    names()
        .map(|name| (strsim::damerau_levenshtein(&plain(name), &written), name))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= DISTANCE_MAX)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen_are_recognised() {
        for (written, meant) in [
            ("kvcm.service.rpc_prot", "kvcm.service.rpc_port"),
            ("kvcm.service.rpcport", "kvcm.service.rpc_port"),
            ("kvcm_service_rpc_prt", "kvcm.service.rpc_port"),
            ("KVCM.SERVICE.HTTP_PORT", "kvcm.service.http_port"),
            ("kvcm.leader_elector.lease", "kvcm.leader_elector.lease_ms"),
            ("kvcm.distributed_lock.url", "kvcm.distributed_lock.uri"),
            ("lease_ms", "kvcm.leader_elector.lease_ms"),
        ] {
            assert_eq!(nearest(written), Some(meant), "{written}");
        }
        for written in ["", "kvcm", "something.quite.different"] {
            assert_eq!(nearest(written), None, "{written}");
        }
    }
}
