//! A parsed URI.

use std::fmt;

use crate::{Mistake, UriError};

/// A parsed URI. `Display` and `Debug` replace the userinfo by `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Uri {
    scheme: String,
    username: String,
    password: Option<String>,
    hosts: Vec<(String, Option<u16>)>,
    path: String,
    query: Vec<(String, String)>,
}

impl Uri {
    /// Parses `text`.
    ///
    /// # Errors
    /// When `text` is no URI, or a parameter is written twice.
    pub fn parse(text: &str) -> Result<Self, UriError> {
        let fail = |mistakes| UriError {
            uri: redact(text),
            mistakes,
        };
        let syntax = |reason: &str| fail(vec![Mistake::Syntax(reason.to_owned())]);
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(syntax("expected scheme://…"));
        };
        // Existing deployments write `redis_cluster://`; the standard allows no underscore.
        let standard = scheme.replace('_', "-");
        let parse = |rest: &str| {
            let text = format!("{standard}://{rest}");
            url::Url::parse(&text).map_err(|error| syntax(&error.to_string()))
        };
        let decode = |part: &str| percent_decode(part).ok_or_else(|| syntax("it is not UTF-8"));
        let host = |url: &url::Url| match url.host_str() {
            Some("") | None => Ok(None),
            Some(host) => Ok(Some((decode(host)?, url.port()))),
        };
        let (first, more) = split_hosts(rest);
        let url = parse(&first)?;
        let mut hosts: Vec<_> = host(&url)?.into_iter().collect();
        for more in more {
            let missing = || syntax("a host between two commas is missing");
            hosts.push(host(&parse(more)?)?.ok_or_else(missing)?);
        }
        let query: Vec<_> = url.query_pairs().into_owned().collect();
        let mut repeated = Vec::new();
        for (index, (name, _)) in query.iter().enumerate() {
            if query[..index].iter().any(|(earlier, _)| earlier == name) {
                repeated.push(Mistake::Repeated(name.clone()));
            }
        }
        if !repeated.is_empty() {
            return Err(fail(repeated));
        }
        Ok(Self {
            scheme: scheme.trim().to_ascii_lowercase(),
            username: decode(url.username())?,
            password: url.password().map(decode).transpose()?,
            hosts,
            path: decode(url.path())?,
            query,
        })
    }

    /// The scheme in lower case: `redis`, `file`, …
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The part of the userinfo before the first colon, decoded; empty when there is none.
    pub fn username(&self) -> &str {
        &self.username
    }

    /// The part of the userinfo after the first colon, decoded.
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// The host, decoded; IPv6 addresses stand in brackets. The first of several.
    pub fn host(&self) -> Option<&str> {
        self.hosts.first().map(|(host, _)| host.as_str())
    }

    /// The port, when one is written. That of the first of several hosts.
    pub fn port(&self) -> Option<u16> {
        self.hosts.first().and_then(|(_, port)| *port)
    }

    /// All hosts with their ports, as `a:1,b:2` names them.
    pub fn hosts(&self) -> &[(String, Option<u16>)] {
        &self.hosts
    }

    /// The path with its leading slash, decoded; may be empty.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The parameters in the order of the text, decoded. A parameter without `=` is empty.
    pub fn query(&self) -> &[(String, String)] {
        &self.query
    }
}

// === impl printing ===

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme)?;
        if !self.username.is_empty() || self.password.is_some() {
            f.write_str("***@")?;
        }
        for (index, (host, port)) in self.hosts.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{host}")?;
            if let Some(port) = port {
                write!(f, ":{port}")?;
            }
        }
        f.write_str(&self.path)?;
        for (index, (name, value)) in self.query.iter().enumerate() {
            let separator = if index == 0 { '?' } else { '&' };
            let value = if is_secret(name) { "***" } else { value };
            write!(f, "{separator}{name}={value}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uri({self})")
    }
}

/// What follows `://`, with the first of its hosts only, and the other hosts.
fn split_hosts(rest: &str) -> (String, Vec<&str>) {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let start = rest[..end].rfind('@').map_or(0, |at| at + 1);
    let mut hosts = rest[start..end].split(',');
    let first = hosts.next().unwrap_or_default();
    let text = format!("{}{first}{}", &rest[..start], &rest[end..]);
    (text, hosts.collect())
}

/// People write `?auth=…` although the password belongs into the userinfo.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "pass", "secret", "token"]
        .iter()
        .any(|word| name.contains(word))
}

/// Cuts everything between `//` and the last `@`, and the query: a text that does not parse may
/// hide its password anywhere there.
fn redact(text: &str) -> String {
    let text = match (text.rfind('@'), text.rfind('?')) {
        (at, Some(query)) if at.is_none_or(|at| at < query) => &text[..query],
        _ => text,
    };
    match (text.find("//"), text.rfind('@')) {
        (Some(start), Some(at)) if start + 2 <= at => {
            format!("{}***{}", &text[..start + 2], &text[at..])
        }
        (None, Some(at)) => format!("***{}", &text[at..]),
        _ => text.to_owned(),
    }
}

fn percent_decode(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let hex = bytes.get(index + 1..index + 3).and_then(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        });
        match (bytes[index], hex) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                index += 3;
            }
            (byte, _) => {
                decoded.push(byte);
                index += 1;
            }
        }
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn splits_and_decodes() {
        let uri = Uri::parse("redis://us%2Fer:p%40ss@10.0.0.1:6379/1?db=2&flag&cluster_name=a%20b")
            .unwrap();
        assert_eq!(uri.scheme(), "redis");
        assert_eq!((uri.username(), uri.password()), ("us/er", Some("p@ss")));
        assert_eq!(
            (uri.host(), uri.port(), uri.path()),
            (Some("10.0.0.1"), Some(6379), "/1")
        );
        let query: Vec<_> = uri
            .query()
            .iter()
            .map(|(n, v)| (n.as_str(), v.as_str()))
            .collect();
        assert_eq!(query, [("db", "2"), ("flag", ""), ("cluster_name", "a b")]);
    }

    #[test]
    fn file_memory_and_ipv6_parse() {
        assert_eq!(Uri::parse("file:///a%20b/c").unwrap().path(), "/a b/c");
        assert_eq!(Uri::parse("memory://").unwrap().scheme(), "memory");
        assert_eq!(Uri::parse("redis://[::1]:7").unwrap().host(), Some("[::1]"));
        assert_eq!(Uri::parse("redis://token@h").unwrap().username(), "token");
        assert_eq!(
            Uri::parse("Redis_Cluster://h").unwrap().scheme(),
            "redis_cluster"
        );
    }

    #[test]
    fn several_hosts_are_separated_by_commas() {
        let text = "redis-sentinel://us,er:p%2Cw@a:1,[::1]:2,c/?master=m";
        let uri = Uri::parse(text).unwrap();
        let hosts = [("a", Some(1)), ("[::1]", Some(2)), ("c", None)];
        let hosts = hosts.map(|(host, port)| (host.to_owned(), port));
        assert_eq!(uri.hosts(), hosts);
        assert_eq!((uri.host(), uri.port()), (Some("a"), Some(1)));
        assert_eq!((uri.username(), uri.password()), ("us,er", Some("p,w")));
        let printed = "redis-sentinel://***@a:1,[::1]:2,c/?master=m";
        assert_eq!(uri.to_string(), printed);
        for bad in [
            "redis://a,,b",
            "redis://a,",
            "redis://a:x,b",
            "redis://a,b:x",
        ] {
            assert!(Uri::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_secret_is_never_printed() {
        let uri = Uri::parse("redis://:secret@h:1/?db=1").unwrap();
        assert_eq!(uri.to_string(), "redis://***@h:1/?db=1");
        assert!(!format!("{uri:?}").contains("secret"));
        assert_eq!(
            Uri::parse("redis://h/?auth=1234").unwrap().to_string(),
            "redis://h/?auth=***"
        );
        for bad in [
            "redis://:secret@h:99999",
            "redis://:sec/ret?x=1@h:port",
            "secret@nowhere",
        ] {
            let error = Uri::parse(bad).unwrap_err();
            assert!(!error.to_string().contains("sec"), "{error}");
        }
    }

    #[test]
    fn repeated_parameters_are_all_named() {
        let error = Uri::parse("redis://h/?db=1&db=2&x=1&x=2").unwrap_err();
        assert_eq!(error.mistakes.len(), 2);
        assert!(
            error.to_string().contains("`db` is given more than once"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn never_panics(text in ".*") {
            let _ = Uri::parse(&text);
        }
    }
}
