//! What has to be read before anything listens: files and URIs that the configuration names.

use std::{fs, path::PathBuf};

use kvcm_registry::StartupConfig;

use crate::{
    config::{Loaded, Mistake},
    index_store::{FIELD, IndexStore},
    tls::{Tls, TlsFiles},
};

const COORDINATION: &str = "kvcm.coordination.uri";
const PRIVATE_STORES: &str = "kvcm.allow_private_stores";
const REGISTRY: &str = "kvcm.registry_storage.uri";
const STARTUP: &str = "kvcm.startup_config";
const TLS_CERT: &str = "kvcm.service.tls_cert_file";
const TLS_KEY: &str = "kvcm.service.tls_key_file";
const TLS_CLIENT_CA: &str = "kvcm.service.tls_client_ca_file";

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

/// Where the registry is kept, checked.
#[derive(Clone, Debug, Default)]
pub enum RegistryStorage {
    /// In the memory of the leader.
    #[default]
    Memory,
    /// In this directory, for the nodes of this host.
    Local {
        /// The directory.
        path: PathBuf,
        /// Also on a file system that hosts may share.
        allow_network_fs: bool,
    },
    /// For the nodes of several hosts.
    Redis(Box<kvcm_redis::Config>),
}

impl RegistryStorage {
    /// Whether directories may be on file systems that hosts may share.
    pub(crate) const fn allows_network_fs(&self) -> bool {
        match self {
            Self::Local {
                allow_network_fs, ..
            } => *allow_network_fs,
            Self::Memory | Self::Redis(_) => false,
        }
    }
}

/// What the configuration names, read and checked. The default is what no configuration names.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// Where the leader is elected.
    pub coordination: Coordination,
    /// Where the registry is kept.
    pub registry: RegistryStorage,
    /// What a new registry starts with.
    pub startup: StartupConfig,
    /// TLS of all ports; none: plain text.
    pub tls: Option<Tls>,
}

impl Prepared {
    /// Reads what `loaded` names. Gives warnings as well: what is probably not meant that way.
    ///
    /// # Errors
    /// Every mistake that shows.
    pub(crate) fn read(loaded: &Loaded) -> Result<(Self, Vec<String>), Vec<Mistake>> {
        let mut warnings = Vec::new();
        let mut mistakes = Vec::new();
        let coordination = collect(coordination(loaded, &mut warnings), &mut mistakes);
        let registry = collect(registry(loaded, &mut warnings), &mut mistakes);
        let mut startup = collect(startup(loaded, &mut warnings), &mut mistakes);
        if loaded.config.startup_config.is_none() {
            let index = &mut startup.group.cache_config.meta_indexer_config;
            index.meta_storage_backend_config = IndexStore::beside(&registry);
        }
        let tls = collect(tls(loaded).map_err(|mistake| vec![mistake]), &mut mistakes);
        let index = index(loaded, &startup, &registry, &mut mistakes);
        let private = private_stores(loaded, &coordination, &registry, index.as_ref());
        mistakes.extend(private);
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let prepared = Self {
            coordination,
            registry,
            startup,
            tls,
        };
        Ok((prepared, warnings))
    }
}

fn collect<T: Default>(result: Result<T, Vec<Mistake>>, mistakes: &mut Vec<Mistake>) -> T {
    result.unwrap_or_else(|more| {
        mistakes.extend(more);
        T::default()
    })
}

/// Where the nodes of a cluster are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// On one host: what is in a directory is seen by all of them.
    One,
    /// On several hosts: what is not at Redis is private to each.
    Several {
        /// That is fine (`kvcm.allow_private_stores`).
        private_is_fine: bool,
    },
}

impl Hosts {
    /// As the configuration has them.
    pub(crate) const fn of(coordination: &Coordination, private_is_fine: bool) -> Self {
        match coordination {
            Coordination::Memory | Coordination::File(_) => Self::One,
            Coordination::Redis(_) => Self::Several { private_is_fine },
        }
    }

    /// Whether what the nodes would not share is refused.
    pub(crate) const fn refuse_private(self) -> bool {
        matches!(
            self,
            Self::Several {
                private_is_fine: false
            }
        )
    }
}

/// What the nodes of several hosts would each know for themselves.
fn private_stores(
    loaded: &Loaded,
    coordination: &Coordination,
    registry: &RegistryStorage,
    index: Option<&IndexStore>,
) -> Option<Mistake> {
    if !Hosts::of(coordination, loaded.config.allow_private_stores).refuse_private() {
        return None;
    }
    let index = index.is_some_and(IndexStore::is_of_one_host);
    let private = match (registry, index) {
        (RegistryStorage::Redis(_), false) => return None,
        (RegistryStorage::Redis(_), true) => {
            "index (meta_storage_backend_config in the instance_group of kvcm.startup_config)"
        }
        (_, false) => "registry (kvcm.registry_storage.uri)",
        (_, true) => {
            "registry (kvcm.registry_storage.uri) and index (meta_storage_backend_config in the \
             instance_group of kvcm.startup_config)"
        }
    };
    let problem = format!(
        "the nodes of a Redis cluster would each keep their own {private}: what one leader knows \
         is lost with it. Keep it at Redis, or set this to true to run like that"
    );
    Some(loaded.mistake(PRIVATE_STORES, problem))
}

/// The index of the first group; none when it cannot be read, which is a mistake.
fn index(
    loaded: &Loaded,
    startup: &StartupConfig,
    registry: &RegistryStorage,
    mistakes: &mut Vec<Mistake>,
) -> Option<IndexStore> {
    let place = match IndexStore::of(&startup.group, registry) {
        Ok(place) => place,
        Err(problem) => {
            mistakes.push(loaded.mistake(STARTUP, problem));
            return None;
        }
    };
    if place.is_durable() && matches!(registry, RegistryStorage::Memory) {
        let problem = format!(
            "{FIELD}: an index outlives its leader only together with the registrations of its \
             instances: set {REGISTRY} as well"
        );
        mistakes.push(loaded.mistake(STARTUP, problem));
    }
    Some(place)
}

fn registry(loaded: &Loaded, warnings: &mut Vec<String>) -> Result<RegistryStorage, Vec<Mistake>> {
    let Some(uri) = &loaded.config.registry_storage else {
        return Ok(RegistryStorage::Memory);
    };
    if uri.scheme() == "local" {
        let mut params = kvcm_uri::Params::new(uri);
        let allow_network_fs = params.parsed("allow_network_fs", false, "true or false");
        let notes = params.finish();
        let notes = notes.map_err(|error| mistakes(loaded, REGISTRY, &error))?;
        warnings.extend(notes.into_iter().map(|note| format!("{REGISTRY}: {note}")));
        if allow_network_fs {
            warnings.push(format!(
                "{REGISTRY}: allow_network_fs: where one process does not see at once what another \
                 one has written, two leaders can both be acknowledged"
            ));
        }
        return Ok(RegistryStorage::Local {
            path: PathBuf::from(uri.path()),
            allow_network_fs,
        });
    }
    let config = redis(loaded, REGISTRY, uri, warnings)?;
    if config.cluster_name.is_none() {
        let problem = "it has no cluster_name: write redis://host/?cluster_name=NAME, so that \
                       clusters which share a server do not share a registry";
        return Err(vec![loaded.mistake(REGISTRY, problem)]);
    }
    Ok(RegistryStorage::Redis(Box::new(config)))
}

fn redis(
    loaded: &Loaded,
    key: &'static str,
    uri: &kvcm_uri::Uri,
    warnings: &mut Vec<String>,
) -> Result<kvcm_redis::Config, Vec<Mistake>> {
    let read = kvcm_redis::Config::from_uri(uri);
    let (config, notes) = read.map_err(|error| mistakes(loaded, key, &error))?;
    warnings.extend(notes.into_iter().map(|note| format!("{key}: {note}")));
    Ok(config)
}

fn mistakes(loaded: &Loaded, key: &'static str, error: &kvcm_uri::UriError) -> Vec<Mistake> {
    let problems = error.mistakes.iter();
    problems
        .map(|mistake| loaded.mistake(key, mistake.to_string()))
        .collect()
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
            let config = redis(loaded, COORDINATION, uri, warnings)?;
            Ok(Coordination::Redis(Box::new(config)))
        }
    }
}

/// That a file is missing altogether is told elsewhere.
fn tls(loaded: &Loaded) -> Result<Option<Tls>, Mistake> {
    let service = &loaded.config.service;
    let (Some(cert), Some(key)) = (&service.tls_cert_file, &service.tls_key_file) else {
        return Ok(None);
    };
    let files = TlsFiles {
        cert: cert.clone(),
        key: key.clone(),
        client_ca: service.tls_client_ca_file.clone(),
    };
    Tls::load(files).map(Some).map_err(|error| {
        let name = match error.file {
            file if file == *key => TLS_KEY,
            file if file == *cert => TLS_CERT,
            _ => TLS_CLIENT_CA,
        };
        loaded.mistake(name, error.problem)
    })
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
