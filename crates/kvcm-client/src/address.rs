//! Where a node listens.

use std::{
    fmt,
    hash::{Hash, Hasher},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// `host:port` of a gRPC listener; cheap to clone.
///
/// An address that a name was resolved to remembers the name, for the certificate to match.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    text: Arc<str>,
    name: Option<Arc<str>>,
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Address {}

impl Hash for Address {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Address {
    /// Reads `host:port`; `http://host:port` and a trailing slash are taken too.
    ///
    /// # Errors
    /// A sentence that names what is wrong with `text` and what is expected.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("address {text:?}: {why}; write host:port"));
        let bare = text.trim();
        let bare = bare.strip_prefix("http://").unwrap_or(bare);
        let bare = bare.strip_suffix('/').unwrap_or(bare);
        if bare.contains("://") {
            return wrong("a scheme that is not known (TLS is switched on with `tls`)");
        }
        let Some((host, port)) = bare.rsplit_once(':') else {
            return wrong("no port");
        };
        if host.is_empty() {
            return wrong("no host");
        }
        if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
            return wrong("an IPv6 address needs brackets");
        }
        if !matches!(port.parse::<u16>(), Ok(1..)) {
            return wrong("the port is not a number from 1 to 65535");
        }
        if tonic::transport::Endpoint::from_shared(format!("http://{bare}")).is_err() {
            return wrong("not a valid host");
        }
        Ok(Self {
            text: bare.into(),
            name: None,
        })
    }

    /// The address that a node advertises; none when host or port are missing.
    pub(crate) fn advertised(host: &str, port: i32) -> Option<Self> {
        let port = u16::try_from(port).ok()?;
        let bare_v6 = host.contains(':') && !host.starts_with('[');
        let text = if bare_v6 {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        Self::parse(&text).ok()
    }

    /// `host:port`.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The host without brackets.
    fn host(&self) -> &str {
        let host = self
            .text
            .rsplit_once(':')
            .map_or(&*self.text, |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The host that the node's certificate must name.
    pub(crate) fn tls_host(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.host())
    }

    /// Whether the host is a name, which may mean several addresses.
    pub(crate) fn is_name(&self) -> bool {
        self.host().parse::<IpAddr>().is_err()
    }

    /// One of the addresses that this one, which has a name, was resolved to.
    pub(crate) fn resolved(&self, address: SocketAddr) -> Self {
        Self {
            text: address.to_string().into(),
            name: Some(self.host().into()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_required_and_a_scheme_is_tolerated() {
        for good in ["127.0.0.1:6381", "node-a:1", "[::1]:65535"] {
            assert_eq!(Address::parse(good).unwrap().as_str(), good);
        }
        assert_eq!(Address::parse(" http://a:7/ ").unwrap().as_str(), "a:7");
        for bad in [
            "",
            "a",
            "a:",
            ":1",
            "a:0",
            "a:65536",
            "::1:7",
            "https://a:1",
            "a b:1",
        ] {
            let error = Address::parse(bad).unwrap_err();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
    }

    #[test]
    fn a_resolved_address_remembers_its_name() {
        let name = Address::parse("kvcm.example:6381").unwrap();
        assert!(name.is_name());
        let one = name.resolved("10.0.0.1:6381".parse().unwrap());
        assert!(!one.is_name());
        assert_eq!(
            (one.as_str(), one.tls_host()),
            ("10.0.0.1:6381", "kvcm.example")
        );
        assert_eq!(one, Address::parse("10.0.0.1:6381").unwrap());
        let v6 = Address::parse("[::1]:7").unwrap();
        assert!(!v6.is_name() && v6.tls_host() == "::1");
    }

    #[test]
    fn advertised_ipv6_hosts_get_brackets() {
        assert_eq!(Address::advertised("::1", 9).unwrap().as_str(), "[::1]:9");
        assert_eq!(Address::advertised("h", 9).unwrap().as_str(), "h:9");
        assert_eq!(Address::advertised("", 9), None);
        assert_eq!(Address::advertised("h", 0), None);
        assert_eq!(Address::advertised("h", -1), None);
    }
}
