//! Logging: text or JSON lines on standard error.

use std::io::IsTerminal;

use tracing::Subscriber;
use tracing_subscriber::{
    EnvFilter, Layer, Registry, fmt::MakeWriter, layer::SubscriberExt, reload,
    util::SubscriberInitExt, util::TryInitError,
};

use crate::{
    config::{LogFormat, LogLevel, LogSettings},
    observe::target,
};

/// Changes the log level of a running server.
#[derive(Debug, Clone)]
pub struct LogHandle {
    events: bool,
    filter: reload::Handle<EnvFilter, Registry>,
}

/// Sends the logs of this process to standard error.
///
/// # Errors
/// When the process has a logger already.
pub fn init(settings: LogSettings) -> Result<LogHandle, TryInitError> {
    let colours = std::io::stderr().is_terminal();
    let (subscriber, handle) = subscriber(settings, std::io::stderr, colours);
    subscriber.try_init()?;
    Ok(handle)
}

impl LogHandle {
    /// Logs from `level` on. Does nothing when the logger is gone.
    pub fn set_level(&self, level: LogLevel) {
        let _ = self.filter.reload(filter(level, self.events));
    }
}

fn subscriber<W>(
    settings: LogSettings,
    writer: W,
    colours: bool,
) -> (impl Subscriber + Send + Sync, LogHandle)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(filter(settings.level, settings.events));
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    let lines = match settings.format {
        LogFormat::Text => lines.with_ansi(colours).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let subscriber = Registry::default().with(filter).with(lines);
    let handle = LogHandle {
        events: settings.events,
        filter: handle,
    };
    (subscriber, handle)
}

/// Our own crates at `level`; the libraries that chat at info or debug, one step quieter at least.
fn filter(level: LogLevel, events: bool) -> EnvFilter {
    let (own, libraries) = match level {
        LogLevel::Error => ("error", "error"),
        LogLevel::Warn => ("warn", "warn"),
        LogLevel::Info => ("info", "warn"),
        LogLevel::Debug => ("debug", "info"),
    };
    let chatty = ["h2", "hyper", "hyper_util", "tonic", "tower", "redis"];
    let chatty = chatty.map(|name| format!(",{name}={libraries}")).concat();
    // Logs that were asked for by a key of their own do not depend on the level.
    let asked = [target::ACCESS, target::AUDIT, target::SLOW];
    let asked = asked.map(|name| format!(",{name}=info")).concat();
    let events = if events { "info" } else { "off" };
    let events = format!(",{}={events}", kvcm_cache::EVENTS);
    EnvFilter::new(format!("{own}{chatty}{asked}{events}"))
}

#[cfg(test)]
mod tests {
    use tracing::{debug, info, warn};

    use super::*;
    use crate::log_lines::LogLines;

    /// The lines that `work` logs.
    fn logged(level: LogLevel, format: LogFormat, work: impl FnOnce(&LogHandle)) -> Vec<String> {
        let log = LogLines::default();
        let writer = log.clone();
        let settings = LogSettings {
            level,
            format,
            access: false,
            events: false,
            slow: None,
        };
        let (subscriber, handle) = subscriber(settings, move || writer.clone(), false);
        tracing::subscriber::with_default(subscriber, || work(&handle));
        log.lines()
    }

    #[test]
    fn json_lines_are_objects_with_their_fields() {
        let lines = logged(LogLevel::Info, LogFormat::Json, |_| {
            info!(epoch = 7, "leading");
            debug!("hidden");
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
        let line: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(line["message"], "leading");
        assert_eq!(line["epoch"], 7);
        assert_eq!(line["level"], "INFO");
    }

    #[test]
    fn text_lines_have_no_colours_in_a_file() {
        let lines = logged(LogLevel::Info, LogFormat::Text, |_| {
            info!(epoch = 7, "leading")
        });
        assert!(lines[0].ends_with("leading epoch=7"), "{lines:?}");
        assert!(!lines[0].contains('\u{1b}'), "{lines:?}");
    }

    #[test]
    fn libraries_are_quieter_than_we_are() {
        let lines = logged(LogLevel::Info, LogFormat::Text, |_| {
            info!(target: "h2::codec", "frame");
            warn!(target: "h2::codec", "broken frame");
            info!(target: "kvcm_server", "ours");
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
    }

    #[test]
    fn the_level_changes_while_running() {
        let lines = logged(LogLevel::Warn, LogFormat::Text, |handle| {
            info!("hidden");
            handle.set_level(LogLevel::Debug);
            debug!("seen");
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("seen"));
    }
}
