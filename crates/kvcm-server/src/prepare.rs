//! What has to be read before anything listens: files and URIs that the configuration names.

use std::{fs, path::PathBuf};

use kvcm_registry::StartupConfig;

use crate::config::{Loaded, Mistake};

const COORDINATION: &str = "kvcm.coordination.uri";
const PRIVATE_STORES: &str = "kvcm.allow_private_stores";
const STARTUP: &str = "kvcm.startup_config";

/// Where the leader is elected, checked.
#[derive(Clone, Debug, Default)]
pub enum Coordination {
    /// In this process: a single node.
    #[default]
    Memory,
    /// Among the nodes of this host.
    File(kvcm_uri::Uri),
    /// Among the nodes of several hosts.
    Redis(Box<kvcm_redis::Config>),
}

/// What the configuration names, read and checked. The default is what no configuration names.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// Where the leader is elected.
    pub coordination: Coordination,
    /// What a new registry starts with.
    pub startup: StartupConfig,
}

impl Prepared {
    /// Reads what `loaded` names. Gives warnings as well: what is probably not meant that way.
    ///
    /// # Errors
    /// Every mistake that shows.
    pub(crate) fn read(loaded: &Loaded) -> Result<(Self, Vec<String>), Vec<Mistake>> {
        let mut warnings = Vec::new();
        let coordination = coordination(loaded, &mut warnings);
        let startup = startup(loaded, &mut warnings);
        match (coordination, startup) {
            (Ok(coordination), Ok(startup)) => {
                let prepared = Self {
                    coordination,
                    startup,
                };
                Ok((prepared, warnings))
            }
            (coordination, startup) => {
                let mut mistakes = coordination.err().unwrap_or_default();
                mistakes.extend(startup.err().unwrap_or_default());
                Err(mistakes)
            }
        }
    }
}

fn coordination(loaded: &Loaded, warnings: &mut Vec<String>) -> Result<Coordination, Vec<Mistake>> {
    let Some(uri) = &loaded.config.coordination else {
        return Ok(Coordination::Memory);
    };
    match uri.scheme() {
        "memory" => Ok(Coordination::Memory),
        "file" if uri.path().len() > 1 => Ok(Coordination::File(uri.clone())),
        "file" => {
            let problem = "it names no directory, expected file:///directory";
            Err(vec![loaded.mistake(COORDINATION, problem)])
        }
        _ => {
            let read = kvcm_redis::Config::from_uri(uri);
            let (config, notes) = read.map_err(|error| {
                let problems = error.mistakes.iter();
                problems
                    .map(|m| loaded.mistake(COORDINATION, m.to_string()))
                    .collect::<Vec<_>>()
            })?;
            warnings.extend(
                notes
                    .into_iter()
                    .map(|note| format!("{COORDINATION}: {note}")),
            );
            if !loaded.config.allow_private_stores {
                let problem = "the nodes of a Redis cluster would each keep their own registry \
                               and index in memory: what one leader knows is lost with it. Set \
                               it to true to run like that";
                return Err(vec![loaded.mistake(PRIVATE_STORES, problem)]);
            }
            Ok(Coordination::Redis(Box::new(config)))
        }
    }
}

fn startup(loaded: &Loaded, warnings: &mut Vec<String>) -> Result<StartupConfig, Vec<Mistake>> {
    let Some(path): Option<&PathBuf> = loaded.config.startup_config.as_ref() else {
        return Ok(StartupConfig::default());
    };
    let text = fs::read_to_string(path)
        .map_err(|error| vec![loaded.mistake(STARTUP, format!("cannot read it: {error}"))])?;
    let config = StartupConfig::parse(&text).map_err(|mistakes| {
        let mistakes = mistakes.0.into_iter();
        mistakes
            .map(|mistake| loaded.mistake(STARTUP, mistake))
            .collect::<Vec<_>>()
    })?;
    warnings.extend(
        config
            .warnings
            .iter()
            .map(|warning| format!("{STARTUP}: {warning}")),
    );
    Ok(config)
}
