//! `cargo xtask tidy`: rules of the house that the compiler does not check.
//!
//! Each check gives a list of what is wrong, with file and line; each is a test as well.

mod arrows;
mod links;
mod named_tests;
mod text;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

use crate::{metadata, shell};

/// Runs every check and names every mistake.
pub(crate) fn run() -> anyhow::Result<()> {
    let files = files()?;
    let mut wrong = arrows::check(&metadata::load()?);
    wrong.extend(text::check(&files));
    wrong.extend(named_tests::check(&files));
    wrong.extend(links::check(&files, &|path| {
        shell::root().join(path).exists()
    }));
    for line in &wrong {
        eprintln!("{line}");
    }
    if !wrong.is_empty() {
        bail!("{} mistakes", wrong.len());
    }
    eprintln!("{} files are tidy", files.len());
    Ok(())
}

/// One text file of the repository.
struct TextFile {
    /// Path from the top, with `/`.
    path: String,
    /// What it holds.
    text: String,
}

/// Every text file, without what cargo and git make.
fn files() -> anyhow::Result<Vec<TextFile>> {
    let mut found = Vec::new();
    collect(shell::root(), &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn collect(folder: &Path, found: &mut Vec<TextFile>) -> anyhow::Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path: PathBuf = entry?.path();
        let inside = path.strip_prefix(shell::root()).unwrap_or(&path);
        let inside = inside.to_string_lossy().into_owned();
        if matches!(inside.as_str(), ".git" | "target" | "Cargo.lock") {
            continue;
        }
        if path.is_dir() {
            collect(&path, found)?;
        } else if let Ok(text) = fs::read_to_string(&path) {
            // What is not UTF-8 is not text, and another program may just have removed a file.
            found.push(TextFile { path: inside, text });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that exists only in a test.
    pub(super) fn file(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn no_crate_depends_on_what_the_design_forbids() {
        assert_eq!(arrows::check(&metadata::load().unwrap()), [] as [String; 0]);
    }

    #[test]
    fn every_source_has_a_header_and_no_file_a_stray_text() {
        assert_eq!(text::check(&files().unwrap()), [] as [String; 0]);
    }

    #[test]
    fn links_between_documents_lead_somewhere() {
        let wrong = links::check(&files().unwrap(), &|path| shell::root().join(path).exists());
        assert_eq!(wrong, [] as [String; 0]);
    }

    #[test]
    fn tests_that_documents_name_exist() {
        assert_eq!(named_tests::check(&files().unwrap()), [] as [String; 0]);
    }

    #[test]
    fn the_walk_finds_this_file_and_nothing_that_is_built() {
        let files = files().unwrap();
        assert!(files.iter().any(|file| file.path == "xtask/src/tidy.rs"));
        assert!(files.iter().all(|file| !file.path.starts_with("target/")));
    }
}
