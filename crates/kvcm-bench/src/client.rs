//! The bench of the client: what an application sees of faults of the leader, and what a client
//! costs that does nothing.

mod case;
mod fault;
mod idle;
mod load;
mod options;
mod report;
mod site;

use anyhow::Context;

pub use fault::Fault;
pub use options::Options;

/// What a run came to.
#[derive(Debug)]
pub struct Outcome {
    /// For stdout.
    pub tables: String,
    /// Errors that reached the application, over all cases.
    pub errors: usize,
}

/// Plays every fault of `options`, each on a cluster of its own, and gives the tables.
///
/// # Errors
/// When a case could not be carried out. Errors of calls are counted, not returned.
pub async fn run(options: &Options) -> anyhow::Result<Outcome> {
    let mut report = report::Report::start(options);
    for fault in &options.faults {
        eprintln!("{}", fault.title());
        let seen = case::play(*fault, options)
            .await
            .with_context(|| format!("the case `{}` is broken", fault.title()))?;
        report.add(*fault, &seen);
    }
    if options.idle_clients > 0 {
        eprintln!("idle clients");
        let idle = idle::measure(options)
            .await
            .context("idle clients cannot be measured")?;
        report.add_idle(&idle);
    }
    Ok(report.finish())
}
