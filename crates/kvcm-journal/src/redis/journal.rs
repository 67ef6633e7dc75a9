//! The journal, before anyone may write to it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use kvcm_clock::Clock;
use kvcm_fence::{Claim, Fence};
use kvcm_redis::{Class, Config, Failure, Link, Outcome as Done};

use super::{
    client::{Client, claim_args, described, number, parse_claim, string},
    scripts,
    store::{Content, RedisStore},
};
use crate::{ClaimError, Journal, Outcome, Source, Writer, store_writer::StoreWriter};

/// A journal at a Redis server, at the primary that Sentinels watch, or in a Redis Cluster.
///
/// A batch is acknowledged when the primary has it, and with `wait_replicas` when so many replicas
/// have it. How much of that a server keeps when it dies is its own business (`appendonly`,
/// `appendfsync`): what it loses with its fence or its count is noticed, see
/// [`AppendError`](crate::AppendError).
#[derive(Debug)]
pub struct RedisJournal {
    name: String,
    client: Arc<Client>,
    keys: Keys,
}

/// The keys of one journal.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    pub(super) meta: String,
    pub(super) log: String,
    pub(super) ends: String,
    /// What the keys of snapshots start with.
    pub(super) snapshot: String,
}

impl RedisJournal {
    /// The journal `name` (of letters) at the servers of `config`, whose deadlines are moments of
    /// `clock`. Does not wait for the server.
    ///
    /// # Errors
    /// [`ClaimError::Fatal`] when the address cannot be used at all.
    pub fn open(config: Config, name: &str, clock: Arc<dyn Clock>) -> Result<Self, ClaimError> {
        let keys = Keys::new(&config, name);
        let client = Client::new(Arc::new(config), &keys.meta, clock).map_err(claim_error)?;
        Ok(Self {
            name: name.to_owned(),
            client: Arc::new(client),
            keys,
        })
    }

    /// The journal `name` at the same servers, over the same connections.
    #[must_use]
    pub fn beside(&self, name: &str) -> Self {
        let keys = Keys::new(self.config(), name);
        Self {
            name: name.to_owned(),
            client: Arc::new(self.client.beside(&keys.meta)),
            keys,
        }
    }

    /// Where it is.
    pub fn config(&self) -> &Config {
        self.client.config()
    }
}

impl Keys {
    fn new(config: &Config, name: &str) -> Self {
        let prefix = config.key_prefix("journal");
        let cluster = config.cluster_name.as_deref().unwrap_or_default();
        // The part in braces decides the hash slot of all of them.
        let key = |what| format!("{prefix}{{{cluster}:{name}}}:{what}");
        Self {
            meta: key("meta"),
            log: key("log"),
            ends: key("ends"),
            snapshot: key("snapshot"),
        }
    }
}

#[async_trait]
impl Journal for RedisJournal {
    fn describe(&self) -> String {
        format!("journal {} at {}", self.name, self.client)
    }

    async fn claim(&self, claim: Claim, timeout: Duration) -> Result<Box<dyn Writer>, ClaimError> {
        let keys = [self.keys.meta.as_str(), &self.keys.log];
        let args = |link: &Link, tries: u32, deadline: i64| {
            if link.server.evicts_any_key() {
                tracing::warn!(
                    policy = link.server.eviction,
                    journal = self.describe(),
                    "the server may evict the journal when its memory is full; set \
                     maxmemory-policy to noeviction"
                );
            }
            let is_repeat = Bytes::from_static(if tries > 0 { b"1" } else { b"0" });
            let more = [is_repeat, deadline.to_string().into()];
            [&claim_args(&claim)[..], &more].concat()
        };
        let called = self
            .client
            .call(&scripts::CLAIM, &keys, timeout, true, args);
        let mut answer = called.await.map_err(claim_error)?;
        let what = string(&mut answer).unwrap_or_default();
        match what.as_str() {
            "claimed" => {}
            "refused" => {
                let by = parse_claim(&mut answer);
                let by = by.ok_or_else(|| self.damaged("its fence cannot be read"))?;
                let mut fence = Fence::restored(Some(by));
                fence.claim(claim)?;
                return Err(self.damaged("it refused a claim without a reason"));
            }
            other => return Err(self.not_understood(other)),
        }
        let (epoch, incarnation) = (string(&mut answer), string(&mut answer));
        let former = epoch.zip(incarnation).and_then(|(epoch, incarnation)| {
            Some(Claim {
                cluster: claim.cluster.clone(),
                epoch: epoch.parse().ok()?,
                incarnation: incarnation.parse().ok()?,
            })
        });
        let mut read = || {
            Some(Content {
                seq: number(&mut answer)?,
                through: number(&mut answer)?,
                snapshot: string(&mut answer)?,
                version: number(&mut answer)?.try_into().ok()?,
                chunks: number(&mut answer)?,
            })
        };
        let content = read().ok_or_else(|| self.damaged("its numbers cannot be read"))?;
        let (client, keys) = (self.client.clone(), self.keys.clone());
        let store = RedisStore::new(client, keys, claim.clone(), content);
        Ok(Box::new(StoreWriter::new(claim, former, Arc::new(store))))
    }

    async fn standing(&self, timeout: Duration) -> Result<Option<Claim>, ClaimError> {
        let keys = [self.keys.meta.as_str(), &self.keys.log];
        let called = self
            .client
            .call(&scripts::STANDING, &keys, timeout, false, |_, _, _| vec![]);
        let mut answer = called.await.map_err(claim_error)?;
        match string(&mut answer).unwrap_or_default().as_str() {
            "none" => Ok(None),
            "stands" => {
                let claim = parse_claim(&mut answer);
                let claim = claim.ok_or_else(|| self.damaged("its fence cannot be read"))?;
                Ok(Some(claim))
            }
            other => Err(self.not_understood(other)),
        }
    }

    async fn probe(&self, timeout: Duration) -> Result<(), Source> {
        let keys = [self.keys.meta.as_str()];
        let probed = self
            .client
            .call(&scripts::PROBE, &keys, timeout, false, |_, _, _| vec![]);
        probed.await.map_err(|failure| described(&failure))?;
        Ok(())
    }
}

impl RedisJournal {
    fn not_understood(&self, answer: &str) -> ClaimError {
        match answer {
            "lost" => self.damaged("it has content and has lost its fence"),
            other => self.damaged(&format!("it answered `{other}`")),
        }
    }

    fn damaged(&self, how: &str) -> ClaimError {
        let (name, key) = (self.describe(), &self.keys.meta);
        ClaimError::Fatal {
            hint: format!(
                "restore the hash `{key}` from a backup, or delete the keys of the journal (they \
                 begin like that one) and with them all that it holds"
            ),
            source: format!("{name}: {how}").into(),
        }
    }
}

fn claim_error(failure: Failure) -> ClaimError {
    match failure.class {
        Class::Fatal { hint } => ClaimError::Fatal {
            hint: hint.to_owned(),
            source: failure.into(),
        },
        Class::Retryable { outcome } => ClaimError::Unavailable {
            outcome: match outcome {
                Done::NotDone => Outcome::NotDone,
                Done::Unknown => Outcome::Unknown,
            },
            source: failure.into(),
        },
    }
}
