//! Tests that documents name: each must exist, or a table of tests rots.

use super::TextFile;

/// Code spans of Markdown files of the form `crate/path/file.rs: function` whose function is not
/// there.
pub(super) fn check(files: &[TextFile]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for (number, line) in file.text.lines().enumerate() {
            for span in line.split('`').skip(1).step_by(2) {
                let Some((source, function)) = span.split_once(".rs: ") else {
                    continue;
                };
                let path = format!("crates/{source}.rs");
                let source = files.iter().find(|file| file.path == path);
                let named = format!("fn {function}(");
                if !source.is_some_and(|source| source.text.contains(&named)) {
                    let place = number + 1;
                    wrong.push(format!(
                        "{}:{place}: `{function}` is not in {path}",
                        file.path
                    ));
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
    fn tests_that_do_not_exist_are_named() {
        let source = file(
            "crates/a/tests/b.rs",
            "async fn it_holds() {}\nfn other() {}\n",
        );
        let text = "| 1 | `a/tests/b.rs: it_holds`, `a/tests/b.rs: other` |\n\
            | 2 | `a/tests/b.rs: it_hold`, `a/tests/c.rs: it_holds` and `b.rs` |\n";
        let wrong = check(&[file("docs/f.md", text), source]);
        assert_eq!(
            wrong,
            [
                "docs/f.md:2: `it_hold` is not in crates/a/tests/b.rs",
                "docs/f.md:2: `it_holds` is not in crates/a/tests/c.rs"
            ]
        );
    }
}
