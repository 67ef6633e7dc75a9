//! Reads all sources into a configuration.

use std::collections::BTreeMap;

use crate::prepare::Prepared;

use super::{
    Config, KEYS, Key, Mistake, Mistakes, Sources, check,
    entry::{Entry, printable},
    environment, file,
    layer::Layers,
    nearest::nearest,
    setting,
};

/// A configuration without mistakes.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// What is probably not meant that way; to be logged as warnings.
    pub warnings: Vec<String>,
    /// What is fine, but good to know.
    pub notes: Vec<String>,
    /// The value of every used key, in the order of the table.
    pub effective: Vec<Effective>,
    /// The files and URIs that the settings name, read.
    pub prepared: Prepared,
}

/// The value that applies to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The key.
    pub key: &'static str,
    /// Its text, passwords replaced.
    pub value: String,
    /// Where it comes from: `default`, a file with its line, `option -e`, a variable.
    pub origin: String,
}

impl Loaded {
    /// Where the value of a used key comes from.
    pub fn origin(&self, key: &str) -> &str {
        let effective = self.effective.iter().find(|value| value.key == key);
        effective.map_or("default", |value| &value.origin)
    }

    /// A mistake in the value of `key` that shows only later (a port that is in use, say), in the
    /// same form as those of [`Config::load`].
    pub fn mistake(&self, key: &'static str, problem: impl Into<String>) -> Mistake {
        let effective = self.effective.iter().find(|value| value.key == key);
        Mistake::Value {
            key,
            value: effective.map_or_else(String::new, |value| value.value.clone()),
            origin: self.origin(key).to_owned(),
            problem: problem.into(),
        }
    }
}

impl Config {
    /// Reads the configuration. `environment` is the process environment.
    ///
    /// # Errors
    /// Every mistake of every source at once.
    pub fn load(
        sources: &Sources,
        environment: &BTreeMap<String, String>,
    ) -> Result<Loaded, Mistakes> {
        Loader::default().load(sources, environment)
    }
}

impl Default for Config {
    fn default() -> Self {
        let mut config = Self::blank();
        for key in KEYS {
            // A test holds every default to its own rule.
            let _ = key.set(&mut config, key.default);
        }
        config
    }
}

#[derive(Default)]
struct Loader {
    warnings: Vec<String>,
    notes: Vec<String>,
    mistakes: Vec<Mistake>,
}

impl Loader {
    fn load(
        mut self,
        sources: &Sources,
        variables: &BTreeMap<String, String>,
    ) -> Result<Loaded, Mistakes> {
        let mut entries = Vec::new();
        match &sources.file {
            Some(path) => entries.extend(self.take(file::read(path))),
            None => self
                .notes
                .push("no configuration file is given (-c)".to_owned()),
        }
        entries.extend(self.take(setting::read(&sources.settings)));
        let environment = environment::read(variables);
        entries.extend(environment.entries);
        self.warnings.extend(environment.warnings);
        self.notes.extend(environment.notes);

        let layers = Layers::new(entries).map_err(|problem| {
            Mistakes(vec![Mistake::Source {
                origin: "configuration".to_owned(),
                problem,
            }])
        })?;
        self.report_keys(&layers, sources.refuse_unknown);
        let mut config = Config::blank();
        let effective = self.set_all(&layers, &mut config);
        if let Some(level) = environment.log_level {
            config.log.level = level;
        }
        let mut loaded = Loaded {
            config,
            warnings: self.warnings,
            notes: self.notes,
            effective,
            prepared: Prepared::default(),
        };
        // A field whose text was wrong has no value that another could be compared with.
        let wrong: Vec<_> = self.mistakes.iter().filter_map(key_of).collect();
        self.mistakes
            .extend(check::across_keys(&mut loaded, &wrong));
        // The files and URIs that the values name can be wrong as well.
        match Prepared::read(&loaded) {
            Ok((prepared, warnings)) => {
                loaded.prepared = prepared;
                loaded.warnings.extend(warnings);
            }
            Err(mistakes) => self.mistakes.extend(mistakes),
        }
        if self.mistakes.is_empty() {
            Ok(loaded)
        } else {
            Err(Mistakes(self.mistakes))
        }
    }

    fn take(&mut self, contents: file::Contents) -> Vec<Entry> {
        self.warnings.extend(contents.warnings);
        self.mistakes.extend(contents.mistakes);
        contents.entries
    }

    /// Says which keys are unknown and which have no effect.
    fn report_keys(&mut self, layers: &Layers, refuse_unknown: bool) {
        for name in layers.keys() {
            let Some((_, origin)) = layers.get(name) else {
                continue;
            };
            match Key::find(name) {
                Some(key) if !key.is_used() && origin != "default" => self.notes.push(format!(
                    "{name} ({origin}) is accepted, but has no effect in this server: {}",
                    key.doc
                )),
                Some(_) => {}
                None => {
                    let hint = nearest(name).map(|key| format!("; did you mean {key}?"));
                    let hint = hint.unwrap_or_default();
                    let problem = format!("unknown key {}{hint}", printable(name));
                    if refuse_unknown {
                        self.mistakes.push(Mistake::Source { origin, problem });
                    } else {
                        self.warnings.push(format!("{origin}: {problem}"));
                    }
                }
            }
        }
    }

    /// Sets every field from the text that applies to its key.
    fn set_all(&mut self, layers: &Layers, config: &mut Config) -> Vec<Effective> {
        let mut effective = Vec::new();
        for key in KEYS.iter().filter(|key| key.is_used()) {
            let Some((text, origin)) = self.text(layers, key) else {
                continue;
            };
            let value = key.printable(text);
            if let Err(problem) = key.set(config, text) {
                self.mistakes.push(Mistake::Value {
                    key: key.name,
                    value: value.clone(),
                    origin: origin.clone(),
                    problem,
                });
            }
            effective.push(Effective {
                key: key.name,
                value,
                origin,
            });
        }
        effective
    }

    /// The text of a key, or of its older name while that of the key is empty.
    fn text<'a>(&mut self, layers: &'a Layers, key: &Key) -> Option<(&'a str, String)> {
        let (text, origin) = layers.get(key.name)?;
        let older = key
            .alias
            .and_then(|alias| Some((alias, layers.get(alias)?)));
        match older {
            Some((alias, (text, origin))) if layers.get(key.name)?.0.is_empty() => {
                Some((text, format!("{origin}, as {alias}")))
            }
            Some((alias, _)) => {
                self.warnings
                    .push(format!("{alias} is ignored, because {} is set", key.name));
                Some((text, origin))
            }
            None => Some((text, origin)),
        }
    }
}

fn key_of(mistake: &Mistake) -> Option<&'static str> {
    match mistake {
        Mistake::Value { key, .. } => Some(key),
        Mistake::Source { .. } => None,
    }
}
