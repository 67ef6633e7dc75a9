//! `cargo xtask codegen`: writes crates/kvcm-proto/src/generated from proto/.
//!
//! Needs no protoc. What it writes is checked in, so that a build needs no generator; a test here
//! fails while the two differ.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, bail};
use prost::Message as _;

/// The sources, relative to `proto/`.
const SOURCES: [&str; 3] = [
    "meta_service.proto",
    "admin_service.proto",
    "debug_service.proto",
];

/// Where the sources are, relative to the workspace.
const SOURCE_DIR: &str = "proto";

/// Where the generated files go, relative to the workspace; nothing else lives there.
const GENERATED_DIR: &str = "crates/kvcm-proto/src/generated";

/// Name of the encoded descriptors among the generated files.
const DESCRIPTORS: &str = "descriptors.bin";

/// Files by name.
type Files = BTreeMap<String, Vec<u8>>;

/// Generates, then writes the files, or with `check` only compares them.
///
/// # Errors
/// A mistake in the sources (with its line), or files that cannot be read or written. With `check`
/// also files that differ from what would be written.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let root = crate::shell::root();
    let generated = root.join(GENERATED_DIR);
    let new = generate(&root.join(SOURCE_DIR))?;
    let stale = stale(&new, &read(&generated)?);
    if check {
        if !stale.is_empty() {
            bail!(
                "stale in {GENERATED_DIR}: {}; run `cargo xtask codegen` and commit what it writes",
                stale.join(", ")
            );
        }
        return Ok(());
    }
    std::fs::create_dir_all(&generated).with_context(|| format!("create {GENERATED_DIR}"))?;
    for name in stale {
        let path = generated.join(&name);
        match new.get(&name) {
            Some(bytes) => std::fs::write(&path, bytes),
            None => std::fs::remove_file(&path),
        }
        .with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// What the sources in `sources` generate.
fn generate(sources: &Path) -> anyhow::Result<Files> {
    let mut descriptors = protox::compile(SOURCES, [sources])
        .map_err(|error| anyhow::anyhow!("{error:?}"))
        .context("compile proto/")?;
    let out = tempfile::tempdir().context("create a temporary directory")?;
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    tonic_prost_build::configure()
        .client_mod_attribute(".", "#[cfg(feature = \"client\")]")
        .server_mod_attribute(".", "#[cfg(feature = \"server\")]")
        .out_dir(out.path())
        .compile_fds_with_config(descriptors.clone(), config)
        .context("generate Rust from proto/")?;
    let mut files = read(out.path())?;
    // Comments and positions are of no use at run time.
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    files.insert(DESCRIPTORS.to_owned(), descriptors.encode_to_vec());
    Ok(files)
}

/// The files of a directory; none when it does not exist.
fn read(dir: &Path) -> anyhow::Result<Files> {
    let mut files = Files::new();
    if !dir.exists() {
        return Ok(files);
    }
    for entry in std::fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let bytes = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        files.insert(name.into_owned(), bytes);
    }
    Ok(files)
}

/// Names of the files that are missing, differ or should not be there.
fn stale(new: &Files, old: &Files) -> Vec<String> {
    let mut names: Vec<String> = new
        .keys()
        .chain(old.keys())
        .filter(|name| new.get(*name) != old.get(*name))
        .cloned()
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checked_in_files_are_what_the_sources_generate() {
        run(true).unwrap();
    }

    #[test]
    fn a_file_that_differs_is_missing_or_is_left_over_is_stale() {
        let files = |names: &[(&str, &str)]| -> Files {
            let own = |(name, text): &(&str, &str)| (name.to_string(), text.as_bytes().to_vec());
            names.iter().map(own).collect()
        };
        let new = files(&[("differs", "new"), ("missing", ""), ("same", "x")]);
        let old = files(&[("differs", "old"), ("left over", ""), ("same", "x")]);
        assert_eq!(stale(&new, &old), ["differs", "left over", "missing"]);
    }
}
