//! Streams of WatchClusterInfo.

use super::families::{Sink, Source};
use crate::streams::Streams;

impl Source for Streams {
    fn read(&self, sink: &mut dyn Sink) {
        let help = "Open streams of WatchClusterInfo";
        sink.gauge("watch_streams", help, self.count() as f64);
        let help = "Streams of WatchClusterInfo that were refused, because there were too many";
        sink.counter("watch_streams_refused", help, self.refused());
    }
}
