//! Hearing of changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use coordination_core::{Hint, HintStream};
use futures_util::{StreamExt, stream};
use kvcm_clock::{Backoff, BackoffPolicy};
use kvcm_redis::Locator;
use redis::{RedisError, aio::PubSubSink};
use tokio::{
    runtime::Handle,
    sync::{broadcast, watch},
    task::JoinHandle,
    time::timeout,
};
use tracing::{debug, warn};

use crate::keys::Keys;

/// How many hints a watcher may be behind before it is told only that something changed.
const BEHIND_MAX: usize = 64;
/// How long the connection may be silent before it is asked whether it lives.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// One connection that listens for all watchers, and comes back when it breaks. Started by the
/// first watch; ends when this is dropped, and with it all hint streams.
#[derive(Debug)]
pub(crate) struct Subscriber {
    shared: Arc<Shared>,
    hints: broadcast::Sender<Arc<str>>,
}

#[derive(Debug)]
struct Shared {
    locator: Arc<Locator>,
    keys: Keys,
    /// The locks that somebody watches or has watched.
    wanted: watch::Sender<BTreeSet<String>>,
    hints: broadcast::WeakSender<Arc<str>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// Why a connection is given up.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Redis(#[from] RedisError),
    #[error("{0}")]
    Connect(#[from] kvcm_redis::Failure),
    #[error("the server has closed the connection")]
    Closed,
    #[error("the server does not answer")]
    Silent,
}

impl Subscriber {
    pub(crate) fn new(locator: Arc<Locator>, keys: Keys) -> Self {
        let (hints, _) = broadcast::channel(BEHIND_MAX);
        let shared = Arc::new(Shared {
            locator,
            keys,
            wanted: watch::Sender::default(),
            hints: hints.downgrade(),
            task: Mutex::new(None),
        });
        Self { shared, hints }
    }

    /// Hints about `key` from now on; the first tells that it is being listened for.
    pub(crate) fn watch(&self, key: &str) -> HintStream {
        let receiver = self.hints.subscribe();
        self.shared
            .wanted
            .send_if_modified(|wanted| wanted.insert(key.to_owned()));
        self.shared.clone().start();
        let state = (receiver, key.to_owned(), self.shared.clone());
        let hints = stream::unfold(state, |(mut receiver, key, shared)| async move {
            // Again: there may have been no runtime before.
            shared.clone().start();
            loop {
                match receiver.recv().await {
                    Ok(about) if *about == *key => break,
                    Ok(_) => {}
                    Err(broadcast::error::RecvError::Lagged(_)) => break,
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
            Some((Hint::Changed, (receiver, key, shared)))
        });
        Box::pin(hints)
    }
}

impl Shared {
    /// Starts listening on the present runtime, if there is one and it is not done yet.
    fn start(self: Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.as_ref().is_none_or(JoinHandle::is_finished) && self.hints.strong_count() > 0 {
            *task = Some(runtime.spawn(self.clone().listen_always()));
        }
    }

    async fn listen_always(self: Arc<Self>) {
        let mut random = fastrand::Rng::new();
        let mut backoff = Backoff::new(BackoffPolicy::LEASE);
        let mut last = String::new();
        loop {
            let mut is_listening = false;
            let broken = match self.listen(&mut is_listening).await {
                Ok(()) => return,
                Err(broken) => broken.to_string(),
            };
            if is_listening {
                backoff.reset();
                last.clear();
            }
            if broken == last {
                debug!(server = %self.locator.config(), error = broken, "not listening for hints");
            } else {
                warn!(
                    server = %self.locator.config(),
                    error = broken,
                    "not listening for hints, followers only poll"
                );
                last = broken;
            }
            tokio::time::sleep(backoff.next(&mut random)).await;
        }
    }

    /// Listens until the connection breaks, or until nobody can hear any more.
    async fn listen(&self, is_listening: &mut bool) -> Result<(), Broken> {
        let config = self.locator.config();
        let limit = config.timeout;
        let mut wanted = self.wanted.subscribe();
        // In a cluster every node hears all that is published; one with a lock hears it first.
        let first = wanted.borrow().first().cloned().unwrap_or_default();
        let route = config.route(&self.keys.lock(&first).key);
        let connected = timeout(limit, async {
            let address = self.locator.locate(&route).await?;
            let client = config.client(&address)?;
            Ok::<_, Broken>(client.get_async_pubsub().await?)
        });
        let connected = connected.await.map_err(|_| Broken::Silent)??;
        let (mut sink, mut messages) = connected.split();
        let mut channels = BTreeMap::new();
        loop {
            let news: Vec<_> = wanted
                .borrow_and_update()
                .iter()
                .filter(|key| !channels.values().any(|known| known == *key))
                .cloned()
                .collect();
            for key in news {
                let channel = self.keys.channel(&key);
                timeout(limit, sink.subscribe(&channel))
                    .await
                    .map_err(|_| Broken::Silent)??;
                // What happened while nobody listened is not known.
                self.tell(&key);
                channels.insert(channel, key);
            }
            *is_listening = true;
            tokio::select! {
                message = timeout(SILENCE_MAX, messages.next()) => match message {
                    Ok(Some(message)) => {
                        if let Some(key) = channels.get(message.get_channel_name()) {
                            self.tell(key);
                        }
                    }
                    Ok(None) => return Err(Broken::Closed),
                    Err(_) => ping(&mut sink, limit).await?,
                },
                changed = wanted.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn tell(&self, key: &str) {
        if let Some(hints) = self.hints.upgrade() {
            // Fails only when nobody watches at the moment.
            let _ = hints.send(key.into());
        }
    }
}

// === impl Drop ===

impl Drop for Subscriber {
    fn drop(&mut self) {
        let mut task = self
            .shared
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task.take() {
            task.abort();
        }
    }
}

async fn ping(sink: &mut PubSubSink, limit: Duration) -> Result<(), Broken> {
    let answer = timeout(limit, sink.ping::<redis::Value>());
    answer.await.map_err(|_| Broken::Silent)??;
    Ok(())
}
