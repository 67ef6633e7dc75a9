//! Reading the parameters of a URI.

use std::{fmt::Display, str::FromStr};

use crate::{Mistake, Uri, UriError};

/// Reads the parameters of a URI one by one, and reports all mistakes together at the end.
#[derive(Debug)]
pub struct Params<'a> {
    uri: &'a Uri,
    known: Vec<&'static str>,
    mistakes: Vec<Mistake>,
}

impl<'a> Params<'a> {
    /// Starts reading `uri`.
    pub fn new(uri: &'a Uri) -> Self {
        Self {
            uri,
            known: Vec::new(),
            mistakes: Vec::new(),
        }
    }

    /// The text of a parameter, if it is written.
    pub fn text(&mut self, name: &'static str) -> Option<&'a str> {
        self.known.push(name);
        let (_, value) = self
            .uri
            .query()
            .iter()
            .find(|(written, _)| written == name)?;
        Some(value)
    }

    /// A parsed parameter, or `default` when it is not written or wrong (which is noted).
    /// `expected` says in words what can be written.
    pub fn parsed<T: FromStr>(&mut self, name: &'static str, default: T, expected: &str) -> T {
        self.checked(name, default, expected, |_| true)
    }

    /// A parsed parameter that also has to pass a check.
    pub fn checked<T: FromStr>(
        &mut self,
        name: &'static str,
        default: T,
        expected: &str,
        check: impl Fn(&T) -> bool,
    ) -> T {
        let Some(text) = self.text(name) else {
            return default;
        };
        match text.parse() {
            Ok(value) if check(&value) => value,
            _ => {
                self.mistakes.push(Mistake::Parameter {
                    name: name.to_owned(),
                    value: text.to_owned(),
                    expected: expected.to_owned(),
                });
                default
            }
        }
    }

    /// Notes a mistake that concerns more than one parameter.
    pub fn mistake(&mut self, text: impl Display) {
        self.mistakes.push(Mistake::Other(text.to_string()));
    }

    /// Ends the reading. Returns a warning for each parameter that nobody asked for, with the
    /// nearest known name.
    ///
    /// # Errors
    /// Every mistake that was noted.
    pub fn finish(self) -> Result<Vec<String>, UriError> {
        if !self.mistakes.is_empty() {
            return Err(UriError {
                uri: self.uri.to_string(),
                mistakes: self.mistakes,
            });
        }
        let unknown = self
            .uri
            .query()
            .iter()
            .filter(|(name, _)| !self.known.contains(&name.as_str()));
        let warnings = unknown.map(|(name, _)| {
            let nearest = self
                .known
                .iter()
                .map(|known| (strsim::damerau_levenshtein(known, name), *known))
                .min()
                .filter(|(distance, _)| *distance <= 3);
            match nearest {
                Some((_, known)) => {
                    format!("unknown parameter `{name}` is ignored; did you mean `{known}`?")
                }
                None => format!("unknown parameter `{name}` is ignored"),
            }
        });
        Ok(warnings.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_mistakes_come_together() {
        let uri = Uri::parse("redis://h/?db=x&timeout_ms=0&ok=1").unwrap();
        let mut params = Params::new(&uri);
        assert_eq!(params.parsed("db", 0u32, "a number"), 0);
        assert_eq!(
            params.checked("timeout_ms", 5u64, "1 or more", |v| *v > 0),
            5
        );
        assert_eq!(params.parsed("ok", 0u8, "a number"), 1);
        let error = params.finish().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`redis://h/?db=x&timeout_ms=0&ok=1`: parameter `db` is `x`, expected a number; \
             parameter `timeout_ms` is `0`, expected 1 or more"
        );
    }

    #[test]
    fn unknown_parameters_are_warned_about_with_the_nearest_name() {
        let uri = Uri::parse("redis://h/?timeout=5&zzzzzzzzzz=1").unwrap();
        let mut params = Params::new(&uri);
        params.parsed("timeout_ms", 5u64, "a number");
        let warnings = params.finish().unwrap();
        assert_eq!(
            warnings[0],
            "unknown parameter `timeout` is ignored; did you mean `timeout_ms`?"
        );
        assert_eq!(warnings[1], "unknown parameter `zzzzzzzzzz` is ignored");
    }
}
