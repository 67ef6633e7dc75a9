//! What a call costs the counters, and what the sinks make of a family.

use std::time::Duration;

use kvcm_proto::meta::ErrorCode;
use prometheus_client::{encoding::prometheus_text, registry::Registry};

use super::{
    calls::{Calls, Ending},
    families::{Families, Kind, Sink, Source},
};

fn page(registry: &Registry) -> String {
    let mut page = String::new();
    prometheus_text::encode(&mut page, registry).unwrap();
    page
}

#[test]
fn a_call_is_counted_by_service_transport_and_code() {
    let calls = Calls::new().unwrap();
    let mut registry = Registry::with_prefix("kvcm");
    calls.register(&mut registry);
    let grpc = calls.grpc();
    let by_path = &grpc["/kv_cache_manager.proto.meta.MetaService/RegisterInstance"];
    by_path.ended(
        Ending::Answered(ErrorCode::Ok as i32),
        Duration::from_millis(3),
    );
    by_path.ended(
        Ending::Answered(ErrorCode::ServerNotLeader as i32),
        Duration::from_millis(3),
    );
    by_path.ended(Ending::Grpc(3), Duration::from_millis(3));
    let http = calls.http("AdminService");
    http["/api/checkHealth"].ended(Ending::Answered(77), Duration::ZERO);
    http["/api/checkHealth"].ended(Ending::Http(400), Duration::ZERO);
    let page = page(&registry);
    let meta = r#"service="MetaService",method="RegisterInstance",transport="grpc""#;
    let admin = r#"service="AdminService",method="CheckHealth",transport="http""#;
    for line in [
        format!("kvcm_calls_total{{{meta},code=\"OK\"}} 1"),
        format!("kvcm_calls_total{{{meta},code=\"SERVER_NOT_LEADER\"}} 1"),
        format!("kvcm_calls_total{{{meta},code=\"GRPC_3\"}} 1"),
        format!("kvcm_calls_total{{{admin},code=\"OK\"}} 0"),
        format!("kvcm_calls_total{{{admin},code=\"CODE_77\"}} 1"),
        format!("kvcm_calls_total{{{admin},code=\"HTTP_400\"}} 1"),
        format!("kvcm_call_duration_seconds_bucket{{{meta},le=\"0.0025\"}} 0"),
        format!("kvcm_call_duration_seconds_bucket{{{meta},le=\"0.005\"}} 3"),
        format!("kvcm_call_duration_seconds_count{{{meta}}} 3"),
    ] {
        assert!(page.lines().any(|have| have == line), "{line}\n{page}");
    }
    assert!(
        !http.contains_key("/api/startWriteCache"),
        "a call of another service"
    );
    assert_eq!(calls.totals()["RegisterInstance"], (3, 9_000));
}

#[derive(Debug)]
struct Odd;

impl Source for Odd {
    fn read(&self, sink: &mut dyn Sink) {
        let samples: [(&[_], f64); 2] =
            [(&[("name", "a \"b\"\\\nc")], 0.5), (&[("name", "d")], 2.0)];
        sink.family(Kind::Gauge, "odd", "A help\nof two lines", &samples);
        sink.family(Kind::Gauge, "nothing", "No samples", &[]);
        sink.counter("odd_things", "Things", 7);
    }
}

#[test]
fn families_are_escaped_and_those_without_samples_left_out() {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families::new(vec![Box::new(Odd)])));
    let expected = "# HELP odd A help\\nof two lines\n# TYPE odd gauge\n\
                    odd{name=\"a \\\"b\\\"\\\\\\nc\"} 0.5\nodd{name=\"d\"} 2\n\
                    # HELP odd_things_total Things\n# TYPE odd_things_total counter\n\
                    odd_things_total 7\n";
    let page = page(&registry);
    assert_eq!(page.replace("} 2.0", "} 2").replace(" 7.0", " 7"), expected);
}
