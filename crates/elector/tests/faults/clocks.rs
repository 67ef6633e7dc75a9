//! Clocks that stop, jump, or are those of somebody else.

use std::{fs, path::Path};

use elector::Role;
use kvcm_clock::Clock as _;
use tokio::time::sleep;

use crate::{
    nodes::Cluster,
    stage::{LEASE, MS},
};

/// Case E15, fault 20 of the predecessor: a machine that slept through its lease has a shut gate
/// the moment it wakes, before any timer has fired or any task has run.
#[tokio::test(start_paused = true)]
async fn a_machine_that_slept_through_its_lease_wakes_up_with_a_shut_gate() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let admission = a.elector.gate().admit().unwrap();
    a.clock.suspend(LEASE / 2);
    admission.confirm().unwrap();
    a.clock.suspend(LEASE);
    assert!(admission.confirm().is_err(), "work of before the sleep");
    assert!(!a.serves(), "work of after it");
    assert_eq!(a.elector.gate().open_epoch(), None);
    let epoch = a.epoch();
    drop(admission);
    sleep(MS(300)).await;
    a.reaches(Role::Leader).await;
    assert!(a.epoch() > epoch, "the reign of before the sleep goes on");
}

/// Fault 8 of the predecessor, case E15: nothing in the elector reads the wall clock, which is set
/// back and forth, nor `Instant`, which stops in suspend. Only what is kept for people bears the
/// time of the wall clock.
#[test]
fn no_decision_reads_a_clock_that_is_set_or_that_stops() {
    let mut files = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut sources = 0;
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(
                fs::read_dir(path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        sources += 1;
        for clock in ["SystemTime", "Instant", "wall_clock"] {
            let for_people = clock == "wall_clock" && path.ends_with("driver/records.rs");
            assert!(
                for_people || !text.contains(clock),
                "{} uses {clock}",
                path.display()
            );
        }
    }
    assert!(sources > 10);
}

/// Fault 9 of the predecessor, case E69: what the backend tells of a lease is how long it lasts,
/// so a process that starts again under its old name waits for its former self, and leads once.
#[tokio::test(start_paused = true)]
async fn a_restart_within_the_own_lease_leads_once_and_does_not_flap() {
    let cluster = Cluster::new();
    let first = cluster.node("a");
    first.reaches(Role::Leader).await;
    let epoch = first.epoch();
    sleep(MS(450)).await;
    first.kill();
    let killed = cluster.clock.now();
    let second = cluster.node("a");
    second.reaches(Role::Leader).await;
    let gap = cluster.clock.now().since(killed);
    assert!(gap < LEASE + MS(10), "{gap:?}");
    assert!(second.epoch() > epoch);
    sleep(5 * LEASE).await;
    assert_eq!(second.log.lines(), ["promote"]);
}
