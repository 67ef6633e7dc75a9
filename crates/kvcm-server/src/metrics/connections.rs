//! Connections of each listener.

use std::sync::Arc;

use parking_lot::Mutex;

use super::families::{Kind, Sink, Source};
use crate::http::ConnectionCounters;

/// Connections of each listener.
#[derive(Debug, Default)]
pub(crate) struct Connections(Mutex<Vec<(&'static str, Arc<ConnectionCounters>)>>);

impl Connections {
    /// The counters of a listener that is called `name`.
    pub(crate) fn listener(&self, name: &'static str) -> Arc<ConnectionCounters> {
        let counters = Arc::new(ConnectionCounters::default());
        self.0.lock().push((name, counters.clone()));
        counters
    }
}

impl Source for Connections {
    fn read(&self, sink: &mut dyn Sink) {
        let listeners = self.0.lock();
        let labels: Vec<_> = listeners
            .iter()
            .map(|(name, _)| [("listener", *name)])
            .collect();
        let mut family = |kind, name, help, value: fn(&ConnectionCounters) -> u64| {
            let values = listeners.iter().map(|(_, counters)| value(counters) as f64);
            let labels = labels.iter().map(|label| &label[..]);
            let samples: Vec<_> = labels.zip(values).collect();
            sink.family(kind, name, help, &samples);
        };
        let open = "Open connections";
        family(Kind::Gauge, "connections", open, ConnectionCounters::open);
        let accepted = "Connections that were served, or still are";
        family(
            Kind::Counter,
            "connections_accepted",
            accepted,
            ConnectionCounters::accepted,
        );
        let refused = "Connections that were closed at once, because there were too many";
        family(
            Kind::Counter,
            "connections_refused",
            refused,
            ConnectionCounters::refused,
        );
    }
}
