//! A key that only this process has.

use std::fmt;

use ring::{hmac, rand::SystemRandom};

/// A random key that lives as long as the process. What others keep secret is compared and
/// remembered under it.
pub(crate) struct Secret(hmac::Key);

/// The keyed hash of something secret. Since nobody else can compute one, how long a comparison of
/// two of them takes tells nothing about what was hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint([u8; 32]);

impl Secret {
    /// A new key.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub(crate) fn new() -> anyhow::Result<Self> {
        hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map(Self)
            .map_err(|_| anyhow::anyhow!("the system gives no random numbers"))
    }

    /// The keyed hash of some parts; where one ends and the next begins counts.
    pub(crate) fn fingerprint(&self, parts: &[&str]) -> Fingerprint {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(&part.len().to_le_bytes());
            context.update(part.as_bytes());
        }
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(context.sign().as_ref());
        Fingerprint(fingerprint)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_together_and_keys_differ() {
        let secret = Secret::new().unwrap();
        let of = |parts: &[&str]| secret.fingerprint(parts);
        assert_eq!(of(&["a", "bc"]), of(&["a", "bc"]));
        assert_ne!(of(&["a", "bc"]), of(&["ab", "c"]));
        assert_ne!(of(&["a"]), of(&["a", ""]));
        assert_ne!(of(&["a"]), Secret::new().unwrap().fingerprint(&["a"]));
        assert_eq!(format!("{secret:?}"), "Secret(***)");
    }
}
