//! Metrics that are read from their owners when somebody asks.

use std::{fmt, time::Duration};

use elector::Distribution;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

/// Names and values that tell the samples of a family apart.
pub(super) type Labels<'a> = &'a [(&'static str, &'a str)];

/// What the samples of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only rises while the process lives.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// Takes families of samples.
pub(super) trait Sink {
    /// Takes one family: its name without prefix and `_total`, what it means, and its samples.
    fn family(&mut self, kind: Kind, name: &str, help: &str, samples: &[(Labels<'_>, f64)]);

    /// Takes one family of distributions.
    fn histograms(&mut self, name: &str, help: &str, samples: &[(Labels<'_>, &Distribution)]);

    /// A counter without labels.
    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(Kind::Counter, name, help, &[(&[], value as f64)]);
    }

    /// A gauge without labels.
    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family(Kind::Gauge, name, help, &[(&[], value)]);
    }
}

/// Hands a family to the sink whose labels have an owner.
pub(super) fn family<'a>(
    sink: &mut dyn Sink,
    kind: Kind,
    name: &str,
    help: &str,
    samples: &[(impl AsRef<[(&'static str, &'a str)]>, f64)],
) {
    let samples = samples
        .iter()
        .map(|(labels, value)| (labels.as_ref(), *value));
    sink.family(kind, name, help, &samples.collect::<Vec<_>>());
}

/// Owner of things that can be told as families.
pub(super) trait Source: fmt::Debug + Send + Sync + 'static {
    /// Tells them, as they are now.
    fn read(&self, sink: &mut dyn Sink);
}

impl<T: Source> Source for std::sync::Arc<T> {
    fn read(&self, sink: &mut dyn Sink) {
        (**self).read(sink);
    }
}

/// All sources of a node.
#[derive(Debug)]
pub(super) struct Families(Vec<Box<dyn Source>>);

impl Families {
    pub(super) fn new(sources: Vec<Box<dyn Source>>) -> Self {
        Self(sources)
    }

    /// Tells all of them.
    pub(super) fn read(&self, sink: &mut dyn Sink) {
        for source in &self.0 {
            source.read(sink);
        }
    }
}

impl Collector for Families {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page {
            encoder,
            result: Ok(()),
        };
        self.read(&mut page);
        page.result
    }
}

/// Writes families onto a page for Prometheus.
struct Page<'a> {
    encoder: DescriptorEncoder<'a>,
    result: fmt::Result,
}

impl Page<'_> {
    fn write(
        &mut self,
        kind: Kind,
        name: &str,
        help: &str,
        samples: &[(Labels<'_>, f64)],
    ) -> fmt::Result {
        let metric = match kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
        };
        let mut family = self.encoder.encode_descriptor(name, help, None, metric)?;
        for (labels, value) in samples {
            let sample = family.encode_family(labels)?;
            match kind {
                Kind::Counter => ConstCounter::new(*value).encode(sample)?,
                Kind::Gauge => ConstGauge::new(*value).encode(sample)?,
            }
        }
        Ok(())
    }

    fn write_histograms(
        &mut self,
        name: &str,
        help: &str,
        samples: &[(Labels<'_>, &Distribution)],
    ) -> fmt::Result {
        let kind = MetricType::Histogram;
        let mut family = self.encoder.encode_descriptor(name, help, None, kind)?;
        for (labels, times) in samples {
            let bounds = elector::BOUNDS.iter().map(Duration::as_secs_f64);
            let bounds = bounds.chain([f64::INFINITY]);
            let buckets: Vec<_> = bounds.zip(times.buckets).collect();
            let sum = times.sum.as_secs_f64();
            let mut sample = family.encode_family(labels)?;
            sample.encode_histogram::<NoLabelSet>(sum, times.count(), &buckets, None)?;
        }
        Ok(())
    }
}

impl Sink for Page<'_> {
    fn family(&mut self, kind: Kind, name: &str, help: &str, samples: &[(Labels<'_>, f64)]) {
        // A family without samples is a line about nothing.
        if self.result.is_ok() && !samples.is_empty() {
            self.result = self.write(kind, name, help, samples);
        }
    }

    fn histograms(&mut self, name: &str, help: &str, samples: &[(Labels<'_>, &Distribution)]) {
        if self.result.is_ok() {
            self.result = self.write_histograms(name, help, samples);
        }
    }
}
