//! An application: looks blocks up and writes new ones, one call after the other.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use kvcm_client::{Client, Instance, InstanceSpec, WriteOptions, Written};
use kvcm_clock::{BootClock, Clock, Moment};

use super::site::GROUP;

/// One operation as the application sees it; a write is both of its calls.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) begun: Moment,
    pub(super) ended: Moment,
    /// Tries at nodes of the calls of this operation; of a write, of its last call.
    pub(super) attempts: u32,
    /// What went wrong, when it failed.
    pub(super) error: Option<String>,
}

/// What all clients register.
pub(super) fn spec() -> InstanceSpec {
    InstanceSpec::new(GROUP, "bench", 16)
        .model("bench-model", "bf16")
        .piece("tp0", 4096)
}

/// Works until `stop`; returns what it saw.
pub(super) async fn work(
    number: u16,
    client: Client,
    think: Duration,
    stop: Arc<AtomicBool>,
) -> Result<Vec<Operation>, kvcm_client::Error> {
    let instance = client.register(spec()).await?;
    let mut seen = Vec::new();
    let mut round: i64 = 0;
    while !stop.load(Relaxed) {
        let first = (i64::from(number) << 40) + round * 4;
        round += 1;
        let keys = [first, first + 1, first + 2, first + 3];
        seen.push(operation(write(&instance, &keys)).await);
        seen.push(operation(locate(&instance, &keys)).await);
        tokio::time::sleep(think).await;
    }
    client.close().await;
    Ok(seen)
}

async fn write(instance: &Instance, keys: &[i64]) -> Result<u32, kvcm_client::Error> {
    let options = WriteOptions::default();
    let report = instance
        .write_blocks(keys, &options, |_| async { Written::All })
        .await?;
    Ok(report.meta.attempts + report.sessions - 1)
}

async fn locate(instance: &Instance, keys: &[i64]) -> Result<u32, kvcm_client::Error> {
    let found = instance.locate(keys).await?;
    Ok(found.meta().attempts)
}

async fn operation(work: impl Future<Output = Result<u32, kvcm_client::Error>>) -> Operation {
    let begun = BootClock.now();
    let result = work.await;
    let (attempts, error) = match result {
        Ok(attempts) => (attempts, None),
        Err(error) => (error.attempts_total(), Some(error.to_string())),
    };
    Operation {
        begun,
        ended: BootClock.now(),
        attempts,
        error,
    }
}
