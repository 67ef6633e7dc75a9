//! Stores blocks in parallel and confirms those that could be written:
//! `cargo run -p kvcm-client --example write_blocks -- HOST:PORT…`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use kvcm_client::{Client, Error, InstanceSpec, NewBlocks, WriteOptions, Written};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut endpoints: Vec<String> = std::env::args().skip(1).collect();
    if endpoints.is_empty() {
        endpoints.push("127.0.0.1:6381".to_owned());
    }
    let client = Client::builder().endpoints(endpoints).connect().await?;
    let spec = InstanceSpec::new("default", "write-blocks", 16)
        .model("a-model", "bf16")
        .piece("tp0", 4096);
    let instance = client.register(spec).await?;
    let keys: Vec<i64> = (1000..1032).collect();
    // Called again, with new places, when a leader dies before it could confirm: what is written
    // to a place must not depend on an earlier one.
    let options = WriteOptions::default();
    let report = instance.write_blocks(&keys, &options, transfer).await?;
    println!(
        "{} of {} blocks written, {} were there, in {} session(s)",
        report.written, report.blocks, report.known, report.sessions
    );
    client.close().await;
    Ok(())
}

/// Writes all blocks at once, and tells for each whether it went well.
async fn transfer(places: NewBlocks) -> Written {
    let tasks: Vec<_> = places
        .iter()
        .map(|(_, place)| {
            let uri = place.uri("tp0").map(str::to_owned);
            tokio::spawn(async move { store(uri).await })
        })
        .collect();
    let mut written = Vec::with_capacity(tasks.len());
    for task in tasks {
        written.push(task.await.unwrap_or(false));
    }
    Written::Each(written)
}

/// Where an engine copies the block's bytes to the place.
async fn store(uri: Option<String>) -> bool {
    uri.is_some()
}
