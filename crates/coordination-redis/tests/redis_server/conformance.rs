//! The conformance suite against a real server.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use coordination_conformance::Subject;
use coordination_core::Backend;
use kvcm_clock::{BootClock, Clock};
use kvcm_testkit::RedisServer;
use tokio::sync::Mutex;

use crate::common;

#[derive(Debug)]
struct Redis {
    server: Mutex<RedisServer>,
}

async fn redis() -> Redis {
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = Mutex::new(RedisServer::start(&durable).unwrap());
    Redis { server }
}

impl Redis {
    async fn uri(&self) -> String {
        format!("{}?cluster_name=C", self.server.lock().await.uri())
    }

    async fn command(&self, words: &[&str]) {
        let uri = self.server.lock().await.uri();
        common::command::<redis::Value>(&uri, words).await;
    }
}

#[async_trait]
impl Subject for Redis {
    async fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(common::open(&self.uri().await))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(BootClock)
    }

    async fn elapse(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    async fn lose_data(&self) -> bool {
        self.command(&["FLUSHALL"]).await;
        true
    }

    async fn remove_ttl(&self, key: &str) -> bool {
        self.command(&["PERSIST", &format!("kvcm_C_lock:{key}")])
            .await;
        true
    }

    async fn restart(&self) -> bool {
        self.server.lock().await.restart().unwrap();
        true
    }
}

coordination_conformance::suite!(redis);
