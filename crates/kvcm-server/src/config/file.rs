//! The configuration file: `key=value` lines.
//!
//! `#` starts a comment anywhere in a line, so a value cannot hold one; a URI writes it `%23`.
//! Blanks around key and value do not count. A key that stands twice has its last value.

use std::path::Path;

use super::{
    Mistake,
    entry::{Entry, printable},
};

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) entries: Vec<Entry>,
    pub(super) warnings: Vec<String>,
    pub(super) mistakes: Vec<Mistake>,
}

/// Reads a file.
pub(super) fn read(path: &Path) -> Contents {
    let name = path.display().to_string();
    let problem = match std::fs::read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => return parse(&name, &text),
            Err(error) => {
                let end = error.utf8_error().valid_up_to();
                let line = 1 + count_newlines(&error.as_bytes()[..end]);
                format!("line {line} is not UTF-8 text")
            }
        },
        Err(error) => format!("cannot be read: {error}"),
    };
    Contents {
        mistakes: vec![Mistake::Source {
            origin: format!("file {name}"),
            problem,
        }],
        ..Contents::default()
    }
}

fn count_newlines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

fn parse(name: &str, text: &str) -> Contents {
    let mut contents = Contents::default();
    // Some editors put a byte order mark in front.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, written) in text.lines().enumerate() {
        let origin = format!("file {name} line {}", index + 1);
        let line = written.split('#').next().unwrap_or_default();
        let Some((key, value)) = line.split_once('=') else {
            if !line.trim().is_empty() {
                contents.mistakes.push(Mistake::Source {
                    origin,
                    problem: format!("expected key=value, found `{}`", printable(line.trim())),
                });
            }
            continue;
        };
        if line.len() < written.len() && line.ends_with(|c: char| !c.is_whitespace()) {
            contents.warnings.push(format!(
                "{origin}: the value of {} ends at the #, which starts a comment; in a URI write \
                 %23",
                printable(key.trim())
            ));
        }
        add(
            &mut contents,
            Entry {
                key: key.trim().to_owned(),
                value: value.trim().to_owned(),
                origin,
            },
        );
    }
    contents
}

/// Adds an entry in the place of an earlier one.
fn add(contents: &mut Contents, entry: Entry) {
    let earlier = contents.entries.iter_mut().find(|e| e.key == entry.key);
    match earlier {
        Some(earlier) => {
            contents.warnings.push(format!(
                "{}: {} replaces the value of {}",
                entry.origin,
                printable(&entry.key),
                earlier.origin
            ));
            *earlier = entry;
        }
        None => contents.entries.push(entry),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(key: &str, value: &str, line: usize) -> Entry {
        Entry {
            key: key.to_owned(),
            value: value.to_owned(),
            origin: format!("file f line {line}"),
        }
    }

    #[test]
    fn blanks_comments_and_line_ends_do_not_count() {
        let contents = parse("f", "\u{feff}# c\r\n\r\n  a.b =  1 2 \t# c\r\n=\nx = y=z\n");
        let expected = [
            entry("a.b", "1 2", 3),
            entry("", "", 4),
            entry("x", "y=z", 5),
        ];
        assert_eq!(contents.entries, expected);
        assert!(contents.mistakes.is_empty() && contents.warnings.is_empty());
    }

    #[test]
    fn every_line_without_equals_sign_is_named() {
        let contents = parse("f", "one\na=1\nredis://:secret@h\n");
        let texts: Vec<_> = contents.mistakes.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "file f line 1: expected key=value, found `one`",
                "file f line 3: expected key=value, found `redis…`"
            ]
        );
    }

    #[test]
    fn the_last_of_two_values_counts_with_a_warning() {
        let contents = parse("f", "a=1\na=2\n");
        assert_eq!(contents.entries, [entry("a", "2", 2)]);
        assert_eq!(
            contents.warnings,
            ["file f line 2: a replaces the value of file f line 1"]
        );
    }

    #[test]
    fn a_value_that_a_comment_cuts_is_warned_about() {
        let contents = parse("f", "u=redis://:pa#ss@h\nv=1 # fine\n");
        assert_eq!(contents.warnings.len(), 1, "{:?}", contents.warnings);
        assert!(contents.warnings[0].contains("%23"));
        assert!(
            !contents.warnings[0].contains("pa"),
            "{:?}",
            contents.warnings
        );
    }

    #[test]
    fn unreadable_files_and_bytes_are_named() {
        let missing = read(Path::new("/nonexistent/x.conf"));
        assert!(
            missing.mistakes[0]
                .to_string()
                .starts_with("file /nonexistent/x.conf: cannot")
        );
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.conf");
        std::fs::write(&path, b"a=1\nb=\xff\n").unwrap();
        assert!(
            read(&path).mistakes[0]
                .to_string()
                .ends_with("line 2 is not UTF-8 text")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(?s).*") {
            let contents = parse("f", &text);
            let lines = text.lines().count();
            prop_assert!(contents.entries.len() + contents.mistakes.len() <= lines);
        }
    }
}
