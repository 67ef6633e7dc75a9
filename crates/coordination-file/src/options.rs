//! What can be chosen.

use std::path::PathBuf;

use coordination_core::Error;
use kvcm_uri::{Params, Uri};

/// How a [`FileBackend`](crate::FileBackend) uses its directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Also work on network and FUSE file systems, where `flock` may mean nothing. Only for
    /// people who know that theirs is sound.
    pub allow_network_fs: bool,
}

/// Reads `file:///dir[?allow_network_fs=true]`.
pub(crate) fn from_uri(uri: &Uri) -> Result<(PathBuf, Options), Error> {
    let mut params = Params::new(uri);
    let options = Options {
        allow_network_fs: params.parsed("allow_network_fs", false, "true or false"),
    };
    if uri.scheme() != "file" {
        params.mistake("the scheme must be file");
    }
    if let Some(host) = uri.host().filter(|host| *host != "localhost") {
        params.mistake(format!(
            "`{host}` stands where a host stands; a directory has three slashes before it, file:///dir"
        ));
    }
    if !uri.path().starts_with('/') {
        params.mistake("the directory is missing, expected file:///dir");
    }
    let warnings = params
        .finish()
        .map_err(|error| Error::fatal("correct the coordination URI", error))?;
    for warning in warnings {
        tracing::warn!(%uri, "{warning}");
    }
    Ok((PathBuf::from(uri.path()), options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(uri: &str) -> Result<(PathBuf, Options), Error> {
        from_uri(&Uri::parse(uri).unwrap())
    }

    #[test]
    fn a_directory_and_its_option_are_read() {
        let (path, options) = read("file:///a%20b/c?allow_network_fs=true").unwrap();
        assert_eq!(path, PathBuf::from("/a b/c"));
        assert!(options.allow_network_fs);
        assert!(!read("file:///d").unwrap().1.allow_network_fs);
    }

    #[test]
    fn mistakes_are_fatal_and_named() {
        for (uri, name) in [
            ("file://dir/x", "dir"),
            ("file:///d?allow_network_fs=maybe", "allow_network_fs"),
            ("redis://h", "scheme"),
        ] {
            let error = read(uri).unwrap_err();
            assert!(!error.is_retryable());
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
