//! The bench of the calls that engines make all day long: the whole server over gRPC and HTTP, in
//! turns with a bare server that sends the same bytes and with Redis that holds the same blocks.

mod bare;
mod body;
mod client;
mod contender;
mod keys;
mod lines;
mod options;
mod redis;
mod report;
mod server;
mod trace;
mod turn;

pub use bare::serve;
pub use options::{Options, Over};

use anyhow::Context;

use crate::serve::{lines::Lookup, report::Report, server::Server};

/// Starts the servers, measures everything that `options` asks for, and gives the table.
///
/// # Errors
/// When a server cannot be started or does not answer as it must. A slow one is no error.
pub async fn run(options: &Options) -> anyhow::Result<String> {
    let dir = tempfile::tempdir()?;
    let mut report = Report::start(options);
    let server = Server::start(dir.path()).await?;
    let redis = redis::start()?;
    eprintln!("writing {} keys", options.keys);
    keys::load(&server, &redis, options).await.context("load")?;
    for over in options.over.iter().copied() {
        for lookup in Lookup::ALL {
            if options.wants(lookup.name()) {
                let line = lines::lookup(lookup, over, dir.path(), &server, &redis, options).await;
                report.add(line.with_context(|| lookup.name().to_owned())?);
            }
        }
        if options.wants(lines::WRITE) {
            let line = lines::write(over, dir.path(), &server, &redis, options).await;
            report.add(line.context(lines::WRITE)?);
        }
        for expand in options.expand.iter().copied() {
            for kept in trace::KEPT {
                if options.wants(lines::TRACE) {
                    let line = lines::trace(over, expand, kept, &server, &redis, options).await;
                    report.add(line.context(lines::TRACE)?);
                }
            }
        }
    }
    Ok(report.finish())
}
