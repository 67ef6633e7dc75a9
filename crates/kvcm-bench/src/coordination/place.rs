//! What is shared: a memory backend, a directory, a Redis server.

use std::sync::Arc;

use anyhow::Context;
use coordination_core::Backend;
use coordination_file::FileBackend;
use coordination_memory::MemoryBackend;
use coordination_redis::RedisBackend;
use kvcm_clock::BootClock;
use kvcm_redis::Config;
use kvcm_testkit::RedisServer;
use kvcm_uri::Uri;
use tempfile::TempDir;

use crate::coordination::{Kind, Options};

/// The place where contenders meet. Removed when it is dropped.
pub(super) enum Place {
    Memory(MemoryBackend),
    File(TempDir),
    Redis(RedisServer),
}

impl Place {
    pub(super) fn open(kind: Kind, options: &Options) -> anyhow::Result<Self> {
        Ok(match kind {
            Kind::Memory => Self::Memory(MemoryBackend::new(Arc::new(BootClock))),
            Kind::File => {
                let prefix = "kvcm-bench-";
                let folder = match &options.dir {
                    Some(dir) => TempDir::with_prefix_in(prefix, dir),
                    None => TempDir::with_prefix(prefix),
                };
                Self::File(folder.context("cannot create a folder")?)
            }
            Kind::Redis => Self::Redis(RedisServer::start(&["--maxmemory-policy", "noeviction"])?),
        })
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Memory(_) => Kind::Memory,
            Self::File(_) => Kind::File,
            Self::Redis(_) => Kind::Redis,
        }
    }

    /// For other processes; none when they cannot take part.
    pub(super) fn uri(&self) -> Option<String> {
        match self {
            Self::Memory(_) => None,
            Self::File(folder) => Some(format!("file://{}", folder.path().display())),
            Self::Redis(server) => Some(server.uri()),
        }
    }

    /// One more backend, with files or connections of its own.
    pub(super) fn backend(&self) -> anyhow::Result<Arc<dyn Backend>> {
        match (self, self.uri()) {
            (Self::Memory(shared), _) => Ok(Arc::new(shared.clone())),
            (_, Some(uri)) => backend(&uri),
            (_, None) => unreachable!("all but memory have a URI"),
        }
    }
}

/// The backend that a URI names, on the machine's clock.
pub(super) fn backend(uri: &str) -> anyhow::Result<Arc<dyn Backend>> {
    let uri = Uri::parse(uri)?;
    let clock = Arc::new(BootClock);
    Ok(match uri.scheme() {
        "file" => Arc::new(FileBackend::from_uri(&uri, clock)?),
        _ => Arc::new(RedisBackend::open(Config::from_uri(&uri)?.0, clock)?),
    })
}
