//! One call to the server.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use kvcm_clock::Clock;
use kvcm_fence::{Claim, Fenced};
use kvcm_redis::{Class, Config, Failure, Link, Locator, Pool, Repeat, Replicas, Route, Script};

use crate::store::StoreError;

/// The server waits for replicas for such a part of a call's time: it must answer before the deadline
/// also when it waits twice because it did not know the script.
const WAIT_SHARE: u32 = 3;

/// Calls scripts about the keys of one journal.
pub(super) struct Client {
    pool: Pool,
    route: Route,
    clock: Arc<dyn Clock>,
    config: Arc<Config>,
}

/// What a script answered: texts and blobs, the first of which says what follows.
pub(super) type Answer = std::vec::IntoIter<Bytes>;

impl Client {
    /// For keys that share the hash slot of `key`.
    pub(super) fn new(
        config: Arc<Config>,
        key: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Failure> {
        let pool = Pool::new(Arc::new(Locator::new((*config).clone())), clock.clone())?;
        Ok(Self {
            pool,
            route: config.route(key),
            clock,
            config,
        })
    }

    /// The same over the same connections, for other keys.
    pub(super) fn beside(&self, key: &str) -> Self {
        Self {
            pool: self.pool.clone(),
            route: self.config.route(key),
            clock: self.clock.clone(),
            config: self.config.clone(),
        }
    }

    pub(super) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Runs a script that changes nothing, or the same when it runs twice. `args` gets the
    /// connection and the number of tries of this call that may have happened before.
    pub(super) async fn call(
        &self,
        script: &Script,
        keys: &[&str],
        timeout: Duration,
        writes: bool,
        args: impl Fn(&Link, u32, i64) -> Vec<Bytes>,
    ) -> Result<Answer, Failure> {
        let timeout = timeout.min(self.config.timeout);
        let deadline = self.clock.now() + timeout;
        let wait_replicas = self.config.wait_replicas;
        let replicas = (writes && wait_replicas > 0).then(|| Replicas {
            count: wait_replicas,
            timeout_ms: u64::try_from((timeout / WAIT_SHARE).as_millis())
                .unwrap_or(u64::MAX)
                .max(1),
        });
        let call = |mut link: Link, tries| {
            let args = args(&link, tries, link.server_millis_at(deadline));
            async move {
                let args: Vec<&[u8]> = args.iter().map(|arg| &arg[..]).collect();
                let run = script.run_bytes::<Vec<Vec<u8>>>(&mut link, keys, &args, replicas);
                run.await
            }
        };
        let answered = self
            .pool
            .run(&self.route, Repeat::Safe, deadline, call)
            .await?;
        if let Some(acknowledged) = answered.acknowledged
            && acknowledged < wait_replicas
        {
            return Err(Failure::unknown(format!(
                "{acknowledged} of {wait_replicas} replicas have it (wait_replicas)"
            )));
        }
        let answer: Vec<Bytes> = answered.value.into_iter().map(Bytes::from).collect();
        Ok(answer.into_iter())
    }

    /// Runs a script of the writer of `claim`, whose arguments follow the claim.
    pub(super) async fn call_under(
        &self,
        claim: &Claim,
        script: &Script,
        keys: &[&str],
        writes: bool,
        more: &[Bytes],
    ) -> Result<Answer, CallError> {
        let args = |_: &Link, _, _| [&claim_args(claim)[..], more].concat();
        let answer = self
            .call(script, keys, self.config.timeout, writes, args)
            .await;
        let mut answer = answer.map_err(CallError::Failed)?;
        match &answer.next().unwrap_or_default()[..] {
            b"ok" => Ok(answer),
            b"missing" => Err(CallError::Fenced(Fenced::Missing)),
            b"fenced" => Err(match parse_claim(&mut answer) {
                Some(by) => CallError::Fenced(Fenced::By { by }),
                None => CallError::Fenced(Fenced::Missing),
            }),
            b"seq" => Err(CallError::Seq(number(&mut answer).unwrap_or_default())),
            b"incomplete" => Err(CallError::Failed(Failure::not_done(
                "the snapshot took so long that its beginning has expired",
            ))),
            other => {
                let other = String::from_utf8_lossy(other);
                let reason = format!("the server answered `{other}`, which is not understood");
                Err(CallError::Failed(Failure::unknown(reason)))
            }
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.config)
    }
}

/// Why a script did not do it.
pub(super) enum CallError {
    Fenced(Fenced),
    /// The server has the batches up to this one.
    Seq(u64),
    Failed(Failure),
}

impl From<CallError> for StoreError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Fenced(fenced) => Self::Fenced(fenced),
            CallError::Seq(has) => Self::WentBack(has),
            CallError::Failed(failure) => Self::Unavailable(described(&failure)),
        }
    }
}

/// What went wrong and, when it is known, what to do.
pub(super) fn described(failure: &Failure) -> String {
    match failure.class {
        Class::Fatal { hint } => format!("{hint}: {failure}"),
        Class::Retryable { .. } => failure.to_string(),
    }
}

/// The arguments that every script begins with.
pub(super) fn claim_args(claim: &Claim) -> [Bytes; 3] {
    [
        Bytes::copy_from_slice(claim.cluster.as_str().as_bytes()),
        text(claim.epoch.get()),
        claim.incarnation.to_string().into(),
    ]
}

pub(super) fn text(number: u64) -> Bytes {
    number.to_string().into()
}

pub(super) fn string(answer: &mut Answer) -> Option<String> {
    String::from_utf8(answer.next()?.to_vec()).ok()
}

pub(super) fn number(answer: &mut Answer) -> Option<u64> {
    string(answer)?.parse().ok()
}

/// Cluster, epoch and incarnation.
pub(super) fn parse_claim(answer: &mut Answer) -> Option<Claim> {
    Some(Claim {
        cluster: string(answer)?.parse().ok()?,
        epoch: string(answer)?.parse().ok()?,
        incarnation: string(answer)?.parse().ok()?,
    })
}
