//! The `authorization` header.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, header};

/// What a caller shows.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// `Bearer <token>`.
    Token(String),
    /// `Basic <base64 of name:password>`.
    Account {
        /// The account's name.
        user: String,
        /// Its password.
        password: String,
    },
}

/// The header is there and cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Credentials {
    /// Reads the header; none when it is not there.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Option<Self>, Malformed> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        // Which of two should count?
        if values.next().is_some() {
            return Err(Malformed);
        }
        let text = value.to_str().map_err(|_| Malformed)?;
        let (scheme, rest) = text.trim().split_once(' ').ok_or(Malformed)?;
        let rest = rest.trim();
        if rest.is_empty() {
            return Err(Malformed);
        }
        if scheme.eq_ignore_ascii_case("bearer") {
            return Ok(Some(Self::Token(rest.to_owned())));
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return Err(Malformed);
        }
        let pair = STANDARD.decode(rest).map_err(|_| Malformed)?;
        let pair = String::from_utf8(pair).map_err(|_| Malformed)?;
        let (user, password) = pair.split_once(':').ok_or(Malformed)?;
        Ok(Some(Self::Account {
            user: user.to_owned(),
            password: password.to_owned(),
        }))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(_) => f.write_str("Token(***)"),
            Self::Account { user, .. } => f
                .debug_struct("Account")
                .field("user", user)
                .finish_non_exhaustive(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(values: &[&str]) -> Result<Option<Credentials>, Malformed> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        Credentials::read(&headers)
    }

    #[test]
    fn both_schemes_are_read_in_any_case() {
        assert_eq!(read(&[]), Ok(None));
        for text in ["Bearer t0k", "bearer  t0k ", "BEARER t0k"] {
            assert_eq!(
                read(&[text]),
                Ok(Some(Credentials::Token("t0k".to_owned())))
            );
        }
        // A password may hold colons.
        let basic = format!("basic {}", STANDARD.encode("ann:a:b"));
        let account = Credentials::Account {
            user: "ann".to_owned(),
            password: "a:b".to_owned(),
        };
        assert_eq!(read(&[&basic]), Ok(Some(account)));
    }

    #[test]
    fn anything_else_is_malformed() {
        let no_colon = format!("Basic {}", STANDARD.encode("ann"));
        for text in ["", "Bearer", "Bearer ", "Digest x", "Basic !", &no_colon] {
            assert_eq!(read(&[text]), Err(Malformed), "{text}");
        }
        assert_eq!(read(&["Bearer a", "Bearer b"]), Err(Malformed));
    }

    #[test]
    fn nothing_secret_is_printed() {
        let basic = format!("Basic {}", STANDARD.encode("ann:secret"));
        let texts = [read(&["Bearer secret"]), read(&[&basic])].map(|c| format!("{c:?}"));
        assert!(
            texts.iter().all(|text| !text.contains("secret")),
            "{texts:?}"
        );
    }
}
