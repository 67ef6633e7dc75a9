//! The bench of the coordination backends: how fast single calls are, how soon a waiter has a lock
//! that was released, and how late one whose holder is dead.

mod calls;
mod campaign;
mod contender;
mod death;
mod expiry;
mod hand_over;
mod holder;
mod options;
mod place;
mod report;
mod yardstick;

use anyhow::Context;

use crate::coordination::{place::Place, report::Report};

pub use holder::serve;
pub use options::{Kind, Options};

/// Measures every backend of `options`, one after the other, and gives the tables.
///
/// # Errors
/// When a backend does not do what it must. A slow one is no error.
pub async fn run(options: &Options) -> anyhow::Result<String> {
    let mut report = Report::start(options);
    for kind in &options.backends {
        let name = kind.name();
        let place = Place::open(*kind, options).with_context(|| format!("cannot start {name}"))?;
        measure(&place, options, &mut report)
            .await
            .with_context(|| format!("the bench of {name} is broken"))?;
    }
    Ok(report.finish())
}

async fn measure(place: &Place, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let name = place.kind().name();
    let step = |what: &str| eprintln!("{name}: {what}");
    step("the yardstick");
    report.add_all(yardstick::measure(place, options).await?);
    step("single calls");
    report.add_all(calls::measure(place, options).await?);
    step("hand-overs");
    report.add_hand_overs(hand_over::measure(place, options).await?);
    step("leases that end");
    report.add(expiry::measure(place, options).await?);
    if place.kind() == Kind::File {
        step("killed holders");
        report.add(death::measure(place, options).await?);
    }
    Ok(())
}
