//! Prints every change of leader, and what the client counts, until it is interrupted:
//! `cargo run -p kvcm-client --example watch_leader -- HOST:PORT…`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use futures_util::StreamExt;
use kvcm_client::{Client, Error};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut endpoints: Vec<String> = std::env::args().skip(1).collect();
    if endpoints.is_empty() {
        endpoints.push("127.0.0.1:6381".to_owned());
    }
    let client = Client::builder().endpoints(endpoints).connect().await?;
    let mut changes = client.leader_changes();
    loop {
        tokio::select! {
            Some(leader) = changes.next() => {
                println!("epoch {}: {} at {}", leader.epoch, leader.node.id, leader.node.endpoint);
            }
            _ = tokio::signal::ctrl_c() => break,
            else => break,
        }
    }
    print!("{}", client.stats().to_prometheus());
    client.close().await;
    Ok(())
}
