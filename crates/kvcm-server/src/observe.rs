//! Every call from outside: counted, timed, traced, and told in the logs that were asked for.

use std::{
    collections::HashMap,
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use http::{Request, Response, StatusCode};
use kvcm_clock::Clock;
use tower::{Layer, Service};

use crate::{
    config::LogSettings,
    http::{Outcome, Remote},
    metrics::{Ending, Method},
    traces::{CallSpan, Traces},
};

/// The logs about calls, by the targets of their lines.
pub(crate) mod target {
    /// Each call.
    pub(crate) const ACCESS: &str = "access";
    /// Calls that changed something, or were refused to.
    pub(crate) const AUDIT: &str = "audit";
    /// Calls that took long.
    pub(crate) const SLOW: &str = "slow";
}

/// Observes the calls of one listener.
#[derive(Clone, Debug)]
pub(crate) struct Observe {
    methods: Arc<HashMap<String, Arc<Method>>>,
    clock: Arc<dyn Clock>,
    counts: bool,
    access: bool,
    slow: Option<Duration>,
    traces: Traces,
}

impl Observe {
    /// Observes these calls, by the path of their requests; everything else passes unseen. Counts
    /// and times them if told so.
    pub(crate) fn new(
        methods: HashMap<String, Arc<Method>>,
        counts: bool,
        logs: &LogSettings,
        traces: Traces,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            methods: Arc::new(methods),
            clock,
            counts,
            access: logs.access,
            slow: logs.slow,
            traces,
        }
    }

    fn tell(
        &self,
        method: &Method,
        span: Option<CallSpan>,
        remote: Option<Remote>,
        response: &Response<Body>,
        took: Duration,
    ) {
        let outcome = response.extensions().get::<Outcome>();
        let ending = match outcome {
            Some(outcome) => Ending::Answered(outcome.code),
            None => refusal(response),
        };
        if self.counts {
            method.ended(ending, took);
        }
        let request_id = outcome.map_or("", |outcome| &outcome.request_id);
        if let Some(span) = span {
            span.end(ending, request_id);
        }
        let slow = self.slow.is_some_and(|limit| took >= limit);
        let subject = outcome.and_then(|outcome| outcome.subject.as_deref());
        if !self.access && !slow && subject.is_none() {
            return;
        }
        let line = Line {
            method,
            peer: remote.map_or_else(String::new, |remote| remote.0.to_string()),
            code: ending.name(),
            us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            request_id,
        };
        if self.access {
            line.access();
        }
        if slow {
            line.slow();
        }
        if let Some(subject) = subject {
            line.audit(subject);
        }
    }
}

/// How a request ended that never became a call.
fn refusal(response: &Response<Body>) -> Ending {
    let status = response.headers().get("grpc-status");
    let status = status.and_then(|status| status.to_str().ok()?.parse().ok());
    match (status, response.status()) {
        (Some(status), _) => Ending::Grpc(status),
        // A stream: its end comes later, if at all.
        (None, StatusCode::OK) => Ending::Answered(kvcm_proto::meta::ErrorCode::Ok as i32),
        (None, status) => Ending::Http(status.as_u16()),
    }
}

/// What the logs tell of a call.
struct Line<'a> {
    method: &'a Method,
    peer: String,
    code: String,
    us: u64,
    request_id: &'a str,
}

macro_rules! line {
    ($level:ident, $target:expr, $line:expr, $message:literal $(, $name:ident = $value:expr)*) => {
        tracing::$level!(
            target: $target,
            service = $line.method.service(),
            method = $line.method.name(),
            transport = $line.method.transport().as_str(),
            peer = $line.peer,
            code = $line.code,
            us = $line.us,
            request_id = $line.request_id,
            $($name = $value,)*
            $message
        )
    };
}

impl Line<'_> {
    fn access(&self) {
        line!(info, target::ACCESS, self, "call");
    }

    fn slow(&self) {
        line!(warn, target::SLOW, self, "slow call");
    }

    fn audit(&self, subject: &str) {
        line!(
            info,
            target::AUDIT,
            self,
            "operator call",
            subject = subject
        );
    }
}

impl<S> Layer<S> for Observe {
    type Service = Observed<S>;

    fn layer(&self, inner: S) -> Observed<S> {
        Observed {
            inner,
            observe: self.clone(),
        }
    }
}

/// A service whose calls are observed.
#[derive(Clone, Debug)]
pub(crate) struct Observed<S> {
    inner: S,
    observe: Observe,
}

impl<S> Service<Request<Body>> for Observed<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let method = self.observe.methods.get(request.uri().path()).cloned();
        let Some(method) = method else {
            return Box::pin(self.inner.call(request));
        };
        let observe = self.observe.clone();
        let remote = request.extensions().get::<Remote>().copied();
        let span = observe.traces.start(&method, request.headers());
        let begun = observe.clock.now();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await?;
            let took = observe.clock.now().since(begun);
            observe.tell(&method, span, remote, &response, took);
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use kvcm_clock::{Timer as _, TokioTimer, VirtualClock};
    use serde_json::Value;
    use tower::service_fn;

    use super::*;
    use crate::{
        config::{LogFormat, LogLevel},
        log_lines::LogLines,
        metrics::Counters,
    };

    /// The lines that one call logs that takes so long.
    async fn lines(access: bool, subject: Option<&str>, takes: Duration) -> Vec<Value> {
        let log = LogLines::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_writer(move || writer.clone())
            .finish();
        let _subscribed = tracing::subscriber::set_default(subscriber);
        let clock = VirtualClock::new();
        let settings = LogSettings {
            level: LogLevel::Info,
            format: LogFormat::Json,
            access,
            events: false,
            slow: Some(Duration::from_secs(1)),
        };
        let counters = Counters::new(1).unwrap();
        let observe = Observe::new(
            counters.calls.http("AdminService"),
            true,
            &settings,
            Traces::default(),
            Arc::new(clock),
        );
        let subject = subject.map(str::to_owned);
        let inner = service_fn(move |_: Request<Body>| {
            let outcome = Outcome {
                code: 9,
                request_id: "t_1".to_owned(),
                subject: subject.clone(),
            };
            async move {
                TokioTimer::new(clock)
                    .sleep_until(clock.now() + takes)
                    .await;
                let mut response = Response::new(Body::empty());
                response.extensions_mut().insert(outcome);
                Ok::<_, Infallible>(response)
            }
        });
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = "/api/leaderDemote".parse().unwrap();
        let remote = Remote(([127, 0, 0, 1], 7).into());
        request.extensions_mut().insert(remote);
        observe.layer(inner).call(request).await.unwrap();
        let lines = log.lines();
        let lines = lines.iter().map(|line| serde_json::from_str(line));
        lines.collect::<Result<_, _>>().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_told_when_it_was_slow_or_changed_something_or_all_are_wanted() {
        let (fast, slow) = (Duration::from_millis(999), Duration::from_secs(1));
        assert_eq!(lines(false, None, fast).await, [] as [Value; 0]);
        let told = lines(false, None, slow).await;
        assert_eq!(told.len(), 1, "{told:?}");
        let line = &told[0];
        assert_eq!(
            (&line["target"], &line["level"]),
            (&"slow".into(), &"WARN".into())
        );
        for (field, value) in [
            ("service", "AdminService"),
            ("method", "LeaderDemote"),
            ("transport", "http"),
            ("peer", "127.0.0.1:7"),
            ("code", "SERVER_NOT_LEADER"),
            ("request_id", "t_1"),
        ] {
            assert_eq!(line[field], value, "{field}");
        }
        assert_eq!(line["us"], 1_000_000);
        let told = lines(true, Some("name=\"x\""), slow).await;
        let targets: Vec<_> = told.iter().map(|line| &line["target"]).collect();
        assert_eq!(targets, ["access", "slow", "audit"]);
        assert_eq!(told[2]["subject"], "name=\"x\"");
    }
}
