//! The settings of `-e key=value`.
//!
//! A key that is given twice has its first value, as with the predecessor, whose scripts may
//! count on that.

use super::{
    Mistake,
    entry::{Entry, printable},
    file::Contents,
};

/// Reads the settings of the command line.
pub(super) fn read(settings: &[String]) -> Contents {
    let mut contents = Contents::default();
    for setting in settings {
        let Some((key, value)) = setting.split_once('=') else {
            contents.mistakes.push(Mistake::Source {
                origin: "option -e".to_owned(),
                problem: format!("expected key=value, found `{}`", printable(setting.trim())),
            });
            continue;
        };
        let key = key.trim();
        if contents.entries.iter().any(|entry| entry.key == key) {
            contents.warnings.push(format!(
                "option -e: {} is given more than once, the first value counts",
                printable(key)
            ));
            continue;
        }
        contents.entries.push(Entry {
            key: key.to_owned(),
            value: value.trim().to_owned(),
            origin: "option -e".to_owned(),
        });
    }
    contents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_two_values_counts_with_a_warning() {
        let contents = read(&["a=1".to_owned(), "b= x=y ".to_owned(), "a=2".to_owned()]);
        let pairs: Vec<_> = contents
            .entries
            .iter()
            .map(|entry| (entry.key.as_str(), entry.value.as_str()))
            .collect();
        assert_eq!(pairs, [("a", "1"), ("b", "x=y")]);
        assert_eq!(
            contents.warnings,
            ["option -e: a is given more than once, the first value counts"]
        );
    }

    #[test]
    fn a_setting_without_equals_sign_is_a_mistake() {
        let contents = read(&["kvcm.service.rpc_port".to_owned(), String::new()]);
        assert_eq!(contents.mistakes.len(), 2);
        assert_eq!(
            contents.mistakes[0].to_string(),
            "option -e: expected key=value, found `kvcm.service.rpc_port`"
        );
    }
}
