//! The questions of one search that are under way.

use std::{sync::Arc, time::Duration, vec};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::Instant;

use crate::{address::Address, cluster_info::ClusterInfo, core::Core, rpc::Failed};

/// The answer of a node, or why there is none, and how long it took.
pub(crate) struct Heard {
    pub(crate) address: Address,
    pub(crate) answer: Result<ClusterInfo, Failed>,
    pub(crate) took: Duration,
}

/// Nodes that are being asked, and those that may be asked next.
pub(crate) struct Asking {
    core: Arc<Core>,
    next: vec::IntoIter<Address>,
    pending: FuturesUnordered<BoxFuture<'static, Heard>>,
    unanswered: Vec<Address>,
    /// The search is over; `unanswered` is entered among the late nodes.
    left: bool,
}

impl Asking {
    /// Will ask `order`, one after the other.
    pub(crate) fn new(core: Arc<Core>, order: Vec<Address>) -> Self {
        Self {
            core,
            next: order.into_iter(),
            pending: FuturesUnordered::new(),
            unanswered: Vec::new(),
            left: false,
        }
    }

    /// Whether there are nodes that have not been asked.
    pub(crate) fn has_more(&self) -> bool {
        self.next.len() > 0
    }

    /// Whether every node has been asked and has answered.
    pub(crate) fn is_done(&self) -> bool {
        !self.has_more() && self.pending.is_empty()
    }

    /// Asks the next `count` nodes.
    pub(crate) fn ask_next(&mut self, count: usize) {
        for address in self.next.by_ref().take(count) {
            self.unanswered.push(address.clone());
            let core = Arc::clone(&self.core);
            self.pending.push(Box::pin(async move {
                let started = Instant::now();
                let answer = core.ask_node(&address, core.settings.ask_timeout).await;
                Heard {
                    address,
                    answer,
                    took: started.elapsed(),
                }
            }));
        }
    }

    /// Whoever has not been asked will not be.
    pub(crate) fn ask_no_more(&mut self) {
        self.next = Vec::new().into_iter();
    }

    /// The next answer; `None` when nobody is being asked.
    pub(crate) async fn heard(&mut self) -> Option<Heard> {
        let heard = self.pending.next().await?;
        self.unanswered.retain(|address| *address != heard.address);
        Some(heard)
    }

    /// Ends the search and returns the nodes that have not answered. When they do, it still
    /// counts: news wakes the calls that wait. Until then they are not asked again.
    pub(crate) fn leave(mut self) -> Vec<Address> {
        let late = self.unanswered.clone();
        if late.is_empty() {
            return late;
        }
        self.core.searches.late.lock().extend_from_slice(&late);
        self.left = true;
        tokio::spawn(async move {
            while let Some(heard) = self.heard().await {
                let mut late = self.core.searches.late.lock();
                late.retain(|address| *address != heard.address);
                drop(late);
                if let Ok(info) = heard.answer {
                    self.core.enter_late(&info);
                }
            }
        });
        late
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if self.left {
            let mut late = self.core.searches.late.lock();
            late.retain(|address| !self.unanswered.contains(address));
        }
    }
}
