//! Who is who.

use elector::Role;
use tokio::time::sleep;

use crate::{
    nodes::{Cluster, Way},
    stage::{LEASE, MS},
};

/// Fault 10 of the predecessor, case E24: two processes with one name, or names that begin alike,
/// are two nodes.
#[tokio::test(start_paused = true)]
async fn processes_with_one_name_never_lead_together() {
    for (first, second) in [("a", "a"), ("n1", "n10"), ("n10", "n1")] {
        let cluster = Cluster::new();
        let nodes = [cluster.node(first), cluster.node(second)];
        let mut led = [0, 0];
        for turn in 0..500 {
            // Each is cut off now and then, so that the lock changes hands.
            let cut = [turn % 150 > 110, turn % 210 > 160];
            for (node, cut) in nodes.iter().zip(cut) {
                node.link
                    .set(if cut { Way::LosesAnswers } else { Way::Fine });
            }
            sleep(MS(20)).await;
            let serving = [0, 1].map(|index| nodes[index].serves());
            assert_ne!(serving, [true, true], "{first} and {second} at turn {turn}");
            for (led, serves) in led.iter_mut().zip(serving) {
                *led += u32::from(serves);
            }
        }
        assert!(led[0] + led[1] > 250, "{led:?}");
    }
}

/// Fault 10 of the predecessor: a node does not take the lock of another process of its name for
/// its own.
#[tokio::test(start_paused = true)]
async fn a_lock_of_the_same_name_is_held_by_another() {
    let cluster = Cluster::new();
    let first = cluster.node("a");
    first.reaches(Role::Leader).await;
    let second = cluster.node("a");
    sleep(5 * LEASE).await;
    assert!(first.serves());
    assert_eq!(second.role(), Role::Follower);
    assert_eq!(second.log.lines(), [""; 0]);
    let seen = second.elector.view().leader.clone().unwrap();
    assert_eq!(Some(seen.epoch), first.epoch());
}
