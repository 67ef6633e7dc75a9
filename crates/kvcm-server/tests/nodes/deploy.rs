//! The files of `deploy/` are sound: they parse, and name only keys and metrics that there are.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use kvcm_server::config::KEYS;
use kvcm_testkit::{NodeSpec, ServerProcess, http_get};
use serde::Deserialize as _;
use serde_json::json;

use crate::support::{call, until};

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// Every file in a folder and below, with its text.
fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            // A link in the Debian package leads to what is installed beside it.
            false if path.is_symlink() => {}
            false => found.push((path.clone(), fs::read_to_string(&path).unwrap())),
        }
    }
    found
}

/// Words that start with `start` and go on with small letters, digits, dots and underscores.
fn words<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._".contains(c);
    text.split(move |c| !is_part(c))
        .map(|word| word.trim_end_matches(['.', '_']))
        .filter(move |word| word.starts_with(start))
}

#[test]
fn every_example_configuration_passes_the_check() {
    let mut seen = 0;
    for (path, _) in files(&deploy().join("config")) {
        let output = Command::new(env!("CARGO_BIN_EXE_kvcm-server"))
            .args(["--check-config", "-c"])
            .arg(&path)
            .env_clear()
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {text}", path.display());
        assert_eq!(text, "", "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 3);
}

#[test]
fn every_yaml_and_json_file_parses() {
    let mut seen = 0;
    for (path, text) in files(&deploy()) {
        let name = path.display();
        match path.extension().and_then(|end| end.to_str()) {
            Some("json") => {
                let value: serde_json::Value =
                    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(value.is_object(), "{name}");
            }
            Some("yaml" | "yml") => {
                for document in serde_yaml_ng::Deserializer::from_str(&text) {
                    let value = serde_yaml_ng::Value::deserialize(document);
                    let value = value.unwrap_or_else(|error| panic!("{name}: {error}"));
                    assert!(value.is_mapping(), "{name}");
                }
            }
            _ => continue,
        }
        seen += 1;
    }
    assert!(seen >= 7, "{seen}");
}

#[test]
fn every_key_that_is_named_exists() {
    let keys: BTreeSet<_> = KEYS
        .iter()
        .flat_map(|key| [Some(key.name), key.alias])
        .flatten()
        .collect();
    let mut seen = 0;
    for (path, text) in files(&deploy()) {
        for word in words(&text, "kvcm.") {
            // The names of files look like keys.
            let is_file = ["conf", "json", "yaml", "rules.yml"]
                .iter()
                .any(|end| word == format!("kvcm.{end}"));
            let is_host = word.ends_with(".svc");
            assert!(
                is_file || is_host || keys.contains(word),
                "{}: {word}",
                path.display()
            );
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_that_is_named_is_exported() {
    let dir = tempfile::tempdir().unwrap();
    let node = ServerProcess::spawn(&NodeSpec::new("m", dir.path()).unwrap())
        .await
        .unwrap();
    let admin = node.ports().admin_http();
    // Some are there only once something was called, others once a leader has renewed its lease.
    call(admin, "checkHealth", json!({})).await;
    let page = until("a lease was renewed", async || {
        let page = http_get(admin, "/metrics").await.ok()?;
        let page = String::from_utf8(page.body).unwrap();
        page.contains("kvcm_lease_remaining_worst_seconds ")
            .then_some(page)
    })
    .await;
    let mut names = BTreeSet::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        match kind {
            "histogram" => {
                names.extend(["", "_bucket", "_sum", "_count"].map(|end| format!("{name}{end}")))
            }
            _ => names.extend([name.to_owned()]),
        }
    }
    // A key as a variable of the environment looks like a metric.
    names.extend(KEYS.iter().map(|key| key.name.replace('.', "_")));
    let mut seen = 0;
    for (path, text) in files(&deploy()) {
        for word in words(&text, "kvcm_") {
            assert!(
                names.contains(word),
                "{}: {word} is not in\n{names:#?}",
                path.display()
            );
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen}");
}
