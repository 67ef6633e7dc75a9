//! Documents: those that must exist, and the links between them.

use std::path::{Component, Path, PathBuf};

use super::TextFile;

/// Documents that the house promises.
const DOCUMENTS: &[&str] = &["README.md", "LICENSE", "deny.toml", "docs/ARCHITECTURE.md"];

/// Missing documents, and relative links of Markdown files that lead nowhere.
pub(super) fn check(files: &[TextFile], exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let missing = DOCUMENTS
        .iter()
        .filter(|path| !exists(Path::new(path)))
        .map(|path| format!("{path}: is missing"));
    let dead = files
        .iter()
        .filter(|file| file.path.ends_with(".md"))
        .flat_map(|file| dead_links(file, exists));
    missing.chain(dead).collect()
}

fn dead_links(file: &TextFile, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        for after in line.split("](").skip(1) {
            let Some((target, _)) = after.split_once(')') else {
                continue;
            };
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains(':') {
                continue;
            }
            let folder = Path::new(&file.path)
                .parent()
                .unwrap_or_else(|| Path::new(""));
            if !exists(&normal(&folder.join(target))) {
                wrong.push(format!(
                    "{}:{}: `{target}` does not exist",
                    file.path,
                    number + 1
                ));
            }
        }
    }
    wrong
}

/// `a/../b` as `b`: the folder between may not exist.
fn normal(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::file;

    #[test]
    fn dead_links_are_named_and_addresses_left_alone() {
        let text = "[a](b.md#part) [c](../docs/d.md)\n[e](https://example.org/) [f](#here)\n";
        let known = |path: &Path| {
            DOCUMENTS.iter().any(|name| path == Path::new(name)) || path == Path::new("docs/b.md")
        };
        let wrong = check(&[file("docs/a.md", text)], &known);
        assert_eq!(wrong, ["docs/a.md:1: `../docs/d.md` does not exist"]);
    }

    #[test]
    fn missing_documents_are_named() {
        assert_eq!(check(&[], &|_| false).len(), DOCUMENTS.len());
    }
}
