//! The accept loop.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};

use super::{
    Cause, ConnectionCounters, Terms,
    connection::{self, Ends},
    peers::{Peers, Place},
};

/// How long accepting rests when the process has no descriptor or memory for a connection.
const REST: Duration = Duration::from_millis(50);

/// How a listener ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// Connections that were still open at the end of the drain and were cut.
    pub cut: usize,
}

/// Serves `router` on `listener` until `drain` is cancelled, then lets what is in flight finish
/// for the drain limit of `terms`, cuts the rest, and returns. Dropping the future cuts all connections.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    terms: impl Into<Terms>,
    drain: CancellationToken,
    counters: Arc<ConnectionCounters>,
) -> Served {
    let terms = terms.into();
    let limits = terms.limits;
    let cut = CancellationToken::new();
    let _cut_on_drop = cut.clone().drop_guard();
    let ends = Ends {
        drain: drain.clone(),
        cut: cut.clone(),
    };
    let connections = Connections::new(terms.clone(), router, ends, counters);
    tokio::select! {
        biased;
        () = drain.cancelled() => {}
        () = connections.accept(&listener) => {}
    }
    // From here on connecting is refused, so that clients turn to another node at once.
    drop(listener);
    connections.tasks.close();
    if timeout(limits.drain, connections.tasks.wait())
        .await
        .is_ok()
    {
        return Served { cut: 0 };
    }
    let open = connections.tasks.len();
    info!(open, "connections are cut at the end of the drain");
    for _ in 0..open {
        terms.refusals.count(Cause::Drain);
    }
    cut.cancel();
    connections.tasks.wait().await;
    Served { cut: open }
}

/// The connections of one listener.
struct Connections {
    terms: Terms,
    router: Router,
    ends: Ends,
    free: Arc<Semaphore>,
    peers: Peers,
    tasks: TaskTracker,
    counters: Arc<ConnectionCounters>,
}

impl Connections {
    fn new(terms: Terms, router: Router, ends: Ends, counters: Arc<ConnectionCounters>) -> Self {
        let count = terms.limits.connections.min(Semaphore::MAX_PERMITS);
        Self {
            peers: Peers::new(terms.limits.peer_connections),
            terms,
            router,
            ends,
            free: Arc::new(Semaphore::new(count)),
            tasks: TaskTracker::new(),
            counters,
        }
    }

    /// Accepts for ever.
    async fn accept(&self, listener: &TcpListener) {
        let mut refused = 0u64;
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let Some(place) = self.peers.admit(peer.ip()) else {
                        self.counters.count_refused();
                        self.terms.refusals.count(Cause::PeerConnections);
                        debug!(%peer, "too many connections of one address");
                        continue;
                    };
                    let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() else {
                        // Closing tells the client to go elsewhere; waiting would tell nothing.
                        self.counters.count_refused();
                        self.terms.refusals.count(Cause::Connections);
                        refused += 1;
                        if refused == 1 {
                            let limit = self.terms.limits.connections;
                            warn!(limit, "too many connections, more are closed at once");
                        }
                        continue;
                    };
                    if refused > 0 {
                        warn!(refused, "connections are accepted again");
                        refused = 0;
                    }
                    self.spawn(stream, peer, (permit, place));
                }
                Err(error) if is_of_peer(&error) => {
                    debug!(%error, "connection broke before it was accepted");
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection, trying again");
                    sleep(REST).await;
                }
            }
        }
    }

    fn spawn(&self, stream: TcpStream, peer: SocketAddr, permit: (OwnedSemaphorePermit, Place)) {
        let (router, terms, ends) = (self.router.clone(), self.terms.clone(), self.ends.clone());
        let counters = self.counters.clone();
        counters.count_accepted();
        self.tasks.spawn(async move {
            let was_cut = connection::serve(stream, peer, router, terms, ends).await;
            if was_cut {
                debug!(%peer, "connection cut");
            }
            drop(permit);
            counters.count_ended();
        });
    }
}

/// Errors of one peer; the next connection may be fine at once.
fn is_of_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
