//! What a connection, or the first call of an account, costs once.

use std::{sync::Arc, time::Duration};

use anyhow::ensure;
use kvcm_clock::{BootClock, Clock};
use rustls::client::Resumption;

use crate::{
    api::{
        call::{Call, Transport},
        caller::Caller,
        load::Target,
        nodes::Nodes,
        report::Report,
        tls::Tls,
    },
    samples::Samples,
};

/// Connections of each kind.
const CONNECTIONS: usize = 200;
/// Accounts, each of which calls for the first time once.
const ACCOUNTS: usize = 20;

/// A connection with its first call: over TLS, beside plain text.
pub(super) async fn connections(
    with: &mut Nodes,
    plain: &mut Nodes,
    tls: &Tls,
    report: &mut Report,
) -> anyhow::Result<()> {
    let target = with.target(Call::ClusterInfo, Transport::Http);
    let mut client = (*tls.client()).clone();
    client.resumption = Resumption::disabled();
    let full = Target {
        tls: Some(Arc::new(client)),
        ..target.clone()
    };
    let bare = plain.target(Call::ClusterInfo, Transport::Http);
    for (name, secured) in [
        ("TLS connection", full),
        ("TLS connection, resumed", target),
    ] {
        eprintln!("{name}");
        let mut taken = [Vec::new(), Vec::new()];
        // One of each is not counted: caches are cold, and there is nothing to resume yet.
        for round in 0..=CONNECTIONS {
            for (target, taken) in [&secured, &bare].into_iter().zip(&mut taken) {
                let time = time(connect_and_call(target)).await?;
                if round > 0 {
                    taken.push(time);
                }
            }
        }
        let [on, off] = taken.map(|taken| taken.into_iter().collect::<Samples>());
        report.add_once(name, "plain text", &on, &off);
    }
    Ok(())
}

/// The first call of an account, whose password is checked, beside its second one.
pub(super) async fn accounts(with: &mut Nodes, report: &mut Report) -> anyhow::Result<()> {
    eprintln!("first call of an account");
    let mut taken = [Vec::new(), Vec::new()];
    for number in 0..ACCOUNTS {
        let target = with.with_new_account(number).await?;
        let mut callers = Caller::connect(&target, 1).await?;
        let caller = callers.first_mut();
        ensure!(caller.is_some(), "no client");
        if let Some(caller) = caller {
            for taken in &mut taken {
                taken.push(time(caller.call()).await?);
            }
        }
    }
    let [first, second] = taken.map(|taken| taken.into_iter().collect::<Samples>());
    report.add_once("account, first call", "its second call", &first, &second);
    Ok(())
}

async fn connect_and_call(target: &Target) -> anyhow::Result<()> {
    let mut callers = Caller::connect(target, 1).await?;
    if let Some(caller) = callers.first_mut() {
        caller.call().await?;
    }
    Ok(())
}

async fn time<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<Duration> {
    let begun = BootClock.now();
    work.await?;
    Ok(BootClock.now().since(begun))
}
