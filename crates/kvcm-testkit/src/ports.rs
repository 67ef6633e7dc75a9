//! The ports that a server tells once it serves.

use std::{fs, io, net::SocketAddr, path::Path};

use anyhow::Context;
use serde::Deserialize;

/// What stands in `kvcm.service.ports_file`. All ports are on 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Ports {
    /// MetaService over gRPC.
    pub rpc_port: u16,
    /// MetaService over HTTP/JSON.
    pub http_port: u16,
    /// AdminService over gRPC; may be the same as `rpc_port`.
    pub admin_rpc_port: u16,
    /// AdminService over HTTP/JSON.
    pub admin_http_port: u16,
    /// DebugService over HTTP/JSON, when it is switched on.
    pub debug_http_port: Option<u16>,
}

impl Ports {
    /// Reads the file; `None` while it is not there. It is written whole, so half a file is an
    /// error.
    pub fn read(file: &Path) -> anyhow::Result<Option<Self>> {
        match fs::read(file) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .with_context(|| format!("{} is not a ports file", file.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    /// MetaService over gRPC.
    pub fn rpc(&self) -> SocketAddr {
        local(self.rpc_port)
    }

    /// MetaService over HTTP/JSON.
    pub fn http(&self) -> SocketAddr {
        local(self.http_port)
    }

    /// AdminService over gRPC.
    pub fn admin_rpc(&self) -> SocketAddr {
        local(self.admin_rpc_port)
    }

    /// AdminService over HTTP/JSON.
    pub fn admin_http(&self) -> SocketAddr {
        local(self.admin_http_port)
    }

    /// DebugService over HTTP/JSON; `None` when it is switched off.
    pub fn debug_http(&self) -> Option<SocketAddr> {
        self.debug_http_port.map(local)
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}
