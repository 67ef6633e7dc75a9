//! Where an instance group keeps its index, as its configuration says it.

use std::path::{Component, Path, PathBuf};

use kvcm_registry::{Group, MetaStorageBackendConfig};
use kvcm_uri::{Params, Uri};

use crate::prepare::RegistryStorage;

/// The field that says it, as operators write it.
pub(crate) const FIELD: &str =
    "instance_group.cache_config.meta_indexer_config.meta_storage_backend_config";

/// Where an instance group keeps its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IndexStore {
    /// In the memory of the leader.
    Memory,
    /// In this directory, for the nodes of one host.
    Local(PathBuf),
    /// For the nodes of several hosts.
    Redis(Box<kvcm_redis::Config>),
}

impl IndexStore {
    /// Reads the configuration of a group of this registry.
    ///
    /// # Errors
    /// What cannot be, and what to write instead.
    pub(crate) fn of(group: &Group, registry: &RegistryStorage) -> Result<Self, String> {
        let index = &group.cache_config.meta_indexer_config;
        let MetaStorageBackendConfig {
            storage_type,
            storage_uri,
        } = &index.meta_storage_backend_config;
        let uri = storage_uri.trim();
        match storage_type.as_str() {
            "local" => local(uri),
            // A cache in memory over Redis is what the index always is.
            "redis" | "cached" => match registry {
                RegistryStorage::Redis(config) if uri.is_empty() => Ok(Self::Redis(config.clone())),
                _ => redis(storage_type, uri),
            },
            "dummy" => Err(format!(
                "{FIELD}.storage_type is `dummy`, which keeps nothing: write `local` without a \
                 storage_uri for an index in memory"
            )),
            other => Err(format!(
                "{FIELD}.storage_type is `{other}`, expected `local` or `redis`"
            )),
        }
    }

    /// The configuration of an index that is kept where the registry is. It holds no password.
    pub(crate) fn beside(registry: &RegistryStorage) -> MetaStorageBackendConfig {
        let (storage_type, storage_uri) = match registry {
            RegistryStorage::Memory => ("local", String::new()),
            RegistryStorage::Local { path, .. } => ("local", format!("local://{}", path.display())),
            RegistryStorage::Redis(_) => ("redis", String::new()),
        };
        MetaStorageBackendConfig {
            storage_type: storage_type.to_owned(),
            storage_uri,
        }
    }

    /// What makes it this store and no other: groups for which it is the same share one journal.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::Memory => "memory".to_owned(),
            Self::Local(path) => format!("local {}", path.display()),
            Self::Redis(config) => config.to_string(),
        }
    }

    /// What else to say when it cannot be opened.
    pub(crate) fn advice(&self) -> &'static str {
        match self {
            Self::Local(path) if path.is_file() => {
                "; the index of other servers, a file, is not read: name a directory for this one"
            }
            _ => "",
        }
    }

    /// Whether it outlives its leader.
    pub(crate) const fn is_durable(&self) -> bool {
        !matches!(self, Self::Memory)
    }

    /// Whether nodes of other hosts do not see it.
    pub(crate) const fn is_of_one_host(&self) -> bool {
        !matches!(self, Self::Redis(_))
    }
}

fn local(uri: &str) -> Result<IndexStore, String> {
    let expected = "expected an absolute directory: local:///directory, or nothing for an index \
                    in memory";
    let path = match uri {
        "" | "local://" | "memory://" => return Ok(IndexStore::Memory),
        path if path.starts_with('/') => PathBuf::from(path),
        uri => {
            let parsed = Uri::parse(uri).map_err(|error| format!("{FIELD}.{error}; {expected}"))?;
            let is_ours = matches!(parsed.scheme(), "local" | "file") && parsed.host().is_none();
            if !is_ours {
                return Err(format!("{FIELD}.storage_uri is `{parsed}`, {expected}"));
            }
            let read = Params::new(&parsed).finish();
            read.map_err(|error| format!("{FIELD}.storage_uri: {error}"))?;
            PathBuf::from(parsed.path())
        }
    };
    let path = tidy(&path);
    if path.parent().is_none() {
        return Err(format!("{FIELD}.storage_uri is `{uri}`, {expected}"));
    }
    Ok(IndexStore::Local(path))
}

/// The same path without what says nothing, so that spellings do not make two stores of one.
fn tidy(path: &Path) -> PathBuf {
    let parts = path.components();
    parts.filter(|part| *part != Component::CurDir).collect()
}

fn redis(storage_type: &str, uri: &str) -> Result<IndexStore, String> {
    let example = "write redis://host/?cluster_name=NAME";
    if uri.is_empty() {
        return Err(format!(
            "{FIELD}.storage_uri is empty, storage_type is `{storage_type}`, and the registry is not \
             at Redis either: {example}"
        ));
    }
    let failed = |error| format!("{FIELD}.storage_uri: {error}");
    let parsed = Uri::parse(uri).map_err(failed)?;
    let (config, _) = kvcm_redis::Config::from_uri(&parsed).map_err(failed)?;
    if config.cluster_name.is_none() {
        return Err(format!(
            "{FIELD}.storage_uri has no cluster_name: {example}, so that clusters which share a \
             server do not share an index"
        ));
    }
    Ok(IndexStore::Redis(Box::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(storage_type: &str, uri: &str) -> Result<IndexStore, String> {
        read_beside(&RegistryStorage::Memory, storage_type, uri)
    }

    fn read_beside(
        registry: &RegistryStorage,
        storage_type: &str,
        uri: &str,
    ) -> Result<IndexStore, String> {
        let mut group = Group::default();
        let index = &mut group.cache_config.meta_indexer_config;
        index.meta_storage_backend_config = MetaStorageBackendConfig {
            storage_type: storage_type.to_owned(),
            storage_uri: uri.to_owned(),
        };
        IndexStore::of(&group, registry)
    }

    #[test]
    fn an_index_can_be_kept_where_the_registry_is() {
        let uri = Uri::parse("redis://:secret@h:1/?cluster_name=c").unwrap();
        let (config, _) = kvcm_redis::Config::from_uri(&uri).unwrap();
        for (registry, expected) in [
            (RegistryStorage::Memory, IndexStore::Memory),
            (
                RegistryStorage::Local {
                    path: "/data/kvcm".into(),
                    allow_network_fs: false,
                },
                IndexStore::Local("/data/kvcm".into()),
            ),
            (
                RegistryStorage::Redis(Box::new(config.clone())),
                IndexStore::Redis(Box::new(config)),
            ),
        ] {
            let MetaStorageBackendConfig {
                storage_type,
                storage_uri,
            } = IndexStore::beside(&registry);
            assert!(!storage_uri.contains("secret"));
            let place = read_beside(&registry, &storage_type, &storage_uri);
            assert_eq!(place, Ok(expected));
        }
    }

    #[test]
    fn local_is_memory_or_a_directory_however_it_is_written() {
        for uri in ["", " ", "local://", "memory://"] {
            assert_eq!(read("local", uri), Ok(IndexStore::Memory), "{uri}");
        }
        let directory = Ok(IndexStore::Local("/data/index".into()));
        for uri in [
            "local:///data/index",
            "file:///data/index",
            "/data/index",
            "/data//index/./",
        ] {
            assert_eq!(read("local", uri), directory, "{uri}");
        }
    }

    #[test]
    fn redis_needs_an_address_and_a_cluster_name() {
        let uri = "redis://h:1/?cluster_name=c";
        let store = read("redis", uri).unwrap();
        assert!(store.is_durable() && !store.is_of_one_host());
        assert_eq!(read("cached", uri).unwrap().identity(), store.identity());
        // Another time-out is not another place.
        let slow = read("redis", "redis://h:1/?cluster_name=c&timeout_ms=7").unwrap();
        assert_eq!(slow.identity(), store.identity());
        for (uri, part) in [("", "is empty"), ("redis://h", "no cluster_name")] {
            let error = read("redis", uri).unwrap_err();
            assert!(
                error.contains(part) && error.contains("cluster_name="),
                "{error}"
            );
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_to_write() {
        for (storage_type, uri, part) in [
            ("local", "local://relative/index", "local:///directory"),
            ("local", "index", "local:///directory"),
            ("local", "/", "local:///directory"),
            ("local", "redis://h/?cluster_name=c", "local:///directory"),
            ("redis", "local:///data", "scheme `local`"),
            ("redis", "redis://:secret@h:x/", "storage_uri"),
            ("dummy", "", "without a storage_uri"),
            ("rocksdb", "", "`local` or `redis`"),
        ] {
            let error = read(storage_type, uri).unwrap_err();
            assert!(error.contains(part), "{error}");
            assert!(
                error.contains(FIELD) && !error.contains("secret"),
                "{error}"
            );
        }
    }
}
