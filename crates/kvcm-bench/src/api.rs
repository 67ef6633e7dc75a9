//! The bench of the server's calls: how many it answers in a second and how soon, beside servers
//! that do nothing but send the same bytes; and what each switch costs a call.

mod call;
mod caller;
mod codec;
mod cost;
mod echo;
mod load;
mod nodes;
mod once;
mod options;
mod report;
mod tls;

use anyhow::{Context, ensure};

use crate::api::{
    call::{Call, Transport},
    cost::{Access, Switch},
    echo::{Answers, Echo},
    load::{Load, Target},
    nodes::Nodes,
    report::Report,
    tls::Tls,
};

pub(crate) use codec::Raw;
pub use echo::serve;
pub use options::Options;

/// Over how many connections gRPC clients share at most.
const CONNECTIONS: usize = 4;
/// With how many clients the switches are measured.
const CLIENTS: usize = 8;

/// Starts the servers, measures everything that `options` asks for, and gives the tables.
///
/// # Errors
/// When a server cannot be started or does not answer as it must. A slow one is no error.
pub async fn run(options: &Options) -> anyhow::Result<String> {
    let mut report = Report::start(options);
    calls(options, &mut report).await.context("calls")?;
    switches(options, &mut report).await.context("switches")?;
    Ok(report.finish())
}

/// A cluster of three beside the echo, in turns.
async fn calls(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let mut nodes = Nodes::start(dir.path(), 3, &[], Access::default()).await?;
    let mut targets = Vec::new();
    let mut answers = Answers::default();
    for call in Call::ALL {
        for transport in Transport::ALL {
            let target = nodes.target(call, transport);
            let answer = load::ask(&target).await?;
            answers.insert(call.path(transport), &answer);
            targets.push(target);
        }
    }
    let echo = Echo::start(dir.path(), &answers).await?;
    for target in targets {
        for clients in options.clients.iter().copied().map(usize::from) {
            eprintln!(
                "{} over {}: {clients} clients",
                target.call.name(),
                target.transport.name()
            );
            let mut pair = [
                Load::connect(&target, clients).await?,
                Load::connect(&echo.target(&target), clients).await?,
            ];
            load::in_turns(&mut pair, options).await?;
            let [ours, bare] = pair.map(Load::finish);
            report.add_call(&target, clients, &ours, &bare);
        }
    }
    Ok(())
}

/// For each switch a node with it on, beside a node with all of them off, in turns.
async fn switches(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let tls = Tls::make(dir.path())?;
    let off = Switch::all_off();
    let mut plain = Nodes::start(&dir.path().join("off"), 1, &off, Access::default()).await?;
    for switch in Switch::ALL {
        let (settings, access) = (switch.on(&tls), switch.access(&tls));
        let mut with = Nodes::start(&dir.path().join(switch.name()), 1, &settings, access).await?;
        if switch.refuses_strangers() {
            let stranger = Target {
                tls: None,
                authorization: None,
                ..with.target(Call::ClusterInfo, Transport::Http)
            };
            // Else the line would measure nothing.
            let is_refused = load::ask(&stranger).await.is_err();
            ensure!(is_refused, "{}: has no effect", switch.name());
        }
        for call in switch.calls().iter().copied() {
            for transport in Transport::ALL {
                eprintln!(
                    "{}: {} over {}",
                    switch.name(),
                    call.name(),
                    transport.name()
                );
                let mut pair = [
                    Load::connect(&with.target(call, transport), CLIENTS).await?,
                    Load::connect(&plain.target(call, transport), CLIENTS).await?,
                ];
                load::in_turns(&mut pair, options).await?;
                let [on, off] = pair.map(Load::finish);
                report.add_switch(switch, call, transport, &on, &off);
            }
        }
        match switch {
            Switch::Tls => once::connections(&mut with, &mut plain, &tls, report).await?,
            Switch::Account => once::accounts(&mut with, report).await?,
            _ => {}
        }
    }
    Ok(())
}
