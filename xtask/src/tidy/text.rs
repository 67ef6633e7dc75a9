//! What every file must have, and what none may hold.

use super::TextFile;

/// Texts that no file may hold, each with the reason. Written in two halves, so that this file
/// does not hold them itself.
const BANNED: &[(&str, &str)] = &[
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/Us", "ers/"), "a path of one machine"),
    (concat!("tod", "o!("), "unfinished code"),
    (concat!("unimpl", "emented!("), "unfinished code"),
    (
        concat!("#[ig", "nore"),
        "a test that is skipped; assert what happens today instead",
    ),
];

/// Every source without a header, every banned text, every crate outside the lint table.
pub(super) fn check(files: &[TextFile]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files {
        let path = &file.path;
        let generated = path.contains("/generated/");
        if path.ends_with(".rs") && !generated && !file.text.starts_with("//!") {
            wrong.push(format!(
                "{path}:1: a source starts with `//!` and what it is for"
            ));
        }
        if path.ends_with("/Cargo.toml") && !file.text.contains("[lints]\nworkspace = true") {
            wrong.push(format!("{path}: `[lints] workspace = true` is missing"));
        }
        for (number, line) in file.text.lines().enumerate() {
            for (text, why) in BANNED {
                if line.contains(text) {
                    wrong.push(format!("{path}:{}: `{text}`: {why}", number + 1));
                }
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::file;

    #[test]
    fn a_source_without_header_is_named_unless_generated() {
        let wrong = check(&[
            file("crates/a/src/a.rs", "use std::fmt;\n"),
            file("crates/a/src/b.rs", "//! B.\n"),
            file("crates/a/src/generated/c.rs", "// made by a program\n"),
        ]);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].starts_with("crates/a/src/a.rs:1:"), "{wrong:?}");
    }

    #[test]
    fn banned_texts_are_named_with_their_line() {
        for (text, why) in BANNED {
            let wrong = check(&[file("docs/a.md", &format!("one\ntwo {text} three\n"))]);
            assert_eq!(wrong, [format!("docs/a.md:2: `{text}`: {why}")]);
        }
    }

    #[test]
    fn a_crate_outside_the_lint_table_is_named() {
        let wrong = check(&[file("crates/a/Cargo.toml", "[package]\nname = \"a\"\n")]);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        let right = "[package]\n\n[lints]\nworkspace = true\n";
        assert_eq!(
            check(&[file("crates/a/Cargo.toml", right)]),
            [] as [String; 0]
        );
    }
}
