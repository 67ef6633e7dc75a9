//! The conformance suite against a Redis Cluster.

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use coordination_conformance::Subject;
use coordination_core::Backend;
use kvcm_clock::{BootClock, Clock};
use kvcm_testkit::RedisCluster;

use crate::common;

/// Shared by the tests that run at the same time, each with a name of its own, and ended with the
/// last of them.
static CLUSTER: Mutex<Weak<RedisCluster>> = Mutex::new(Weak::new());
static NAMES: AtomicU32 = AtomicU32::new(0);

#[derive(Debug)]
struct Redis {
    cluster: Arc<RedisCluster>,
    name: String,
}

async fn redis() -> Redis {
    let mut shared = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = shared.upgrade().unwrap_or_else(|| {
        let cluster = Arc::new(RedisCluster::start(2, 0, &[]).unwrap());
        *shared = Arc::downgrade(&cluster);
        cluster
    });
    let name = format!("C{}", NAMES.fetch_add(1, Ordering::Relaxed));
    Redis { cluster, name }
}

#[async_trait]
impl Subject for Redis {
    async fn backend(&self) -> Arc<dyn Backend> {
        let uri = format!("{}?cluster_name={}", self.cluster.uri(), self.name);
        Arc::new(common::open(&uri))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(BootClock)
    }

    async fn elapse(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    async fn lose_data(&self) -> bool {
        let pattern = format!("kvcm_{}_*", self.name);
        for node in self.cluster.nodes() {
            for key in node.command(&["KEYS", &pattern]).unwrap().lines() {
                node.command(&["DEL", key]).unwrap();
            }
        }
        true
    }

    async fn remove_ttl(&self, key: &str) -> bool {
        let key = format!("kvcm_{}_lock:{key}", self.name);
        let owner = self.cluster.owner(&key).unwrap();
        self.cluster.nodes()[owner]
            .command(&["PERSIST", &key])
            .unwrap();
        true
    }
}

coordination_conformance::suite!(redis);
