//! `cargo xtask release <version>`: checks, changelog, version, tag. Nothing leaves this machine.

use std::{fs, io::ErrorKind, path::Path, process::Command};

use anyhow::{Context, bail};

use crate::shell;

const NOTES: &str = "release-notes/unreleased";
const CHANGELOG: &str = "CHANGELOG.md";
const HEAD: &str = "# Changelog\n\nThe newest release comes first.\n";

/// Does the steps of a release, or only shows them and makes the checks that change nothing.
pub(crate) fn run(version: &str, execute: bool) -> anyhow::Result<()> {
    let root = shell::root();
    let tag = format!("v{version}");
    let current = shell::version("kvcm-server")?;
    if parse(version)? <= parse(&current)? && current != version {
        bail!("{version} does not come after {current}");
    }
    step("the tree is clean, and the tag is new");
    let changes = git(&["status", "--porcelain"])?;
    let is_dirty = !changes.is_empty();
    if is_dirty && execute {
        bail!("uncommitted changes:\n{changes}");
    }
    if !git(&["tag", "--list", &tag])?.is_empty() {
        bail!("there is a tag {tag} already");
    }
    let date = String::from_utf8(shell::output(Command::new("date").args(["-u", "+%F"]))?)?;
    let notes = notes(&root.join(NOTES))?;
    let section = section(version, date.trim(), &notes);
    let former = fs::read_to_string(root.join(CHANGELOG)).unwrap_or_else(|_| HEAD.to_owned());
    let changelog = with_section(&former, &section);
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let manifest = with_version(&manifest, &current, version)?;

    step("the dependencies are as deny.toml wants them: cargo deny check");
    deny(execute)?;
    step("CI passes: .ci/run");
    if execute {
        shell::run(Command::new("bash").arg(".ci/run").current_dir(root))?;
    }
    step(&format!(
        "{} notes move from {NOTES} into {CHANGELOG}:",
        notes.len()
    ));
    eprintln!("{section}");
    step(&format!(
        "the version in Cargo.toml and Cargo.lock: {current} becomes {version}"
    ));
    step(&format!("commit \"Release {version}\" and tag {tag}"));
    if !execute {
        if is_dirty {
            eprintln!("\nthe tree is not clean, so this would be refused:\n{changes}");
        }
        eprintln!("\nnothing was done: add --execute to do it");
        return Ok(());
    }
    fs::write(root.join(CHANGELOG), changelog)?;
    fs::write(root.join("Cargo.toml"), manifest)?;
    // Writes our own new version into the lock file and leaves everything else.
    shell::run(&mut shell::cargo(["update", "--workspace", "--offline"]))?;
    for note in &notes {
        git(&["rm", "-q", &format!("{NOTES}/{}", note.file)])?;
    }
    git(&["add", CHANGELOG, "Cargo.toml", "Cargo.lock"])?;
    let message = format!("Release {version}");
    git(&["commit", "-q", "-m", &message])?;
    git(&["tag", "-a", &tag, "-m", &message])?;
    eprintln!("done; now `cargo xtask dist`, and push the branch with its tag");
    Ok(())
}

/// Looks at licences, versions and sources, which needs no network; advisories would.
fn deny(must: bool) -> anyhow::Result<()> {
    if shell::output(&mut shell::cargo(["deny", "--version"])).is_err() {
        let hint = "cargo-deny is missing: `cargo install cargo-deny --locked`";
        if must {
            bail!(hint);
        }
        eprintln!("{hint}");
        return Ok(());
    }
    let arguments = ["deny", "--offline", "check", "licenses", "bans", "sources"];
    shell::run(&mut shell::cargo(arguments))
}

fn step(text: &str) {
    eprintln!("== {text}");
}

fn git(arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new("git");
    let output = shell::output(command.args(arguments).current_dir(shell::root()))?;
    Ok(String::from_utf8(output)?.trim_end().to_owned())
}

/// The three numbers of a version.
fn parse(version: &str) -> anyhow::Result<[u64; 3]> {
    let numbers: Result<Vec<u64>, _> = version.split('.').map(str::parse).collect();
    numbers
        .ok()
        .and_then(|numbers| numbers.try_into().ok())
        .with_context(|| format!("`{version}` is no version: expected three numbers, 1.2.3"))
}

/// A release note.
#[derive(Debug, PartialEq, Eq)]
struct Note {
    file: String,
    text: String,
}

fn notes(folder: &Path) -> anyhow::Result<Vec<Note>> {
    let mut notes = Vec::new();
    // Git keeps no empty folder: after a release there is none.
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        entries => Some(entries.with_context(|| format!("cannot read {NOTES}"))?),
    };
    for entry in entries.into_iter().flatten() {
        let entry = entry?;
        if entry.path().extension().is_some_and(|end| end == "md") {
            notes.push(Note {
                file: entry.file_name().to_string_lossy().into_owned(),
                text: fs::read_to_string(entry.path())?,
            });
        }
    }
    if notes.is_empty() {
        bail!("{NOTES} has no notes: there is nothing to release");
    }
    notes.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(notes)
}

/// The changelog's part of a release: headings two levels deeper, links seen from the top folder.
fn section(version: &str, date: &str, notes: &[Note]) -> String {
    let mut section = format!("## {version} ({date})\n");
    for note in notes {
        section.push('\n');
        for line in note.text.trim().lines() {
            let line = line.replace("](../../", "](");
            let line = match line.starts_with('#') {
                true => format!("##{line}"),
                false => line,
            };
            section += line.trim_end();
            section.push('\n');
        }
    }
    section
}

/// Puts a section before the former ones.
fn with_section(changelog: &str, section: &str) -> String {
    let (head, former) = match changelog.find("\n## ") {
        Some(at) => changelog.split_at(at + 1),
        None => (changelog, ""),
    };
    let gap = if former.is_empty() { "" } else { "\n" };
    format!("{}\n\n{section}{gap}{former}", head.trim_end())
}

/// The manifest of the workspace with another version.
fn with_version(manifest: &str, current: &str, version: &str) -> anyhow::Result<String> {
    let table = "[workspace.package]\n";
    let line = format!("version = \"{current}\"");
    let start = manifest
        .find(table)
        .context("Cargo.toml has no [workspace.package]")?;
    let at = manifest[start..].find(&line);
    let at = start + at.with_context(|| format!("Cargo.toml does not say {line}"))?;
    let (before, after) = (&manifest[..at], &manifest[at + line.len()..]);
    Ok(format!("{before}version = \"{version}\"{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_comes_first_with_its_headings_and_links_in_place() {
        let note = |file: &str, text: &str| Note {
            file: file.to_owned(),
            text: text.to_owned(),
        };
        let notes = [
            note("a.md", "# One\n\n- see [x](../../docs/X.md)\n"),
            note("b.md", "# Two\n"),
        ];
        let first = section("1.0.0", "2026-01-02", &notes);
        assert_eq!(
            first,
            "## 1.0.0 (2026-01-02)\n\n### One\n\n- see [x](docs/X.md)\n\n### Two\n"
        );
        let changelog = with_section(HEAD, &first);
        assert_eq!(changelog, format!("{HEAD}\n{first}"));
        let second = section("1.1.0", "2026-02-02", &notes[1..]);
        let changelog = with_section(&changelog, &second);
        assert_eq!(changelog, format!("{HEAD}\n{second}\n{first}"));
    }

    #[test]
    fn only_the_version_of_the_workspace_changes() {
        let manifest = "[a]\nversion = \"0.1.0\"\n[workspace.package]\nversion = \"0.1.0\"\n\
                        [b]\nversion = \"0.1.0\"\n";
        let changed = with_version(manifest, "0.1.0", "0.2.0").unwrap();
        assert_eq!(
            changed,
            "[a]\nversion = \"0.1.0\"\n[workspace.package]\nversion = \"0.2.0\"\n\
             [b]\nversion = \"0.1.0\"\n"
        );
        assert!(with_version(manifest, "9.9.9", "10.0.0").is_err());
    }

    #[test]
    fn versions_are_three_numbers_and_compare_as_such() {
        assert!(parse("0.10.0").unwrap() > parse("0.9.12").unwrap());
        for text in ["", "1", "1.2", "1.2.3.4", "v1.2.3", "1.2.x"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
