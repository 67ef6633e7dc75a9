//! Where the server's binary is.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

const NAME: &str = "kvcm-server";
const VARIABLE: &str = "KVCM_SERVER_BIN";

/// The file of the `kvcm-server` binary: `KVCM_SERVER_BIN` if it is set, else the one that cargo
/// built beside the running test or program.
pub fn server_binary() -> anyhow::Result<PathBuf> {
    let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let exe = std::env::current_exe().context("cannot tell which program this is")?;
    find(named.map(PathBuf::from), &exe)
}

fn find(named: Option<PathBuf>, exe: &Path) -> anyhow::Result<PathBuf> {
    if let Some(file) = named {
        if !file.is_file() {
            bail!("{VARIABLE} names {}, which is not a file", file.display());
        }
        return Ok(file);
    }
    // Programs stand in target/<profile>, tests in target/<profile>/deps.
    let beside = exe.ancestors().skip(1).take(2);
    let candidates: Vec<_> = beside.map(|folder| folder.join(NAME)).collect();
    match candidates.iter().find(|file| file.is_file()) {
        Some(file) => Ok(file.clone()),
        None => bail!(
            "there is no {NAME} beside {}: run `cargo build -p {NAME}` first, or set {VARIABLE} \
             to its file",
            exe.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn found_beside_a_program_and_above_a_test() {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join(NAME);
        let test = folder.path().join("deps/a-test");
        let error = find(None, &test).unwrap_err().to_string();
        assert!(error.contains("cargo build -p kvcm-server"), "{error}");
        fs::write(&binary, "").unwrap();
        assert_eq!(find(None, &test).unwrap(), binary);
        assert_eq!(find(None, &folder.path().join("demo")).unwrap(), binary);
    }

    #[test]
    fn a_named_file_wins_and_must_exist() {
        let folder = tempfile::tempdir().unwrap();
        let named = folder.path().join("other");
        let exe = folder.path().join("demo");
        fs::write(folder.path().join(NAME), "").unwrap();
        let error = find(Some(named.clone()), &exe).unwrap_err().to_string();
        assert!(error.contains("KVCM_SERVER_BIN"), "{error}");
        fs::write(&named, "").unwrap();
        assert_eq!(find(Some(named.clone()), &exe).unwrap(), named);
    }
}
