//! Where a server listens.

use std::fmt;

use kvcm_uri::Uri;

/// Host and port of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The host; an IPv6 address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Address {
    /// All hosts of a URI.
    pub(crate) fn all(uri: &Uri, default_port: u16) -> Vec<Self> {
        let hosts = uri.hosts().iter();
        hosts
            .map(|(host, port)| Self {
                host: unbracket(host),
                port: port.unwrap_or(default_port),
            })
            .collect()
    }

    /// Reads `host:port` as servers print it: without brackets, and without a host when it is that
    /// of `asked`, the server that printed it.
    pub(crate) fn printed(text: &str, asked: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port != 0)?;
        // `?` stands for an endpoint that is not known.
        let host = match host {
            "" | "?" => asked.host.clone(),
            host => unbracket(host),
        };
        Some(Self { host, port })
    }
}

// === impl Display ===

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        match host.contains(':') {
            true => write!(f, "[{host}]:{port}"),
            false => write!(f, "{host}:{port}"),
        }
    }
}

fn unbracket(host: &str) -> String {
    host.trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_servers_print_it() {
        let address = |host: &str, port| Address {
            host: host.to_owned(),
            port,
        };
        let asked = address("asked", 1);
        for (text, read) in [
            ("10.0.0.1:7", Some(address("10.0.0.1", 7))),
            ("::1:7", Some(address("::1", 7))),
            (":7", Some(address("asked", 7))),
            ("?:7", Some(address("asked", 7))),
            (":0", None),
            ("a", None),
            ("a:x", None),
        ] {
            assert_eq!(Address::printed(text, &asked), read, "{text}");
        }
        assert_eq!(address("::1", 7).to_string(), "[::1]:7");
    }
}
