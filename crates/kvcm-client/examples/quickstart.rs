//! Connects, registers, stores a block, finds it again:
//! `cargo run -p kvcm-client --example quickstart -- HOST:PORT…`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use kvcm_client::{Client, Error, InstanceSpec, WriteOptions, Written};

#[tokio::main]
async fn main() -> Result<(), Error> {
    // Any node of the cluster will do; give all that are known.
    let mut endpoints: Vec<String> = std::env::args().skip(1).collect();
    if endpoints.is_empty() {
        endpoints.push("127.0.0.1:6381".to_owned());
    }
    let client = Client::builder()
        .endpoints(endpoints)
        .deadline(Duration::from_secs(5))
        .connect()
        .await?;
    println!("leader: {:?}", client.leader());

    let spec = InstanceSpec::new("default", "quickstart", 16)
        .model("a-model", "bf16")
        .piece("tp0", 1 << 20);
    let instance = client.register(spec).await?;

    let keys = [0x11, 0x12, 0x13];
    let options = WriteOptions::default();
    let report = instance
        .write_blocks(&keys, &options, |places| async move {
            for (index, place) in places.iter() {
                println!("write block {:x} to {:?}", keys[index], place.uri("tp0"));
            }
            Written::All
        })
        .await?;
    println!("{} written, {} were there", report.written, report.known);

    let found = instance.locate(&keys).await?;
    for location in found.iter() {
        println!("read {:?}", location.uri("tp0"));
    }
    println!("answered under epoch {:?}", found.meta().epoch);
    client.close().await;
    Ok(())
}
