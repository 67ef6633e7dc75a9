//! A server that reads its data from disk.

use coordination_core::{Outcome, RenewOutcome};
use kvcm_testkit::RedisServer;

use crate::common::{LONG, acquire, command, open, outcome, owner, renew, within};

#[tokio::test]
async fn a_server_that_loads_its_data_has_done_nothing_and_then_still_has_the_lock() {
    // 1 ms for each key, and a look at the network after each kilobyte.
    let slowly = [
        "--key-load-delay",
        "1000",
        "--loading-process-events-interval-bytes",
        "1024",
        "--rdbcompression",
        "no",
    ];
    let mut server = RedisServer::start(&slowly).unwrap();
    let uri = server.uri();
    let backend = open(&uri);
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    let text = "x".repeat(100);
    let words: Vec<_> = (0..3000).map(|n| format!("other{n}")).collect();
    let mut set = vec!["MSET"];
    for word in &words {
        set.extend([word.as_str(), text.as_str()]);
    }
    command::<()>(&uri, &set).await;
    command::<()>(&uri, &["SAVE"]).await;
    let restarting = tokio::task::spawn_blocking(move || {
        server.restart().unwrap();
        server
    });
    let mut loading = 0;
    let renewed = loop {
        match renew(&backend, &a, epoch, within(1000)).await {
            Ok(outcome) if restarting.is_finished() => break outcome,
            Ok(_) => {}
            Err(error) => {
                assert!(error.is_retryable(), "{error}");
                // Of a call that broke with the old server nobody knows.
                let nothing = outcome(&error) == Some(Outcome::NotDone);
                loading += u32::from(nothing && error.to_string().contains("LOADING"));
            }
        }
    };
    assert_eq!(renewed, RenewOutcome::Renewed);
    assert!(loading > 0);
}
