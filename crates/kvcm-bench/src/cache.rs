//! The bench of the cache in process: lookups beside bare maps, writes, memory per key, recovery,
//! durable finishes, eviction, and the replay of a trace beside an exact LRU.

mod anywhere;
mod chains;
mod eviction;
mod finishes;
mod lookups;
mod lru;
mod maps;
mod memory;
mod node;
mod options;
mod plain_redis;
mod recovery;
mod replay;
mod report;
mod stores;
mod writes;

use anyhow::Context;

use crate::cache::report::Report;

pub use options::{Options, Part, StoreKind};

/// Measures every part that `options` asks for, and gives the tables.
///
/// # Errors
/// When something is not found that must be there, or a store cannot be started. A slow one is no
/// error.
pub async fn run(options: &Options) -> anyhow::Result<String> {
    let mut report = Report::start(options);
    for part in &options.parts {
        eprintln!("{}", part.name());
        let measured = match part {
            Part::Memory => memory::measure(options, &mut report),
            Part::Lookups => lookups::measure(options, &mut report),
            Part::Writes => writes::measure(options, &mut report).await,
            Part::Recovery => recovery::measure(options, &mut report).await,
            Part::Finishes => finishes::measure(options, &mut report).await,
            Part::Eviction => eviction::measure(options, &mut report),
            Part::Trace => replay::measure(options, &mut report),
        };
        measured.with_context(|| format!("the bench of {} is broken", part.name()))?;
    }
    Ok(report.finish())
}
