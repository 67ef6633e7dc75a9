//! What the edge refused, by its cause.

use super::families::{Kind, Sink, Source};
use crate::http::{Cause, Refusals};

impl Source for Refusals {
    fn read(&self, sink: &mut dyn Sink) {
        let labels = Cause::ALL.map(|cause| [("cause", cause.as_str())]);
        let samples: Vec<(&[_], f64)> = labels
            .iter()
            .zip(Cause::ALL)
            .map(|(label, cause)| (&label[..], self.get(cause) as f64))
            .collect();
        let help = "Connections and requests that were refused or cut before a service saw them";
        sink.family(Kind::Counter, "refusals", help, &samples);
    }
}
