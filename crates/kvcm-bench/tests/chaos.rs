//! A minute of torment on each backend, as `cargo xtask chaos` does it.

use clap::Parser;
use kvcm_bench::chaos::{Options, Verdict, run};
use tokio::sync::Mutex;

/// One at a time: each needs the machine.
static TURN: Mutex<()> = Mutex::const_new(());

async fn a_minute(backend: &str) -> anyhow::Result<Verdict> {
    let _turn = TURN.lock().await;
    // Left there when something is wrong.
    let name = format!("kvcm-chaos-{}-{backend}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    let folder = folder.display().to_string();
    let args = [
        "chaos",
        "--backend",
        backend,
        "--seed",
        "1",
        "--folder",
        &folder,
    ];
    run(&Options::parse_from(args)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_on_files_keeps_its_promises_for_a_minute() {
    let verdict = a_minute("file").await.unwrap();
    assert_eq!(verdict.folder, None, "{}", verdict.report);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_on_redis_keeps_its_promises_for_a_minute() {
    let verdict = a_minute("redis").await.unwrap();
    assert_eq!(verdict.folder, None, "{}", verdict.report);
}
