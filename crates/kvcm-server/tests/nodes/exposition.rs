//! A strict reader of Prometheus' text format, version 0.0.4.

use std::collections::{BTreeMap, BTreeSet};

/// The samples of a page, by name and labels as they are written.
#[derive(Debug, Default)]
pub(crate) struct Page {
    samples: BTreeMap<String, f64>,
}

impl Page {
    /// Reads a page. Panics at the first thing that a strict server could refuse: a sample without
    /// help and type, a type that does not fit the name, a series that is there twice, a histogram
    /// whose buckets fall.
    pub(crate) fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line is not ended");
        let mut page = Self::default();
        let mut families = BTreeSet::new();
        let (mut helped, mut family, mut kind) = ("", "", "");
        let mut bucket: Option<(String, f64)> = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap_or_else(|| panic!("{line}"));
                assert!(!help.is_empty(), "{line}");
                helped = name;
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                (family, kind) = rest.split_once(' ').unwrap_or_else(|| panic!("{line}"));
                assert_eq!(helped, family, "help and type belong together: {line}");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert!(
                    families.insert(family),
                    "a family that is there twice: {line}"
                );
                assert_eq!(kind == "counter", family.ends_with("_total"), "{line}");
                assert!(is_name(family), "{line}");
            } else {
                let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
                let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
                let (name, labels) = match series.split_once('{') {
                    Some((name, labels)) => (name, labels.strip_suffix('}').unwrap()),
                    None => (series, ""),
                };
                let labels = parse_labels(labels);
                let suffix = name
                    .strip_prefix(family)
                    .unwrap_or_else(|| panic!("a sample outside of its family {family}: {line}"));
                match kind {
                    "histogram" => {
                        assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}")
                    }
                    _ => assert_eq!(suffix, "", "{line}"),
                }
                assert!(kind == "gauge" || value >= 0.0, "{line}");
                if suffix == "_bucket" {
                    let mut others = labels.clone();
                    others.remove("le").unwrap_or_else(|| panic!("{line}"));
                    let series = format!("{name}{others:?}");
                    if let Some((same, below)) = &bucket {
                        assert!(*same != series || *below <= value, "buckets fall: {line}");
                    }
                    bucket = Some((series, value));
                }
                let before = page.samples.insert(series.to_owned(), value);
                assert!(before.is_none(), "a series that is there twice: {line}");
            }
        }
        page
    }

    /// The value of a series, written as on the page.
    pub(crate) fn value(&self, series: &str) -> Option<f64> {
        self.samples.get(series).copied()
    }

    /// The series whose text begins so.
    pub(crate) fn starting(&self, start: &str) -> impl Iterator<Item = (&str, f64)> {
        let samples = self.samples.iter();
        let samples = samples.filter(move |(series, _)| series.starts_with(start));
        samples.map(|(series, value)| (series.as_str(), *value))
    }
}

fn is_name(text: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.chars().all(is_fine) && !text.starts_with(|c: char| c.is_ascii_digit())
}

fn parse_labels(mut text: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").unwrap_or_else(|| panic!("{text}"));
        assert!(is_name(name), "{text}");
        let mut value = String::new();
        let mut letters = rest.char_indices();
        let end = loop {
            match letters.next().unwrap_or_else(|| panic!("{text}")) {
                (at, '"') => break at,
                (_, '\\') => match letters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, c @ ('\\' | '"'))) => value.push(c),
                    other => panic!("{other:?} after a backslash in {text}"),
                },
                (_, letter) => value.push(letter),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "{text}");
        text = &rest[end + 1..];
        text = text.strip_prefix(',').unwrap_or(text);
    }
    labels
}

#[test]
fn what_a_strict_server_refuses_is_refused() {
    let head = "# HELP a_total A\n# TYPE a_total counter\n";
    Page::parse(&format!("{head}a_total{{x=\"\\\"\\n\"}} 1\n"));
    for bad in [
        "a_total 1\n".to_owned(),
        format!("{head}a_total -1\n"),
        format!("{head}a_total 1"),
        format!("{head}a_total 1\na_total 1\n"),
        format!("{head}{head}"),
        format!("{head}b 1\n"),
        format!("{head}a_total{{x=\"\\x\"}} 1\n"),
        "# TYPE a_total counter\n".to_owned(),
        "# HELP a A\n# TYPE a counter\n".to_owned(),
        "# HELP a A\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\n"
            .to_owned(),
    ] {
        assert!(
            std::panic::catch_unwind(|| Page::parse(&bad)).is_err(),
            "{bad}"
        );
    }
}
