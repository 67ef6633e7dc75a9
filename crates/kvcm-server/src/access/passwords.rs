//! Verifying passwords.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, OnceLock},
};

use kvcm_registry::PasswordHash;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{Fingerprint, Secret};

/// Verifications at a time: each takes a core for tens of milliseconds and 19 MiB.
const AT_ONCE: usize = 2;

/// Callers that wait for one. Those beyond are told to come again, so that a flood of guesses
/// costs neither memory nor time of others without bound.
const WAITING: usize = 64;

/// Verified credentials that are remembered.
const REMEMBERED: usize = 4096;

/// Verifies passwords against their hashes, and remembers those that were right.
#[derive(Debug)]
pub(crate) struct Passwords {
    verified: Mutex<Verified>,
    queue: Arc<Semaphore>,
    slots: Arc<Semaphore>,
    /// What an unknown name is verified against, so that it takes as long as a known one.
    decoy: Arc<OnceLock<Option<PasswordHash>>>,
}

/// Too many verifications are going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// Which credentials had which hash, the oldest first.
#[derive(Debug, Default)]
struct Verified {
    hashes: HashMap<Fingerprint, PasswordHash>,
    order: VecDeque<Fingerprint>,
}

// === impl Passwords ===

impl Passwords {
    /// Nothing is remembered yet.
    pub(crate) fn new() -> Self {
        Self {
            verified: Mutex::default(),
            queue: Arc::new(Semaphore::new(AT_ONCE + WAITING)),
            slots: Arc::new(Semaphore::new(AT_ONCE)),
            decoy: Arc::default(),
        }
    }

    /// Whether `password` is that of the account `user`, whose hash is `hash`; none: there is no
    /// such account, or nobody can log in to it. A hash that has changed is verified anew.
    ///
    /// # Errors
    /// [`Busy`].
    pub(crate) async fn matches(
        &self,
        secret: &Secret,
        user: &str,
        password: &str,
        hash: Option<&PasswordHash>,
    ) -> Result<bool, Busy> {
        let shown = secret.fingerprint(&[user, password]);
        if self.is_verified(&shown, hash) {
            return Ok(true);
        }
        let _queued = self.queue.try_acquire().map_err(|_| Busy)?;
        let slot = self.slots.clone().acquire_owned().await.map_err(|_| Busy)?;
        // Somebody else with the same credentials may have been here first.
        if self.is_verified(&shown, hash) {
            return Ok(true);
        }
        let (decoy, known) = (self.decoy.clone(), hash.cloned());
        let password = password.to_owned();
        let verify = move || {
            // Held here: a caller that gives up does not make room for another verification.
            let _slot = slot;
            match known {
                Some(hash) => hash.matches(&password),
                None => {
                    let decoy = decoy.get_or_init(|| PasswordHash::of("").ok());
                    let _ = decoy.as_ref().map(|hash| hash.matches(&password));
                    false
                }
            }
        };
        let is_right = tokio::task::spawn_blocking(verify)
            .await
            .map_err(|_| Busy)?;
        if let Some(hash) = hash.filter(|_| is_right) {
            self.verified.lock().put(shown, hash.clone());
        }
        Ok(is_right)
    }

    fn is_verified(&self, shown: &Fingerprint, hash: Option<&PasswordHash>) -> bool {
        let verified = self.verified.lock();
        hash.is_some_and(|hash| verified.hashes.get(shown) == Some(hash))
    }
}

// === impl Verified ===

impl Verified {
    fn put(&mut self, shown: Fingerprint, hash: PasswordHash) {
        if self.hashes.insert(shown, hash).is_some() {
            return;
        }
        self.order.push_back(shown);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.hashes.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash that any machine verifies at once.
    fn quick(password: &str) -> PasswordHash {
        super::super::tests::quick_hash(password)
    }

    #[tokio::test]
    async fn a_right_password_is_remembered_until_the_hash_changes() {
        let (passwords, secret) = (Passwords::new(), Secret::new().unwrap());
        let hash = quick("right");
        let ask = async |password, hash| passwords.matches(&secret, "ann", password, hash).await;
        assert_eq!(ask("wrong", Some(&hash)).await, Ok(false));
        assert_eq!(ask("right", Some(&hash)).await, Ok(true));
        assert_eq!(passwords.verified.lock().hashes.len(), 1);
        // Nothing can be verified any more, only remembered.
        passwords.slots.close();
        assert_eq!(ask("right", Some(&hash)).await, Ok(true));
        assert_eq!(ask("wrong", Some(&hash)).await, Err(Busy));
        let other = quick("other");
        assert_eq!(ask("right", Some(&other)).await, Err(Busy));
        assert_eq!(ask("right", None).await, Err(Busy));
        let other = passwords
            .matches(&secret, "bob", "right", Some(&hash))
            .await;
        assert_eq!(other, Err(Busy), "another name is another credential");
    }

    #[tokio::test]
    async fn a_name_that_nobody_has_never_matches() {
        let (passwords, secret) = (Passwords::new(), Secret::new().unwrap());
        assert_eq!(
            passwords.matches(&secret, "nobody", "", None).await,
            Ok(false)
        );
        assert!(
            passwords.decoy.get().is_some(),
            "it took as long as a verification"
        );
        assert!(passwords.verified.lock().hashes.is_empty());
    }

    #[tokio::test]
    async fn more_than_can_wait_are_sent_away() {
        let (passwords, secret) = (Passwords::new(), Secret::new().unwrap());
        let _all = passwords
            .queue
            .try_acquire_many((AT_ONCE + WAITING) as u32)
            .unwrap();
        let hash = quick("right");
        let asked = passwords
            .matches(&secret, "ann", "right", Some(&hash))
            .await;
        assert_eq!(asked, Err(Busy));
    }

    #[test]
    fn only_so_many_are_remembered() {
        let secret = Secret::new().unwrap();
        let mut verified = Verified::default();
        let hash = quick("x");
        for number in 0..REMEMBERED + 10 {
            let shown = secret.fingerprint(&[&number.to_string()]);
            verified.put(shown, hash.clone());
            verified.put(shown, hash.clone());
        }
        assert_eq!(verified.hashes.len(), REMEMBERED);
        assert_eq!(verified.order.len(), REMEMBERED);
    }
}
