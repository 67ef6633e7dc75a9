//! The ports of a server.

use std::{fmt, io, net::TcpListener};

use crate::config::{Loaded, Mistake, Mistakes};

const RPC: &str = "kvcm.service.rpc_port";
const HTTP: &str = "kvcm.service.http_port";
const ADMIN_RPC: &str = "kvcm.service.admin_rpc_port";
const ADMIN_HTTP: &str = "kvcm.service.admin_http_port";
const DEBUG: &str = "kvcm.service.enable_debug_service";

/// Where DebugService is over HTTP, above the port of MetaService; the protocol has it so.
const DEBUG_OFFSET: u16 = 3000;

/// The listening sockets of a server, non-blocking.
#[derive(Debug)]
pub struct Listeners {
    /// MetaService over gRPC.
    pub rpc: TcpListener,
    /// MetaService over HTTP.
    pub http: TcpListener,
    /// AdminService over gRPC; none: shared with `rpc`.
    pub admin_rpc: Option<TcpListener>,
    /// AdminService over HTTP.
    pub admin_http: TcpListener,
    /// DebugService over HTTP; none: switched off.
    pub debug_http: Option<TcpListener>,
}

/// The ports in use. `Display` prints them as lines of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// MetaService over gRPC.
    pub rpc: u16,
    /// MetaService over HTTP.
    pub http: u16,
    /// AdminService over gRPC, possibly the same as `rpc`.
    pub admin_rpc: u16,
    /// AdminService over HTTP.
    pub admin_http: u16,
    /// DebugService over HTTP, when it is switched on.
    pub debug_http: Option<u16>,
}

impl Listeners {
    /// Binds all ports of a configuration, or none.
    ///
    /// # Errors
    /// Every port that cannot be bound.
    pub fn bind(loaded: &Loaded) -> Result<Self, Mistakes> {
        let service = &loaded.config.service;
        let mut mistakes = Vec::new();
        let mut bind = |key, port| match listen(loaded, port) {
            Ok(listener) => Some(listener),
            Err(error) => {
                mistakes.push(mistake(loaded, key, &error));
                None
            }
        };
        let shared = [0, service.rpc_port].contains(&service.admin_rpc_port);
        let rpc = bind(RPC, service.rpc_port);
        let http = bind(HTTP, service.http_port);
        let admin_http = bind(ADMIN_HTTP, service.admin_http_port);
        let admin_rpc = match shared {
            true => None,
            false => bind(ADMIN_RPC, service.admin_rpc_port),
        };
        let debug_port = match service.http_port {
            // Any free port.
            0 => Some(0),
            port => port.checked_add(DEBUG_OFFSET),
        };
        let debug_http = match (service.enable_debug_service, debug_port) {
            (false, _) => None,
            (true, Some(port)) => bind(DEBUG, port),
            (true, None) => {
                let problem = format!(
                    "DebugService needs the port {DEBUG_OFFSET} above kvcm.service.http_port, and \
                     {} leaves none",
                    service.http_port
                );
                mistakes.push(loaded.mistake(DEBUG, problem));
                None
            }
        };
        match (rpc, http, admin_http) {
            (Some(rpc), Some(http), Some(admin_http)) if mistakes.is_empty() => Ok(Self {
                rpc,
                http,
                admin_rpc,
                admin_http,
                debug_http,
            }),
            _ => Err(Mistakes(mistakes)),
        }
    }

    /// The ports in use.
    ///
    /// # Errors
    /// When the system does not tell them.
    pub fn ports(&self) -> io::Result<Ports> {
        let port = |listener: &TcpListener| Ok(listener.local_addr()?.port());
        let rpc = port(&self.rpc)?;
        let admin_rpc: io::Result<_> = self.admin_rpc.as_ref().map_or(Ok(rpc), port);
        Ok(Ports {
            rpc,
            http: port(&self.http)?,
            admin_rpc: admin_rpc?,
            admin_http: port(&self.admin_http)?,
            debug_http: self.debug_http.as_ref().map(port).transpose()?,
        })
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{RPC}={}", self.rpc)?;
        writeln!(f, "{HTTP}={}", self.http)?;
        writeln!(f, "{ADMIN_RPC}={}", self.admin_rpc)?;
        writeln!(f, "{ADMIN_HTTP}={}", self.admin_http)
    }
}

fn listen(loaded: &Loaded, port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((loaded.config.service.bind_address, port))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn mistake(loaded: &Loaded, key: &'static str, error: &io::Error) -> Mistake {
    let address = loaded.config.service.bind_address;
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => "; stop the other process or take another port",
        io::ErrorKind::AddrNotAvailable => "; kvcm.service.bind_address is no address of this host",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need a privilege",
        _ => "",
    };
    loaded.mistake(key, format!("cannot listen on {address}: {error}{hint}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::{Config, Sources};

    fn load(ports: [u16; 4]) -> Loaded {
        let keys = [RPC, HTTP, ADMIN_RPC, ADMIN_HTTP];
        let settings = keys
            .iter()
            .zip(ports)
            .map(|(key, port)| format!("{key}={port}"));
        let address = "kvcm.service.bind_address=127.0.0.1".to_owned();
        let sources = Sources {
            settings: settings.chain([address]).collect(),
            ..Sources::default()
        };
        Config::load(&sources, &BTreeMap::new()).unwrap()
    }

    #[test]
    fn zero_is_any_port_and_shared_for_admin_rpc() {
        let listeners = Listeners::bind(&load([0; 4])).unwrap();
        let ports = listeners.ports().unwrap();
        assert_eq!(ports.admin_rpc, ports.rpc);
        assert!(ports.http != 0 && ports.http != ports.admin_http);
        assert!(
            ports
                .to_string()
                .contains(&format!("{HTTP}={}\n", ports.http))
        );
    }

    #[test]
    fn the_same_port_for_both_grpc_services_is_one_listener() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let listeners = Listeners::bind(&load([port, 0, port, 0])).unwrap();
        assert!(listeners.admin_rpc.is_none());
        assert_eq!(listeners.ports().unwrap().admin_rpc, port);
    }

    #[test]
    fn every_port_in_use_is_named() {
        let taken = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [a, b, c] = taken.each_ref().map(|l| l.local_addr().unwrap().port());
        let mistakes = Listeners::bind(&load([a, b, c, 0])).unwrap_err();
        let text = mistakes.to_string();
        assert_eq!(mistakes.0.len(), 3, "{text}");
        for (key, port) in [(RPC, a), (HTTP, b), (ADMIN_RPC, c)] {
            assert!(
                text.contains(&format!("{key} = `{port}` (option -e): cannot listen")),
                "{text}"
            );
        }
        assert!(text.contains("stop the other process"), "{text}");
    }
}
