//! Who a client says it is.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use tonic::metadata::AsciiMetadataValue;

/// What a client shows with each call, as metadata `authorization`.
///
/// Without TLS it travels in plain text.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials(AsciiMetadataValue);

impl Credentials {
    /// A token: `Bearer <token>`.
    ///
    /// # Errors
    /// When the token has characters that a header cannot carry.
    pub fn bearer(token: &str) -> Result<Self, InvalidCredentials> {
        if token.is_empty() || token.contains(char::is_whitespace) {
            return Err(InvalidCredentials("a token is one word"));
        }
        Self::header(&format!("Bearer {token}"))
    }

    /// An account: `Basic <base64 of user:password>`.
    ///
    /// # Errors
    /// When the name is empty or has a colon in it.
    pub fn basic(user: &str, password: &str) -> Result<Self, InvalidCredentials> {
        if user.is_empty() || user.contains(':') {
            return Err(InvalidCredentials(
                "a user name has one or more characters and no colon",
            ));
        }
        let pair = STANDARD.encode(format!("{user}:{password}"));
        Self::header(&format!("Basic {pair}"))
    }

    fn header(text: &str) -> Result<Self, InvalidCredentials> {
        let mut value = AsciiMetadataValue::try_from(text)
            .map_err(|_| InvalidCredentials("characters that a header cannot carry"))?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    pub(crate) fn value(&self) -> AsciiMetadataValue {
        self.0.clone()
    }
}

/// Never shows what it is.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

/// Why credentials cannot be sent; does not show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidCredentials(&'static str);

impl std::error::Error for InvalidCredentials {}

impl fmt::Display for InvalidCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid credentials: {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_sent_as_the_server_reads_them_and_never_shown() {
        let bearer = Credentials::bearer("s3cret").unwrap();
        assert_eq!(bearer.value().to_str().unwrap(), "Bearer s3cret");
        let basic = Credentials::basic("ann", "pä:ss").unwrap();
        let text = basic.value();
        let pair = text.to_str().unwrap().strip_prefix("Basic ").unwrap();
        assert_eq!(STANDARD.decode(pair).unwrap(), "ann:pä:ss".as_bytes());
        for shown in [format!("{bearer:?}"), format!("{:?}", bearer.value())] {
            assert!(!shown.contains("s3cret"), "{shown}");
        }
    }

    #[test]
    fn what_no_header_can_carry_is_refused_without_showing_it() {
        for bad in ["", "two words", "line\nbreak", "ünicode\u{7f}"] {
            let error = Credentials::bearer(bad).unwrap_err().to_string();
            assert!(error.starts_with("invalid credentials: "), "{error}");
            assert!(bad.is_empty() || !error.contains(bad), "{error}");
        }
        assert!(Credentials::basic("a:b", "c").is_err());
        assert!(Credentials::basic("", "c").is_err());
    }
}
