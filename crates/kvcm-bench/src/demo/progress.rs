//! The bar while it runs.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on a terminal; elsewhere only the messages, as lines on stderr.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for `requests` requests, not begun.
    pub(crate) fn new(requests: u64) -> Self {
        let bar =
            ProgressBar::with_draw_target(Some(requests), ProgressDrawTarget::stderr_with_hz(10));
        let style =
            ProgressStyle::with_template("{elapsed:>4} [{bar:36}] {pos}/{len} requests  {msg}");
        // Only a bad template is refused; the plain bar does too.
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar }
    }

    /// Draws it also while nothing is done, so that a wait for a leader can be seen.
    pub(crate) fn begin(&self) {
        self.bar.reset();
        self.bar.enable_steady_tick(Duration::from_millis(200));
    }

    /// One request is done.
    pub(crate) fn done(&self) {
        self.bar.inc(1);
    }

    /// How many requests are done.
    pub(crate) fn count(&self) -> u64 {
        self.bar.position()
    }

    /// A short text beside the bar.
    pub(crate) fn state(&self, text: &str) {
        self.bar.set_message(text.to_owned());
    }

    /// A line that stays.
    pub(crate) fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
