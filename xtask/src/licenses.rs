//! The licences of what goes into the binary.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::shell;

/// The crate whose binary is shipped.
const SHIPPED: &str = "kvcm-server";

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    repository: Option<String>,
    manifest_path: PathBuf,
    /// None: a crate of ours.
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Debug, Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

/// Writes `LICENSES.md`, a table of every crate of others in the binary for `platform`, and under
/// `licenses/` the texts that these crates come with.
pub(crate) fn write(folder: &Path, platform: &str) -> anyhow::Result<()> {
    let text = shell::output(&mut shell::cargo([
        "metadata",
        "--locked",
        "--filter-platform",
        platform,
        "--format-version",
        "1",
    ]))?;
    let metadata: Metadata =
        serde_json::from_slice(&text).context("cargo metadata printed something unexpected")?;
    let packages = linked(&metadata)?;
    let texts = folder.join("licenses");
    for package in &packages {
        copy_texts(package, &texts)?;
    }
    fs::write(folder.join("LICENSES.md"), table(&packages)?)?;
    Ok(())
}

/// The crates of others that the shipped binary is linked from, sorted by name.
fn linked(metadata: &Metadata) -> anyhow::Result<Vec<&Package>> {
    let packages: BTreeMap<_, _> = metadata.packages.iter().map(|p| (&*p.id, p)).collect();
    let nodes: BTreeMap<_, _> = metadata.resolve.nodes.iter().map(|n| (&*n.id, n)).collect();
    let shipped = metadata.packages.iter().find(|p| p.name == SHIPPED);
    let shipped = shipped.with_context(|| format!("{SHIPPED} is no crate of this workspace"))?;
    let mut seen = BTreeSet::new();
    let mut open = vec![&*shipped.id];
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let edges = nodes.get(id).map_or(&[][..], |node| &node.deps);
        // A kind is only named for what is used in tests or at build time.
        let is_linked = |edge: &&Edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none());
        open.extend(edges.iter().filter(is_linked).map(|edge| &*edge.pkg));
    }
    let mut linked: Vec<_> = seen
        .iter()
        .filter_map(|id| packages.get(id).copied())
        .collect();
    linked.retain(|package| package.source.is_some());
    linked.sort_by_key(|package| (&package.name, &package.version));
    Ok(linked)
}

fn copy_texts(package: &Package, texts: &Path) -> anyhow::Result<()> {
    let folder = package.manifest_path.parent();
    let folder = folder.with_context(|| format!("{} has no folder", package.name))?;
    let own = texts.join(format!("{}-{}", package.name, package.version));
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", package.name))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let is_text = [
            "LICENSE",
            "LICENCE",
            "COPYING",
            "NOTICE",
            "COPYRIGHT",
            "UNLICENSE",
        ]
        .iter()
        .any(|start| name.starts_with(start));
        if is_text && entry.file_type()?.is_file() {
            fs::create_dir_all(&own)?;
            fs::copy(entry.path(), own.join(entry.file_name()))?;
        }
    }
    Ok(())
}

fn table(packages: &[&Package]) -> anyhow::Result<String> {
    let mut text = "# Licences of what this program is made of\n\nTheir texts, as far as the \
                    crates bring them, are in the folder `licenses`.\n\n| crate | version | \
                    licence | source |\n|---|---|---|---|\n"
        .to_owned();
    for package in packages {
        let Some(license) = &package.license else {
            bail!("{} {} names no licence", package.name, package.version);
        };
        let source = package.repository.as_deref().unwrap_or("");
        text += &format!(
            "| {} | {} | {license} | {source} |\n",
            package.name, package.version
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_linked_counts() {
        let package = |name: &str, source: Option<&str>| {
            serde_json::json!({
                "id": name, "name": name, "version": "1.0.0", "license": "MIT",
                "manifest_path": "/x/Cargo.toml", "source": source, "repository": null,
            })
        };
        let edge = |to: &str, kind: Option<&str>| serde_json::json!({"pkg": to, "dep_kinds": [{"kind": kind}]});
        let metadata = serde_json::json!({
            "packages": [
                package(SHIPPED, None), package("ours", None), package("a", Some("r")),
                package("b", Some("r")), package("test", Some("r")), package("build", Some("r")),
            ],
            "resolve": {"nodes": [
                {"id": SHIPPED, "deps": [edge("ours", None), edge("test", Some("dev"))]},
                {"id": "ours", "deps": [edge("b", None), edge("build", Some("build"))]},
                {"id": "b", "deps": [edge("a", None), edge("b", None)]},
            ]},
        });
        let metadata = serde_json::from_value(metadata).unwrap();
        let packages = linked(&metadata).unwrap();
        let names: Vec<_> = packages.iter().map(|package| &*package.name).collect();
        assert_eq!(names, ["a", "b"]);
        let text = table(&packages).unwrap();
        assert!(
            text.ends_with("| a | 1.0.0 | MIT |  |\n| b | 1.0.0 | MIT |  |\n"),
            "{text}"
        );
    }
}
