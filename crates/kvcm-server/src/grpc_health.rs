//! `grpc.health.v1`: whether the process turns, could lead, leads.

use std::{sync::Arc, time::Duration};

use tonic_health::{
    ServingStatus,
    pb::health_server::{Health, HealthServer},
    server::{HealthReporter, HealthService, health_reporter},
};

use crate::cluster::Cluster;

/// Between two looks at what no change of the election tells: the end of a lease, a store.
const LOOK: Duration = Duration::from_millis(100);

type Serves = fn(&Cluster) -> bool;

/// The names that can be asked for, and what makes each of them SERVING.
const NAMES: [(&str, Serves); 3] = [
    ("", Cluster::is_alive),
    ("kvcm.ready", |cluster| cluster.ready().is_ok()),
    ("kvcm.leader", Cluster::leads),
];

/// The service, and what keeps it up to date until the election ends.
pub(crate) fn health(
    cluster: Arc<Cluster>,
) -> (HealthServer<impl Health>, impl Future<Output = ()> + Send) {
    let (reporter, _) = health_reporter();
    let server = HealthServer::new(HealthService::from_health_reporter(reporter.clone()));
    (server, follow(cluster, reporter))
}

async fn follow(cluster: Arc<Cluster>, mut reporter: HealthReporter) {
    let mut view = cluster.elector().watch();
    let mut told = [None; NAMES.len()];
    while !view.borrow_and_update().stopped {
        for ((name, serves), told) in NAMES.iter().zip(&mut told) {
            let status = match serves(&cluster) {
                true => ServingStatus::Serving,
                false => ServingStatus::NotServing,
            };
            if *told != Some(status) {
                reporter.set_service_status(*name, status).await;
                *told = Some(status);
            }
        }
        // An error means that the election is gone.
        if let Ok(Err(_)) = tokio::time::timeout(LOOK, view.changed()).await {
            break;
        }
    }
    // Ends the streams of those who watch, which the drain of the connections would wait for.
    for (name, _) in NAMES {
        reporter
            .set_service_status(name, ServingStatus::NotServing)
            .await;
        reporter.clear_service_status(name).await;
    }
}
