//! How often each call was made, how it went, and how long it took.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::Context as _;
use kvcm_proto::{DESCRIPTORS, meta::ErrorCode};
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder},
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use prost::Message as _;
use prost_types::FileDescriptorSet;

use super::latency::Latency;

/// Result codes of the protocol are below it.
const CODES: usize = 32;

/// How a call came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Transport {
    /// gRPC.
    Grpc,
    /// JSON over HTTP.
    Http,
}

impl Transport {
    /// The word for logs and labels.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http",
        }
    }
}

impl EncodeLabelValue for Transport {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.as_str().encode(encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MethodLabels {
    service: String,
    method: String,
    transport: Transport,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabels {
    service: String,
    method: String,
    transport: Transport,
    code: String,
}

/// All calls of the protocol.
#[derive(Debug)]
pub(crate) struct Calls {
    methods: Vec<Arc<Method>>,
    counts: Family<CodeLabels, Counter>,
    latencies: Family<MethodLabels, Latency>,
}

/// A call of the protocol over one of its transports.
#[derive(Debug)]
pub(crate) struct Method {
    labels: MethodLabels,
    package: String,
    counts: Family<CodeLabels, Counter>,
    latencies: Family<MethodLabels, Latency>,
    /// By code. What has not happened yet is not on the page, or it would be thousands of lines;
    /// the first time costs a look into the family.
    by_code: [OnceLock<Counter>; CODES],
    latency: OnceLock<Latency>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With an answer whose header has this code.
    Answered(i32),
    /// gRPC refused it with this status.
    Grpc(i32),
    /// HTTP refused it with this status.
    Http(u16),
}

impl Ending {
    /// The word for logs and labels.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Answered(code) => ErrorCode::try_from(code).map_or_else(
                |_| format!("CODE_{code}"),
                |code| code.as_str_name().to_owned(),
            ),
            Self::Grpc(status) => format!("GRPC_{status}"),
            Self::Http(status) => format!("HTTP_{status}"),
        }
    }
}

impl Calls {
    /// Every call that the protocol has.
    ///
    /// # Errors
    /// When the descriptors of the protocol cannot be read.
    pub(super) fn new() -> anyhow::Result<Self> {
        let files = FileDescriptorSet::decode(DESCRIPTORS);
        let files = files.context("the descriptors of the protocol are damaged")?;
        let mut calls = Self {
            methods: Vec::new(),
            counts: Family::default(),
            latencies: Family::default(),
        };
        for file in &files.file {
            for service in &file.service {
                for method in &service.method {
                    for transport in [Transport::Grpc, Transport::Http] {
                        calls.add(
                            file.package(),
                            MethodLabels {
                                service: service.name().to_owned(),
                                method: method.name().to_owned(),
                                transport,
                            },
                        );
                    }
                }
            }
        }
        Ok(calls)
    }

    fn add(&mut self, package: &str, labels: MethodLabels) {
        let method = Method {
            labels,
            package: package.to_owned(),
            counts: self.counts.clone(),
            latencies: self.latencies.clone(),
            by_code: Default::default(),
            latency: OnceLock::new(),
        };
        // A series that starts at its first call hides that call from `rate`.
        method.count(Ending::Answered(ErrorCode::Ok as i32), 0);
        self.methods.push(Arc::new(method));
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "calls",
            "Calls that were answered, by the code of the answer",
            self.counts.clone(),
        );
        registry.register(
            "call_duration_seconds",
            "Time from the head of a request to the head of its answer",
            self.latencies.clone(),
        );
    }

    /// The calls over gRPC, by path.
    pub(crate) fn grpc(&self) -> HashMap<String, Arc<Method>> {
        let paths = self.of(Transport::Grpc).map(|method| {
            let MethodLabels {
                service,
                method: name,
                ..
            } = &method.labels;
            (
                format!("/{}.{service}/{name}", method.package),
                method.clone(),
            )
        });
        paths.collect()
    }

    /// The calls of a service over HTTP, by path.
    pub(crate) fn http(&self, service: &str) -> HashMap<String, Arc<Method>> {
        let calls = self.of(Transport::Http);
        let calls = calls.filter(|method| method.labels.service == service);
        let paths = calls.map(|method| (crate::http::path(&method.labels.method), method.clone()));
        paths.collect()
    }

    fn of(&self, transport: Transport) -> impl Iterator<Item = &Arc<Method>> {
        let is_it = move |method: &&Arc<Method>| method.labels.transport == transport;
        self.methods.iter().filter(is_it)
    }

    /// By name of the call over both transports: how many, and their time in microseconds. Only
    /// calls that were made.
    pub(super) fn totals(&self) -> BTreeMap<&str, (u64, u64)> {
        let mut totals = BTreeMap::<_, (u64, u64)>::new();
        for method in &self.methods {
            let Some(latency) = method.latency.get() else {
                continue;
            };
            let (count, us) = latency.total();
            let total = totals.entry(&*method.labels.method).or_default();
            *total = (total.0 + count, total.1 + us);
        }
        totals
    }
}

impl Method {
    /// Counts a call that has ended.
    pub(crate) fn ended(&self, ending: Ending, took: Duration) {
        self.count(ending, 1);
        let family = || self.latencies.get_or_create_owned(&self.labels);
        self.latency.get_or_init(family).observe(took);
    }

    fn count(&self, ending: Ending, calls: u64) {
        let family = || {
            let MethodLabels {
                service,
                method,
                transport,
            } = self.labels.clone();
            let code = ending.name();
            let labels = CodeLabels {
                service,
                method,
                transport,
                code,
            };
            self.counts.get_or_create_owned(&labels)
        };
        let slot = match ending {
            Ending::Answered(code) => usize::try_from(code).ok(),
            Ending::Grpc(_) | Ending::Http(_) => None,
        };
        match slot.and_then(|code| self.by_code.get(code)) {
            Some(slot) => slot.get_or_init(family).inc_by(calls),
            None => family().inc_by(calls),
        };
    }

    /// The service, as in the protocol.
    pub(crate) fn service(&self) -> &str {
        &self.labels.service
    }

    /// The call, as in the protocol.
    pub(crate) fn name(&self) -> &str {
        &self.labels.method
    }

    /// How it comes in.
    pub(crate) const fn transport(&self) -> Transport {
        self.labels.transport
    }
}
