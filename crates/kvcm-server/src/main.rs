//! The `kvcm-server` binary.

use std::{collections::BTreeMap, fmt::Display, io::Write as _, process::ExitCode};

use clap::Parser as _;
use kvcm_server::{
    app::App,
    cli::{Cli, Task},
    config::{Config, Loaded, Mistakes, reference},
    daemon::{self, Readiness},
    http::Listeners,
    logging,
    signals::StopSignals,
};

/// Exit code of a configuration that cannot be used.
const MISCONFIGURED: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.task() == Task::PrintReference {
        return print(&reference());
    }
    let mut readiness = None;
    if cli.is_daemon() {
        match Readiness::of_daemon() {
            Ok(Some(told)) => readiness = Some(told),
            Ok(None) => return daemon::start().unwrap_or_else(|error| failed(&error)),
            Err(error) => return failed(&error),
        }
    }
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let loaded = match Config::load(&cli.sources(), &environment) {
        Ok(loaded) => loaded,
        Err(mistakes) => return misconfigured(&mistakes),
    };
    match cli.task() {
        Task::PrintConfig => print(&effective(&loaded)),
        Task::CheckConfig => {
            for warning in loaded.warnings.iter().chain(&loaded.notes) {
                say(warning);
            }
            ExitCode::SUCCESS
        }
        Task::Run | Task::PrintReference => serve(&cli, loaded, readiness),
    }
}

fn serve(cli: &Cli, loaded: Loaded, readiness: Option<Readiness>) -> ExitCode {
    let log = match logging::init(loaded.config.log) {
        Ok(log) => log,
        Err(error) => return failed(&error),
    };
    if cfg!(feature = "unsafe-no-fencing") {
        tracing::error!("built with unsafe-no-fencing: it corrupts data, and serves only tests");
    }
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    for note in loaded.notes.iter().chain(&cli.notes()) {
        tracing::info!("{note}");
    }
    let listeners = match Listeners::bind(&loaded) {
        Ok(listeners) => listeners,
        Err(mistakes) => return misconfigured(&mistakes),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let result = runtime.block_on(async {
        let stop = StopSignals::new()?;
        let serving = || readiness.map(Readiness::tell).unwrap_or_default();
        App::build(loaded.config, loaded.prepared, listeners)?
            .with_log(log)
            .run(stop.first(), serving)
            .await
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&format!("{error:#}")),
    }
}

fn misconfigured(mistakes: &Mistakes) -> ExitCode {
    say(mistakes);
    ExitCode::from(MISCONFIGURED)
}

fn failed(error: &dyn Display) -> ExitCode {
    say(&format!("kvcm-server: {error}"));
    ExitCode::FAILURE
}

/// Each key with its value and where it comes from.
fn effective(loaded: &Loaded) -> String {
    let lines = loaded.effective.iter();
    lines
        .map(|setting| format!("{}={} # {}\n", setting.key, setting.value, setting.origin))
        .collect()
}

/// A reader that goes away early is no failure of ours.
fn print(text: &str) -> ExitCode {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

#[expect(
    clippy::print_stderr,
    reason = "there is no logger yet, or the process ends here"
)]
fn say(text: &(impl Display + ?Sized)) {
    eprintln!("{text}");
}
