//! Where a node listens.

use std::{fmt, sync::Arc};

/// `host:port` of a gRPC listener; cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address(Arc<str>);

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
            return wrong("only plain gRPC (http) is supported");
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
        Ok(Self(bare.into()))
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
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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
    fn advertised_ipv6_hosts_get_brackets() {
        assert_eq!(Address::advertised("::1", 9).unwrap().as_str(), "[::1]:9");
        assert_eq!(Address::advertised("h", 9).unwrap().as_str(), "h:9");
        assert_eq!(Address::advertised("", 9), None);
        assert_eq!(Address::advertised("h", 0), None);
        assert_eq!(Address::advertised("h", -1), None);
    }
}
