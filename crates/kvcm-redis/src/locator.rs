//! Finding the server that a call is for.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};

use crate::{
    Address, Class, Config, Failure, Route,
    cluster_nodes::{self, ClusterNode},
    config::Deployment,
    route::SLOTS,
    sentinel,
};

/// How long the others may take once one of those that know has answered: one that is gone must
/// not hold a reconnect up, and the first answer need not be the newest.
const GRACE: Duration = Duration::from_millis(100);
/// How many nodes of a cluster are asked.
const ASKED_MAX: usize = 16;

/// Finds the server that a call is for, by asking those of the URI.
#[derive(Debug)]
pub struct Locator {
    config: Config,
    /// Nodes of the cluster that we have heard of: those of the URI may all be replaced one day.
    heard_of: Mutex<BTreeSet<Address>>,
}

impl Locator {
    /// Asks nobody yet.
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            heard_of: Mutex::new(BTreeSet::new()),
        }
    }

    /// What it was made with.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Where the server of `route` is now. Takes as long as the servers take; the caller limits
    /// it.
    ///
    /// # Errors
    /// Nobody who knows has answered, or no server serves the slot at present. Nothing has
    /// happened.
    pub async fn locate(&self, route: &Route) -> Result<Address, Failure> {
        match (&self.config.deployment, route) {
            (_, Route::Node(address)) => Ok(address.clone()),
            (Deployment::Standalone, _) => Ok(self.config.first().clone()),
            (Deployment::Sentinel(sentinels), _) => {
                let ask = |address| sentinel::primary(&self.config, sentinels, address);
                let answers = survey(self.config.addresses.clone(), ask).await?;
                let newest = answers.into_iter().max_by_key(|answer| answer.epoch);
                newest
                    .map(|answer| answer.address)
                    .ok_or_else(|| Failure::not_done("no sentinel has answered"))
            }
            (Deployment::Cluster, route) => {
                let slot = match route {
                    Route::Slot(slot) => *slot,
                    _ => 0,
                };
                let nodes = self.cluster_nodes().await?;
                owner(&nodes, slot).cloned().ok_or_else(|| {
                    let config = &self.config;
                    Failure::not_done(format!("{config}: no node serves hash slot {slot}"))
                })
            }
        }
    }

    /// All servers that together have all keys.
    ///
    /// # Errors
    /// Those of [`locate`](Self::locate).
    pub async fn primaries(&self) -> Result<Vec<Address>, Failure> {
        if self.config.deployment != Deployment::Cluster {
            return Ok(vec![self.locate(&Route::Primary).await?]);
        }
        let nodes = self.cluster_nodes().await?;
        let owners: BTreeSet<_> = (0..SLOTS).filter_map(|slot| owner(&nodes, slot)).collect();
        Ok(owners.into_iter().cloned().collect())
    }

    /// The nodes of the cluster as several of them see it.
    async fn cluster_nodes(&self) -> Result<Vec<ClusterNode>, Failure> {
        let mut asked: BTreeSet<_> = self.config.addresses.iter().cloned().collect();
        {
            let heard_of = self.heard_of.lock().unwrap_or_else(PoisonError::into_inner);
            let more = heard_of.iter().take(ASKED_MAX.saturating_sub(asked.len()));
            asked.extend(more.cloned());
        }
        let ask = |address| cluster_nodes::ask(&self.config, address);
        let answers = survey(asked.into_iter().collect(), ask).await?;
        let nodes: Vec<_> = answers.into_iter().flatten().collect();
        let mut heard_of = self.heard_of.lock().unwrap_or_else(PoisonError::into_inner);
        *heard_of = nodes.iter().map(|node| node.address.clone()).collect();
        drop(heard_of);
        Ok(nodes)
    }
}

/// Who serves a slot, by the newest configuration.
fn owner(nodes: &[ClusterNode], slot: u16) -> Option<&Address> {
    let owners = nodes.iter().filter(|node| node.serves(slot));
    let newest = owners.max_by_key(|node| node.epoch);
    newest.map(|node| &node.address)
}

/// Asks all at once, and returns when most have answered, or all, or the rest takes too long.
async fn survey<T, F>(
    addresses: Vec<Address>,
    ask: impl Fn(Address) -> F,
) -> Result<Vec<T>, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let most = addresses.len() / 2 + 1;
    let mut asked: FuturesUnordered<_> = addresses.into_iter().map(ask).collect();
    let mut answers = Vec::new();
    let mut failure: Option<Failure> = None;
    let grace = tokio::time::sleep(Duration::MAX);
    tokio::pin!(grace);
    while answers.len() < most {
        let answer = tokio::select! {
            biased;
            answer = asked.next() => answer,
            () = &mut grace => None,
        };
        match answer {
            None => break,
            Some(Ok(answer)) => {
                if answers.is_empty() {
                    grace.as_mut().reset(tokio::time::Instant::now() + GRACE);
                }
                answers.push(answer);
            }
            // One that may come back is worth more than one that somebody has to repair.
            Some(Err(new)) => {
                let is_better = |old: &Failure| matches!(old.class, Class::Fatal { .. });
                if failure.as_ref().is_none_or(is_better) {
                    failure = Some(new);
                }
            }
        }
    }
    match (answers.is_empty(), failure) {
        (true, Some(failure)) => Err(failure.before_call()),
        (true, None) => Err(Failure::not_done("no server is named")),
        (false, _) => Ok(answers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Address {
        Address {
            host: "h".to_owned(),
            port,
        }
    }

    fn addresses(count: u16) -> Vec<Address> {
        (0..count).map(address).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn most_answers_are_enough_and_a_silent_one_is_not_waited_for() {
        let ask = |address: Address| async move {
            if address.port == 2 {
                std::future::pending::<()>().await;
            }
            Ok(address.port)
        };
        let start = tokio::time::Instant::now();
        assert_eq!(survey(addresses(3), ask).await.unwrap().len(), 2);
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn one_answer_is_used_when_the_others_take_too_long() {
        let ask = |address: Address| async move {
            if address.port > 0 {
                std::future::pending::<()>().await;
            }
            Ok(address.port)
        };
        let start = tokio::time::Instant::now();
        assert_eq!(survey(addresses(3), ask).await.unwrap(), [0]);
        assert!(start.elapsed() >= GRACE);
    }

    #[tokio::test]
    async fn a_failure_that_passes_hides_one_that_does_not() {
        let fatal = Failure::new(Class::Fatal { hint: "do this" }, "wrong name");
        for (good, expected) in [(9, &fatal), (1, &Failure::not_done("gone"))] {
            let ask = |address: Address| {
                let failure = match address.port == good {
                    true => Failure::not_done("gone"),
                    false => fatal.clone(),
                };
                async { Err::<(), _>(failure) }
            };
            assert_eq!(&survey(addresses(3), ask).await.unwrap_err(), expected);
        }
    }

    #[test]
    fn the_owner_in_the_newest_configuration_counts() {
        let node = |port, epoch, slots| ClusterNode {
            address: address(port),
            epoch,
            slots,
        };
        let nodes = [
            node(1, 5, vec![(0, 100)]),
            node(2, 7, vec![(50, 60)]),
            node(3, 6, vec![(50, 100)]),
        ];
        assert_eq!(owner(&nodes, 55), Some(&address(2)));
        assert_eq!(owner(&nodes, 70), Some(&address(3)));
        assert_eq!(owner(&nodes, 101), None);
    }
}
