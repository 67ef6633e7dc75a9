//! Passwords: only an argon2 hash is kept, and nothing prints it.

use std::{fmt, str::FromStr};

use argon2::{
    Argon2, PasswordHasher as _, PasswordVerifier as _,
    password_hash::{self, SaltString, rand_core::OsRng},
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The hash of a password, as a PHC string with salt and parameters. Neither `Debug` nor any error
/// shows it; only its JSON, which goes to the registry's journal, does.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(String);

/// A text is no hash of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a hash of a password in PHC form")]
pub struct InvalidHash;

impl PasswordHash {
    /// Hashes a password with argon2id and a new salt. Takes tens of milliseconds of a core and
    /// 19 MiB: not for the threads that serve requests.
    ///
    /// # Errors
    /// When the password is longer than the algorithm takes (4 GiB).
    pub fn of(password: &str) -> Result<Self, password_hash::Error> {
        let salt = SaltString::generate(&mut OsRng);
        let hash = Argon2::default().hash_password(password.as_bytes(), &salt)?;
        Ok(Self(hash.to_string()))
    }

    /// Whether `password` has this hash. As slow as [`of`](Self::of).
    pub fn matches(&self, password: &str) -> bool {
        password_hash::PasswordHash::new(&self.0).is_ok_and(|hash| {
            Argon2::default()
                .verify_password(password.as_bytes(), &hash)
                .is_ok()
        })
    }
}

impl FromStr for PasswordHash {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        // The error of the library may quote the text.
        password_hash::PasswordHash::new(text).map_err(|_| InvalidHash)?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_itself_matches_and_no_two_hashes_are_alike() {
        let hash = PasswordHash::of("correct horse").unwrap();
        assert!(hash.matches("correct horse"));
        assert!(!hash.matches("correct horse "));
        assert!(!hash.matches(""));
        assert_ne!(hash, PasswordHash::of("correct horse").unwrap());
    }

    #[test]
    fn it_is_not_shown() {
        let hash: PasswordHash = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ".parse().unwrap();
        assert_eq!(format!("{hash:?}"), "PasswordHash(***)");
        assert_eq!("clear text".parse::<PasswordHash>(), Err(InvalidHash));
    }
}
