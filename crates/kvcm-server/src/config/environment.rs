//! Keys and other variables of the process environment.
//!
//! A key is looked for under its dotted name, then with underscores for the dots, because most
//! shells cannot set a dotted variable. An empty variable counts as not set.

use std::collections::BTreeMap;

use super::{
    KEYS, Key, LogLevel,
    entry::{Entry, printable},
    options::level_word,
};

/// An environment variable that is no key.
#[derive(Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Whether it has an effect.
    pub used: bool,
}

/// The variable that sets the log level.
pub(super) const LOG_LEVEL: &str = "KVCM_LOG_LEVEL";

/// Every environment variable that is no key.
pub static VARIABLES: &[Variable] = &[
    Variable {
        name: LOG_LEVEL,
        doc: "DEBUG, INFO, WARN or ERROR; wins over kvcm.logger.log_level",
        used: true,
    },
    Variable {
        name: "KVCM_LOG_TO_CONSOLE",
        doc: "logs always go to standard error",
        used: false,
    },
    Variable {
        name: "KVCM_ACCESS_LOG_WITH_PAYLOAD",
        doc: "payloads in the access log",
        used: false,
    },
];

/// What the environment says.
#[derive(Debug, Default)]
pub(super) struct Environment {
    pub(super) entries: Vec<Entry>,
    pub(super) log_level: Option<LogLevel>,
    pub(super) warnings: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// Reads the variables that concern this server.
pub(super) fn read(variables: &BTreeMap<String, String>) -> Environment {
    let mut environment = Environment::default();
    for (name, value) in variables {
        if value.trim().is_empty() {
            continue;
        }
        if name.starts_with("kvcm.") || name.starts_with("kvcm_") {
            let written = dotted(name).unwrap_or(name);
            environment.add(written, name, value);
        } else if name == LOG_LEVEL {
            environment.set_log_level(value);
        } else if let Some(variable) = VARIABLES.iter().find(|v| v.name == name) {
            environment.notes.push(format!(
                "environment variable {name} has no effect here: {}",
                variable.doc
            ));
        } else if let Some(key) = dotted(&name.to_ascii_lowercase()) {
            environment.warnings.push(format!(
                "environment variable {name} is ignored; did you mean {}?",
                key.replace('.', "_")
            ));
        }
    }
    environment
}

/// The key that a variable name with underscores stands for.
fn dotted(variable: &str) -> Option<&'static str> {
    let names = KEYS
        .iter()
        .flat_map(|key: &Key| [Some(key.name), key.alias])
        .flatten();
    names
        .into_iter()
        .find(|name| *name == variable || name.replace('.', "_") == variable)
}

impl Environment {
    /// Adds a variable. The map is sorted and a dot sorts before an underscore, so the dotted
    /// form comes first and wins.
    fn add(&mut self, key: &str, variable: &str, value: &str) {
        let origin = format!("environment variable {}", printable(variable));
        if let Some(earlier) = self.entries.iter().find(|entry| entry.key == key) {
            self.warnings.push(format!(
                "{origin} is ignored, because {} is also set",
                earlier.origin
            ));
            return;
        }
        self.entries.push(Entry {
            key: key.to_owned(),
            value: value.trim().to_owned(),
            origin,
        });
    }

    fn set_log_level(&mut self, value: &str) {
        self.log_level = level_word(value.trim());
        if self.log_level.is_none() {
            self.warnings.push(format!(
                "environment variable {LOG_LEVEL} = `{value}` is ignored, expected DEBUG, INFO, \
                 WARN or ERROR"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn dots_win_over_underscores_and_empty_is_unset() {
        let environment = read(&variables(&[
            ("kvcm_service_rpc_port", "1"),
            ("kvcm.service.rpc_port", "2"),
            ("kvcm_service_http_port", " 3 "),
            ("kvcm.service.admin_rpc_port", ""),
            ("PATH", "/bin"),
        ]));
        let pairs: Vec<_> = environment
            .entries
            .iter()
            .map(|e| (e.key.as_str(), e.value.as_str(), e.origin.as_str()))
            .collect();
        assert_eq!(
            pairs,
            [
                (
                    "kvcm.service.rpc_port",
                    "2",
                    "environment variable kvcm.service.rpc_port"
                ),
                (
                    "kvcm.service.http_port",
                    "3",
                    "environment variable kvcm_service_http_port"
                ),
            ]
        );
        assert_eq!(environment.warnings.len(), 1, "{:?}", environment.warnings);
    }

    #[test]
    fn a_key_in_capitals_is_ignored_with_a_hint_and_strangers_in_silence() {
        let environment = read(&variables(&[
            ("KVCM_SERVICE_RPC_PORT", "1"),
            // Kubernetes sets such ones for a service named kvcm.
            ("KVCM_PORT_6381_TCP", "tcp://10.0.0.1:6381"),
            ("KVCM_SERVICE_HOST", "10.0.0.1"),
            ("KVCM_LOG_TO_CONSOLE", "1"),
        ]));
        assert!(environment.entries.is_empty());
        assert_eq!(
            environment.warnings,
            [
                "environment variable KVCM_SERVICE_RPC_PORT is ignored; did you mean \
              kvcm_service_rpc_port?"
            ]
        );
        assert_eq!(environment.notes.len(), 1);
    }

    #[test]
    fn the_log_level_is_a_word() {
        assert_eq!(
            read(&variables(&[(LOG_LEVEL, "debug")])).log_level,
            Some(LogLevel::Debug)
        );
        let bad = read(&variables(&[(LOG_LEVEL, "loud")]));
        assert_eq!((bad.log_level, bad.warnings.len()), (None, 1));
    }
}
