//! What `cargo metadata` says about the workspace.

use std::path::PathBuf;

use anyhow::Context;
use serde::Deserialize;

use crate::shell;

/// The workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    /// The crates of the workspace.
    pub(crate) packages: Vec<Package>,
    /// Where cargo puts what it builds.
    pub(crate) target_directory: PathBuf,
}

/// One crate of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    /// The crate's name.
    pub(crate) name: String,
    /// What it names under its three kinds of dependencies.
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a dependency table.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    /// The crate it names.
    pub(crate) name: String,
    /// Nothing, `dev` or `build`.
    pub(crate) kind: Option<String>,
}

/// Asks cargo, without network.
pub(crate) fn load() -> anyhow::Result<Metadata> {
    let text = shell::output(&mut shell::cargo([
        "metadata",
        "--offline",
        "--no-deps",
        "--format-version",
        "1",
    ]))?;
    serde_json::from_slice(&text).context("cargo metadata printed something unexpected")
}
