//! MetaService: a stream of leader changes. Any node serves it, from memory.

use std::{sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt as _, stream};
use kvcm_proto::meta;
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::Services;
use crate::{
    cluster::{Cluster, LeaderInfo},
    http::CallContext,
    reply::{CallError, Code, Header, Reply as _},
    streams::Streams,
};

/// What all streams share.
#[derive(Debug)]
pub(crate) struct Watching {
    state: watch::Receiver<State>,
    heartbeat: Duration,
    drain: CancellationToken,
    streams: Arc<Streams>,
}

/// What a stream tells, as far as a change of it is news.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    leader: LeaderInfo,
    role: &'static str,
}

/// One stream.
struct Watcher {
    services: Arc<Services>,
    trace_id: String,
    state: watch::Receiver<State>,
    /// When to tell the same again; none before the first message.
    next: Option<Instant>,
    _permit: OwnedSemaphorePermit,
}

impl Watching {
    /// Streams of what `state` has, each repeating it after `heartbeat`; they end with `drain`.
    pub(crate) fn new(
        state: watch::Receiver<State>,
        heartbeat: Duration,
        drain: CancellationToken,
        streams: Arc<Streams>,
    ) -> Self {
        Self {
            state,
            heartbeat,
            drain,
            streams,
        }
    }
}

impl State {
    fn of(cluster: &Cluster) -> Self {
        Self {
            // Its age is no news.
            leader: LeaderInfo {
                age: Duration::ZERO,
                ..cluster.leader()
            },
            role: cluster.role().as_str(),
        }
    }

    /// Keeps `state` up to date until the election ends. However many streams there are, the
    /// election's view is read once per turn.
    pub(crate) async fn follow(cluster: Arc<Cluster>, state: watch::Sender<Self>) {
        let mut view = cluster.elector().watch();
        loop {
            let now = Self::of(&cluster);
            state.send_if_modified(|known| {
                let is_news = *known != now;
                *known = now;
                is_news
            });
            if view.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Services {
    /// Who leads: at once, with every change, and when the heartbeat is due. A reader that is slow
    /// misses what was true in between, never what is true.
    pub(crate) fn watch_cluster_info(
        self: Arc<Self>,
        request: meta::WatchClusterInfoRequest,
    ) -> impl Stream<Item = meta::GetClusterInfoResponse> + Send + 'static {
        let Some(permit) = self.watching.streams.open() else {
            let most = self.watching.streams.most();
            let message = format!(
                "{most} streams are open on this node (kvcm.service.max_watch_streams): ask another \
                 one"
            );
            let error = CallError::new(Code::Capacity, message);
            let refusal =
                meta::GetClusterInfoResponse::only(Header::refused(&request.trace_id, error));
            return stream::once(std::future::ready(refusal)).boxed();
        };
        let watcher = Watcher {
            state: self.watching.state.clone(),
            services: self,
            trace_id: request.trace_id,
            next: None,
            _permit: permit,
        };
        stream::unfold(watcher, Watcher::next).boxed()
    }
}

impl Watcher {
    async fn next(mut self) -> Option<(meta::GetClusterInfoResponse, Self)> {
        if let Some(next) = self.next {
            tokio::select! {
                // The change that a step-down makes is told before the end.
                biased;
                changed = self.state.changed() => changed.ok()?,
                () = self.services.watching.drain.cancelled() => return None,
                () = sleep_until(next) => {}
            }
        }
        self.state.mark_unchanged();
        self.next = Some(Instant::now() + self.services.watching.heartbeat);
        let request = meta::GetClusterInfoRequest {
            trace_id: self.trace_id.clone(),
            instance_id: String::new(),
        };
        let info = self
            .services
            .get_cluster_info(&CallContext::default(), request);
        Some((info, self))
    }
}
