//! Who is given the first chance, and who stays out: rules 8, 10 and 12, and the operator's pause.

use super::{transfer::peer, *};
use crate::{PauseRefused, Peer, Standby};

fn peers(list: &[Peer]) -> Input {
    Input::Peers(list.to_vec())
}

fn free(bench: &mut Bench) -> Vec<Command> {
    bench.step(Input::HolderAnswered { result: Ok(None) })
}

fn pause() -> Input {
    Input::Pause { id: 4 }
}

fn pause_reply(result: Result<(), PauseRefused>) -> Command {
    Command::ReplyPause { id: 4, result }
}

#[test]
fn rule_8_priority_and_name_order_the_contenders() {
    let ends_after = |list: &[Peer], priority| {
        let mut bench = Bench::new();
        bench.core.settings.priority = priority;
        bench.core.settings.stagger = MS(7);
        bench.step(Input::Tick);
        bench.step(peers(list));
        bench.held_by("other", 7, MS(40));
        bench.now.until(bench.wake)
    };
    let with = |name: &str, priority| Peer {
        priority,
        ..peer(name)
    };
    // Nothing is known: the setting.
    assert_eq!(ends_after(&[], 0), MS(41 + 7));
    // Of equal priority the name decides.
    assert_eq!(ends_after(&[with("zeta", 0)], 0), MS(41));
    assert_eq!(ends_after(&[with("abel", 0)], 0), MS(46));
    assert_eq!(ends_after(&[with("abel", 0)], 1), MS(41));
    // Never more than two steps, and only those that could take the lock count.
    let crowd = ["a", "b", "c", "d"].map(|name| with(name, 9));
    assert_eq!(ends_after(&crowd, 0), MS(51));
    let mut dead = with("a", 9);
    dead.alive = false;
    assert_eq!(ends_after(&[dead], 0), MS(41));
}

#[test]
fn rule_8_after_a_release_only_a_higher_priority_is_waited_for() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.step(peers(&[peer("abel")]));
    bench.held_by("other", 7, MS(900));
    assert_eq!(bench.step(Input::Hint(Hint::Changed)), [try_lock(7)]);
    bench.held_by("other", 7, MS(900));
    let high = Peer {
        priority: 1,
        ..peer("abel")
    };
    bench.step(peers(&[high]));
    assert_eq!(bench.step(Input::Hint(Hint::Changed)), []);
    assert_eq!(bench.wake, bench.now + MS(5));
}

#[test]
fn a_node_that_is_not_ready_gives_a_ready_one_the_first_chance_but_not_for_ever() {
    let mut bench = Bench::new();
    bench.core.on_ready(bench.now, false);
    bench.core.on_peers(bench.now, vec![peer("other")]);
    assert_eq!(bench.step(Input::Tick), [Command::Observe]);
    let standby = Standby::NotReady { until: None };
    assert_eq!(bench.core.view().standby, Some(standby));
    assert_eq!(free(&mut bench), []);
    let until = Some(bench.now + MS(210));
    assert_eq!(bench.core.view().standby, Some(Standby::NotReady { until }));
    for _ in 0..2 {
        assert_eq!(bench.at(MS(100), Input::Tick), [Command::Observe]);
        free(&mut bench);
    }
    // Nobody came. Its stores are asked, and then it tries.
    assert_eq!(bench.at(MS(10), Input::Tick), [Command::Probe]);
    let probed = Input::Probed { result: Ok(()) };
    assert_eq!(bench.step(probed), [try_lock(0)]);
    assert_eq!(bench.acquired(7, released())[..].len(), 1);
}

#[test]
fn a_lone_node_that_is_not_ready_tries_once_its_stores_answer() {
    let mut bench = Bench::new();
    bench.core.on_ready(bench.now, false);
    assert_eq!(bench.step(Input::Tick), [Command::Probe]);
    let result = Err("no disk".to_owned());
    assert_eq!(bench.step(Input::Probed { result }), [Command::Observe]);
    free(&mut bench);
    assert_eq!(bench.at(MS(1000), Input::Tick), [Command::Probe]);
    let probed = Input::Probed { result: Ok(()) };
    assert_eq!(bench.step(probed), [try_lock(0)]);
}

#[test]
fn a_holder_that_was_seen_begins_the_wait_of_a_node_that_is_not_ready_anew() {
    let mut bench = Bench::new();
    bench.core.on_ready(bench.now, false);
    bench.core.on_peers(bench.now, vec![peer("other")]);
    bench.step(Input::Tick);
    free(&mut bench);
    bench.at(MS(100), Input::Tick);
    let holder = Holder {
        owner: owner("other"),
        epoch: epoch(8),
        info: String::new(),
        remaining: MS(50),
    };
    bench.step(Input::HolderAnswered {
        result: Ok(Some(holder)),
    });
    bench.at(MS(200), Input::Tick);
    free(&mut bench);
    assert_eq!(bench.at(MS(100), Input::Tick), [Command::Observe]);
    // When it becomes ready it tries at once.
    free(&mut bench);
    assert_eq!(bench.step(Input::Ready(true)), [try_lock(8)]);
}

#[test]
fn a_view_of_the_others_that_is_late_or_wrong_costs_a_bounded_time() {
    // The one that is told to be ready is dead.
    let mut bench = Bench::new();
    bench.core.on_ready(bench.now, false);
    bench.core.on_peers(bench.now, vec![peer("other")]);
    bench.step(Input::Tick);
    free(&mut bench);
    assert_eq!(bench.at(MS(210), Input::Tick), [Command::Probe]);
    // What was told long ago counts for nothing.
    let mut bench = Bench::new();
    bench.core.on_ready(bench.now, false);
    bench.core.on_peers(bench.now, vec![peer("other")]);
    assert_eq!(bench.at(MS(5000), Input::Tick), [Command::Probe]);
}

#[test]
fn a_paused_node_never_tries_but_learns_who_leads() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.held_by("other", 7, MS(40));
    assert_eq!(bench.step(pause()), [pause_reply(Ok(()))]);
    assert_eq!(bench.at(MS(41), Input::Tick), [Command::Observe]);
    assert!(bench.core.view().paused);
    assert_eq!(bench.core.view().standby, Some(Standby::Paused));
    for _ in 0..100 {
        free(&mut bench);
        assert_eq!(bench.at(MS(100), Input::Tick), [Command::Observe]);
    }
    free(&mut bench);
    assert_eq!(bench.step(Input::Resume), [try_lock(7)]);
    assert!(!bench.core.view().paused);
}

#[test]
fn a_lock_that_a_paused_node_gets_all_the_same_is_given_back() {
    let mut bench = Bench::new();
    assert_eq!(bench.step(Input::Tick), [try_lock(0)]);
    bench.step(pause());
    let commands = bench.acquired(7, released());
    assert_eq!(commands[0], unlock(7));
    assert_eq!(bench.core.view().epoch, None);
}

#[test]
fn a_leader_is_not_paused_unless_it_steps_down() {
    let mut bench = Bench::leading(7);
    let refused = PauseRefused::Leads(epoch(7));
    assert_eq!(bench.step(pause()), [pause_reply(Err(refused))]);
    // Nor is one that may yet open its gate again.
    bench.step(peers(&[peer("next")]));
    bench.step(Input::Transfer {
        id: 9,
        to: "next".parse().unwrap(),
        expected: None,
    });
    assert_eq!(bench.step(pause()), [pause_reply(Err(refused))]);
    bench.step(drained(7));
    assert_eq!(bench.step(pause()), [pause_reply(Ok(()))]);

    let demote_and_pause = |expected| Input::Demote {
        id: 1,
        expected,
        pause: true,
    };
    let mut bench = Bench::leading(7);
    bench.step(demote_and_pause(Some(epoch(6))));
    assert!(!bench.core.view().paused);
    bench.step(demote_and_pause(Some(epoch(7))));
    assert!(bench.core.view().paused);
    assert_eq!(bench.step(drained(7)), [shut(7), unlock(7)]);
    bench.unlocked(7);
    bench.step(Input::Demoted { epoch: epoch(7) });
    free(&mut bench);
    assert_eq!(bench.at(MS(10_000), Input::Tick), [Command::Observe]);
}

/// Wins the lock and loses it by its own fault.
fn flap(bench: &mut Bench, value: u64) {
    bench.acquired(value, released());
    let result = Err(PromoteError::Failed("no disk".to_owned()));
    let epoch = epoch(value);
    bench.step(Input::Promoted { epoch, result });
    bench.unlocked(value);
    bench.step(Input::Demoted { epoch });
    free(bench);
}

fn next_try(bench: &mut Bench) -> Vec<Command> {
    assert_eq!(bench.at(MS(1000), Input::Tick), [Command::Probe]);
    bench.step(Input::Probed { result: Ok(()) })
}

#[test]
fn rule_10_a_node_that_loses_too_often_waits_a_lease_while_another_is_ready() {
    let mut bench = Bench::new();
    bench.core.settings.cooldown = MS(1000);
    bench.step(Input::Tick);
    for value in 7..10 {
        flap(&mut bench, value);
        assert_eq!(next_try(&mut bench), [try_lock(value)]);
    }
    assert_eq!(bench.core.view().totals.damped, 0);
    // The fourth within five minutes.
    bench.core.settings.cooldown = MS(0);
    bench.step(peers(&[peer("other")]));
    flap(&mut bench, 10);
    let until = bench.now + MS(1000);
    assert_eq!(bench.core.view().standby, Some(Standby::Damped { until }));
    assert_eq!(bench.core.view().totals.damped, 1);
    assert_eq!(bench.at(MS(999), Input::Tick), [Command::Observe]);
    free(&mut bench);
    assert_eq!(bench.at(MS(1), Input::Tick), [Command::Probe]);
}

#[test]
fn rule_10_nobody_waits_when_no_other_is_ready_or_the_losses_are_old() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    for value in 7..11 {
        flap(&mut bench, value);
        assert_eq!(next_try(&mut bench), [try_lock(value)]);
    }
    assert_eq!(bench.core.view().totals.damped, 1);
    // The fourth comes five minutes after the first: they are no flapping.
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    for value in 7..17 {
        flap(&mut bench, value);
        assert_eq!(bench.at(MS(100_000), Input::Tick), [Command::Probe]);
        bench.step(Input::Probed { result: Ok(()) });
    }
    assert_eq!(bench.core.view().totals.damped, 0);
}

#[test]
fn rule_12_stores_that_fail_for_a_lease_cost_the_leadership_if_another_is_ready() {
    let mut bench = Bench::leading(7);
    let lead_on = |bench: &mut Bench, rounds| {
        for _ in 0..rounds {
            let commands = bench.at(MS(100), Input::Tick);
            assert_eq!(commands, [renew(7, Phase::Serving)]);
            bench.renewed(7);
        }
    };
    bench.step(peers(&[peer("other")]));
    bench.step(Input::StoresOk(false));
    lead_on(&mut bench, 9);
    // A store that answers once begins the wait anew.
    bench.step(Input::StoresOk(true));
    bench.step(Input::StoresOk(false));
    lead_on(&mut bench, 9);
    // Told again and again, it counts from the first time.
    bench.step(Input::StoresOk(false));
    let commands = bench.at(MS(100), Input::Tick);
    assert!(
        matches!(
            commands[..],
            [Command::ShutAdmit { .. }, Command::Drain { .. }]
        ),
        "{commands:?}"
    );
    assert_eq!(bench.step(drained(7)), [shut(7), unlock(7)]);
    assert_eq!(bench.unlocked(7), [demote(7, LossReason::Stores)]);
    // It campaigns again only once its stores answer.
    bench.step(Input::Demoted { epoch: epoch(7) });
    bench.step(peers(&[]));
    free(&mut bench);
    assert_eq!(bench.at(MS(1000), Input::Tick), [Command::Probe]);
}

#[test]
fn rule_12_a_lone_leader_keeps_what_nobody_else_could_do_better() {
    let mut bench = Bench::leading(7);
    bench.step(Input::StoresOk(false));
    let mut unready = peer("other");
    unready.ready = false;
    bench.step(peers(&[unready]));
    for _ in 0..30 {
        let commands = bench.at(MS(100), Input::Tick);
        assert_eq!(commands, [renew(7, Phase::Serving)]);
        bench.renewed(7);
    }
    // When another becomes ready it is handed over at once.
    let commands = bench.step(peers(&[peer("other")]));
    assert!(matches!(commands[..], [Command::ShutAdmit { .. }, _]));
}
