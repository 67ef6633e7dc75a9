//! The answer of GetMetrics.

use elector::Distribution;
use kvcm_proto::admin::{MetricValue, MetricsData, MetricsTag, metric_value::Value};

use super::{
    Metrics,
    families::{Kind, Labels, Sink},
};

impl Metrics {
    /// Everything that GetMetrics tells. Calls have the predecessor's names; a series is there
    /// from its first call on.
    pub(crate) fn protocol(&self) -> Vec<MetricsData> {
        let mut answer = Answer(Vec::new());
        for (name, (count, us)) in self.calls.totals() {
            let labels: Labels<'_> = &[("api_name", name)];
            answer.add(Kind::Counter, "service.query_counter", labels, count as f64);
            let mean = us as f64 / count.max(1) as f64;
            answer.add(Kind::Gauge, "service.query_rt_us", labels, mean);
        }
        self.families.read(&mut answer);
        answer.0
    }
}

struct Answer(Vec<MetricsData>);

impl Answer {
    fn add(&mut self, kind: Kind, name: &str, labels: Labels<'_>, value: f64) {
        let tags = labels.iter().map(|(key, value)| MetricsTag {
            tag_key: (*key).to_owned(),
            tag_value: (*value).to_owned(),
        });
        let value = match kind {
            Kind::Counter => Value::IntValue(value as i64),
            Kind::Gauge => Value::FloatValue(value),
        };
        self.0.push(MetricsData {
            metric_name: name.to_owned(),
            metric_value: Some(MetricValue { value: Some(value) }),
            metric_tags: tags.collect(),
        });
    }
}

impl Sink for Answer {
    fn family(&mut self, kind: Kind, name: &str, _help: &str, samples: &[(Labels<'_>, f64)]) {
        for (labels, value) in samples {
            self.add(kind, name, labels, *value);
        }
    }

    /// The protocol has no distributions: how many, and their mean.
    fn histograms(&mut self, name: &str, _help: &str, samples: &[(Labels<'_>, &Distribution)]) {
        for (labels, times) in samples {
            let count = times.count();
            self.add(
                Kind::Counter,
                &format!("{name}_count"),
                labels,
                count as f64,
            );
            let mean = times.sum.as_secs_f64() / count.max(1) as f64;
            self.add(Kind::Gauge, &format!("{name}_mean"), labels, mean);
        }
    }
}
