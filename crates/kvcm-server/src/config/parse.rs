//! From the text of a key to its setting.

use kvcm_uri::Uri;

use super::{Config, Key, Kind};

/// The scheme that names the memory of this process.
const MEMORY: &str = "memory";

impl Key {
    /// Reads `text` and stores it into `config`.
    ///
    /// # Errors
    /// What is wrong with the text, in words.
    pub(super) fn set(&self, config: &mut Config, text: &str) -> Result<(), String> {
        match self.kind {
            Kind::Number { min, max, set } => match text.parse() {
                Ok(value) if (min..=max).contains(&value) => set(config, value),
                _ => return Err(format!("expected a number from {min} to {max}")),
            },
            Kind::Uri { schemes, set } => set(config, uri(text, schemes)?),
            Kind::Text { expected, set } | Kind::Secret { expected, set } => {
                return set(config, text).ok_or_else(|| format!("expected {expected}"));
            }
            Kind::Unused => {}
        }
        Ok(())
    }
}

/// Reads a URI. Memory is none, however it is written.
fn uri(text: &str, schemes: &[&str]) -> Result<Option<Uri>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let uri = Uri::parse(text).map_err(|error| {
        let mistakes: Vec<_> = error.mistakes.iter().map(ToString::to_string).collect();
        mistakes.join("; ")
    })?;
    if !schemes.contains(&uri.scheme()) {
        let known: Vec<_> = schemes.iter().map(|s| format!("{s}://…")).collect();
        let known = known.join(", ");
        return Err(match schemes.contains(&MEMORY) {
            true => format!("expected an empty text (memory) or one of {known}"),
            false => format!("expected an empty text or {known}"),
        });
    }
    match uri.scheme() {
        MEMORY => Ok(None),
        scheme @ ("file" | "local") if uri.host().is_some() => Err(format!(
            "expected three slashes: {scheme}:///absolute/directory (a host cannot be given)"
        )),
        scheme @ ("file" | "local") if uri.path().len() < 2 => {
            Err(format!("expected {scheme}:///absolute/directory"))
        }
        scheme if scheme.starts_with("redis") && uri.host().is_none() => {
            Err("expected a host: redis://host:port/?cluster_name=…".to_owned())
        }
        "http" if !is_origin(&uri) => {
            Err("expected http://host:port, without user, path or query".to_owned())
        }
        _ => Ok(Some(uri)),
    }
}

/// Whether a URI says nothing but scheme, one host and its port.
fn is_origin(uri: &Uri) -> bool {
    let is_anonymous = uri.username().is_empty() && uri.password().is_none();
    let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_empty();
    is_anonymous && is_bare && matches!(uri.hosts(), [(_, Some(_))])
}
