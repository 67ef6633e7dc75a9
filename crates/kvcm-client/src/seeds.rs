//! The addresses that the application gave.

use std::{io, net::SocketAddr, time::Duration};

use futures_util::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::address::Address;

/// How long a name server may take; what it said before is used meanwhile.
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(500);
/// Names are not looked up again sooner, however much fails.
const LOOKUP_PAUSE: Duration = Duration::from_secs(1);
/// Addresses of one name that are used.
const PER_NAME_MAX: usize = 32;

type Lookup = dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync;

/// Seeds, with names resolved. A name may mean many nodes: each of its addresses is asked by
/// itself, and after failures the name is resolved anew.
pub(crate) struct Seeds {
    given: Vec<Address>,
    has_names: bool,
    lookup: Box<Lookup>,
    resolved: Mutex<Resolved>,
}

#[derive(Clone, Default)]
struct Resolved {
    /// One list per seed; empty until it was resolved.
    lists: Vec<Vec<Address>>,
    at: Option<Instant>,
}

impl Seeds {
    pub(crate) fn new(given: Vec<Address>) -> Self {
        let lookup = |host: String| -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
            Box::pin(async move { Ok(tokio::net::lookup_host(host).await?.collect()) })
        };
        Self::with_lookup(given, Box::new(lookup))
    }

    fn with_lookup(given: Vec<Address>, lookup: Box<Lookup>) -> Self {
        let resolved = Resolved {
            lists: vec![Vec::new(); given.len()],
            at: None,
        };
        Self {
            has_names: given.iter().any(Address::is_name),
            given,
            lookup,
            resolved: Mutex::new(resolved),
        }
    }

    /// All addresses; `fresh`: what is known did not help, so names are resolved again.
    pub(crate) async fn addresses(&self, fresh: bool) -> Vec<Address> {
        if !self.has_names {
            return self.given.clone();
        }
        let is_due = match self.resolved.lock().at {
            None => true,
            Some(at) => fresh && at.elapsed() >= LOOKUP_PAUSE,
        };
        if is_due {
            self.resolve().await;
        }
        self.known()
    }

    /// All addresses, as they were last resolved.
    pub(crate) fn known(&self) -> Vec<Address> {
        let resolved = self.resolved.lock();
        let mut all: Vec<Address> = Vec::new();
        for (given, list) in self.given.iter().zip(&resolved.lists) {
            // What cannot be resolved here may be by whoever makes the connection; and its
            // failure tells people why.
            let list = if list.is_empty() {
                std::slice::from_ref(given)
            } else {
                list
            };
            for address in list {
                if !all.contains(address) {
                    all.push(address.clone());
                }
            }
        }
        all
    }

    async fn resolve(&self) {
        let lookups = self.given.iter().map(|given| async move {
            if !given.is_name() {
                return None;
            }
            let lookup = (self.lookup)(given.as_str().to_owned());
            let found = tokio::time::timeout(LOOKUP_TIMEOUT, lookup).await;
            match found {
                Ok(Ok(found)) if !found.is_empty() => Some(found),
                Ok(Ok(_)) => None,
                Ok(Err(error)) => {
                    tracing::debug!(%given, %error, "a name cannot be resolved");
                    None
                }
                Err(_) => {
                    tracing::debug!(%given, "a name was not resolved in time");
                    None
                }
            }
        });
        let found = join_all(lookups).await;
        let mut resolved = self.resolved.lock();
        resolved.at = Some(Instant::now());
        for ((given, list), found) in self.given.iter().zip(&mut resolved.lists).zip(found) {
            if let Some(found) = found {
                let found = found.into_iter().take(PER_NAME_MAX);
                *list = found.map(|address| given.resolved(address)).collect();
            }
        }
    }
}

impl std::fmt::Debug for Seeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Seeds").field(&self.given).finish()
    }
}

/// Test lookups that answer from a list which the test changes.
#[cfg(test)]
pub(crate) fn scripted(
    given: &[&str],
    answers: std::sync::Arc<Mutex<Vec<SocketAddr>>>,
    asked: std::sync::Arc<std::sync::atomic::AtomicUsize>,
) -> Seeds {
    use std::sync::atomic::Ordering;
    let given = given.iter().filter_map(|text| Address::parse(text).ok());
    let lookup = move |_: String| -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        asked.fetch_add(1, Ordering::SeqCst);
        let answers = answers.lock().clone();
        Box::pin(async move { Ok(answers) })
    };
    Seeds::with_lookup(given.collect(), Box::new(lookup))
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    fn texts(addresses: &[Address]) -> Vec<&str> {
        addresses.iter().map(Address::as_str).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_every_address_it_resolves_to_and_is_resolved_again_after_failures() {
        let answers = Arc::new(Mutex::new(vec![
            "10.0.0.1:7".parse().unwrap(),
            "10.0.0.2:7".parse().unwrap(),
        ]));
        let asked = Arc::new(AtomicUsize::new(0));
        let seeds = scripted(
            &["kvcm.example:7", "10.0.0.2:7"],
            answers.clone(),
            asked.clone(),
        );
        assert_eq!(texts(&seeds.known()), ["kvcm.example:7", "10.0.0.2:7"]);
        let first = seeds.addresses(false).await;
        assert_eq!(texts(&first), ["10.0.0.1:7", "10.0.0.2:7"], "once each");
        assert_eq!(first[0].tls_host(), "kvcm.example");

        *answers.lock() = vec!["10.0.0.9:7".parse().unwrap()];
        seeds.addresses(true).await;
        assert_eq!(asked.load(Ordering::SeqCst), 1, "not again at once");
        tokio::time::advance(LOOKUP_PAUSE).await;
        seeds.addresses(false).await;
        assert_eq!(asked.load(Ordering::SeqCst), 1, "not without a reason");
        let moved = seeds.addresses(true).await;
        assert_eq!(texts(&moved), ["10.0.0.9:7", "10.0.0.2:7"]);

        answers.lock().clear();
        tokio::time::advance(LOOKUP_PAUSE).await;
        let kept = seeds.addresses(true).await;
        assert_eq!(texts(&kept), texts(&moved), "an empty answer is none");
    }

    #[tokio::test]
    async fn addresses_need_no_name_server() {
        let asked = Arc::new(AtomicUsize::new(0));
        let seeds = scripted(&["10.0.0.1:7"], Arc::default(), asked.clone());
        assert_eq!(texts(&seeds.addresses(true).await), ["10.0.0.1:7"]);
        assert_eq!(asked.load(Ordering::SeqCst), 0);
    }
}
