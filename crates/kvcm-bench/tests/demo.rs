//! The demonstration as it is shown, with a shorter trace.

use clap::Parser;
use kvcm_bench::demo::{Options, Verdict, run};

async fn demo(args: &[&str]) -> anyhow::Result<Verdict> {
    let short = ["demo", "--requests", "600", "--seconds", "3"];
    run(&Options::parse_from(short.iter().chain(args))).await
}

fn assert_good(verdict: &Verdict) {
    let Verdict {
        tables,
        mistakes,
        kept,
    } = verdict;
    assert_eq!(mistakes, &[] as &[&str; 0], "{kept:?}\n{tables}");
    for text in [
        "SIGKILL of node-",
        "LeaderDemote of node-",
        "after the restart",
    ] {
        assert!(tables.contains(text), "{text}\n{tables}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_on_files_survives_the_death_of_its_leader() {
    assert_good(&demo(&[]).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_on_redis_survives_the_death_of_its_leader() {
    let args = [
        "--coordination",
        "redis",
        "--expand",
        "4",
        "--lease-ms",
        "500",
    ];
    assert_good(&demo(&args).await.unwrap());
}
