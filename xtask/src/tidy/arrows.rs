//! The crate graph: which crate may depend on which. `docs/ARCHITECTURE.md` draws it.

use crate::metadata::{Dependency, Metadata};

/// Our crates, each with those of ours that it may depend on. Leaves first, arrows point up the
/// list only.
const ARROWS: &[(&str, &[&str])] = &[
    ("kvcm-clock", &[]),
    ("kvcm-fence", &[]),
    ("kvcm-fs", &[]),
    ("kvcm-uri", &[]),
    ("kvcm-redis", &["kvcm-clock", "kvcm-uri"]),
    (
        "coordination-core",
        &["kvcm-clock", "kvcm-fence", "kvcm-uri"],
    ),
    ("coordination-conformance", BACKEND),
    ("coordination-memory", BACKEND),
    (
        "coordination-file",
        &[
            "coordination-core",
            "kvcm-clock",
            "kvcm-fence",
            "kvcm-fs",
            "kvcm-uri",
        ],
    ),
    (
        "coordination-redis",
        &[
            "coordination-core",
            "kvcm-clock",
            "kvcm-fence",
            "kvcm-redis",
            "kvcm-uri",
        ],
    ),
    (
        "elector",
        &["coordination-core", "kvcm-clock", "kvcm-fence"],
    ),
    (
        "kvcm-journal",
        &[
            "kvcm-clock",
            "kvcm-fence",
            "kvcm-fs",
            "kvcm-redis",
            "kvcm-uri",
        ],
    ),
    ("kvcm-proto", &[]),
    (
        "kvcm-registry",
        &["kvcm-clock", "kvcm-fence", "kvcm-journal"],
    ),
    ("kvcm-index", &[]),
    ("kvcm-storage", &[]),
    (
        "kvcm-cache",
        &[
            "kvcm-clock",
            "kvcm-fence",
            "kvcm-index",
            "kvcm-journal",
            "kvcm-registry",
            "kvcm-storage",
        ],
    ),
    (
        "kvcm-server",
        &[
            "coordination-core",
            "coordination-file",
            "coordination-memory",
            "coordination-redis",
            "elector",
            "kvcm-cache",
            "kvcm-clock",
            "kvcm-fence",
            "kvcm-index",
            "kvcm-journal",
            "kvcm-proto",
            "kvcm-redis",
            "kvcm-registry",
            "kvcm-storage",
            "kvcm-uri",
        ],
    ),
    (
        "kvcm-sim",
        &[
            "coordination-core",
            "coordination-memory",
            "elector",
            "kvcm-clock",
            "kvcm-fence",
        ],
    ),
    ("kvcm-client", &["kvcm-clock", "kvcm-proto"]),
    ("kvcm-trace", &[]),
    ("kvcm-check", &[]),
    ("kvcm-testkit", &["kvcm-clock", "kvcm-redis", "kvcm-uri"]),
    (
        "kvcm-bench",
        &[
            "coordination-core",
            "coordination-file",
            "coordination-memory",
            "coordination-redis",
            "kvcm-cache",
            "kvcm-check",
            "kvcm-client",
            "kvcm-clock",
            "kvcm-fence",
            "kvcm-index",
            "kvcm-journal",
            "kvcm-proto",
            "kvcm-redis",
            "kvcm-registry",
            "kvcm-testkit",
            "kvcm-trace",
            "kvcm-uri",
        ],
    ),
    ("xtask", &[]),
];

const BACKEND: &[&str] = &["coordination-core", "kvcm-clock", "kvcm-fence", "kvcm-uri"];

/// Crates of others that some of ours must not know, each with the reason.
const FOREIGN: &[(&str, &[&str], &str)] = &[
    (
        "kvcm-index",
        &["tokio", "futures-util"],
        "the index is synchronous",
    ),
    (
        "kvcm-fence",
        &["tokio"],
        "the fence rule does no input or output",
    ),
    (
        "elector",
        &["redis", "rustix"],
        "the elector knows backends by their trait only",
    ),
    (
        "kvcm-journal",
        PROTOBUF,
        "the store knows nothing of the protocol",
    ),
    (
        "kvcm-registry",
        PROTOBUF,
        "the registry knows nothing of the protocol",
    ),
    (
        "kvcm-cache",
        PROTOBUF,
        "the cache manager knows nothing of the protocol",
    ),
    (
        "kvcm-index",
        PROTOBUF,
        "the index knows nothing of the protocol",
    ),
];

const PROTOBUF: &[&str] = &["prost", "tonic"];

/// Every arrow that must not be there, and every crate that the table does not know.
pub(super) fn check(metadata: &Metadata) -> Vec<String> {
    let ours = |name: &str| metadata.packages.iter().any(|package| package.name == name);
    let mut wrong = Vec::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
            wrong.push(format!(
                "{name}: not in the table of arrows (xtask/src/tidy/arrows.rs)"
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let to = dependency.name.as_str();
            if ours(to) && !is_allowed(name, allowed, dependency) {
                wrong.push(format!("{name}: must not depend on {to}"));
            }
            for (_, banned, why) in FOREIGN.iter().filter(|(from, ..)| *from == name) {
                if dependency.kind.is_none() && banned.contains(&to) {
                    wrong.push(format!("{name}: must not depend on {to}: {why}"));
                }
            }
        }
    }
    wrong
}

/// Tests may use any crate but the server: whoever needs one starts its binary.
fn is_allowed(from: &str, allowed: &[&str], dependency: &Dependency) -> bool {
    let to = dependency.name.as_str();
    let for_tests = dependency.kind.as_deref() == Some("dev");
    allowed.contains(&to) || (for_tests && to != "kvcm-server" && from != "xtask")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Package;

    fn wrong(from: &str, to: &str, kind: Option<&str>) -> Vec<String> {
        let dependency = Dependency {
            name: to.to_owned(),
            kind: kind.map(str::to_owned),
        };
        let package = |name: &str, dependencies| Package {
            name: name.to_owned(),
            dependencies,
        };
        check(&Metadata {
            packages: vec![package(from, vec![dependency]), package(to, vec![])],
            target_directory: "target".into(),
        })
    }

    #[test]
    fn an_arrow_that_is_not_drawn_is_named() {
        assert_eq!(
            wrong("elector", "kvcm-cache", None),
            ["elector: must not depend on kvcm-cache"]
        );
        assert_eq!(
            wrong("kvcm-bench", "kvcm-server", Some("dev")),
            ["kvcm-bench: must not depend on kvcm-server"]
        );
        assert_eq!(
            wrong("xtask", "kvcm-proto", Some("dev")),
            ["xtask: must not depend on kvcm-proto"]
        );
        assert_eq!(
            wrong("kvcm-client", "kvcm-fence", Some("build")),
            ["kvcm-client: must not depend on kvcm-fence"]
        );
    }

    #[test]
    fn drawn_arrows_and_those_of_tests_are_fine() {
        assert_eq!(
            wrong("elector", "coordination-core", None),
            [] as [String; 0]
        );
        assert_eq!(
            wrong("elector", "coordination-memory", Some("dev")),
            [] as [String; 0]
        );
    }

    #[test]
    fn a_crate_without_a_row_is_named() {
        assert!(wrong("kvcm-new", "kvcm-clock", None)[0].starts_with("kvcm-new: not in the table"));
    }

    #[test]
    fn arrows_point_up_the_table_only() {
        for (row, (name, allowed)) in ARROWS.iter().enumerate() {
            for to in *allowed {
                let above = ARROWS[..row].iter().any(|(other, _)| other == to);
                assert!(above, "{name} -> {to}");
            }
        }
    }
}
