//! Any order of events keeps the invariants that callbacks and gate depend on.

use proptest::prelude::*;

use super::*;

/// What the world answers; drawn at random and applied to whatever is under way.
#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Lock(u8),
    Renew(u8),
    Unlock(bool),
    Promoted(bool),
    Demoted,
    Drained(u8),
    Demote(bool),
    Transfer,
    Cancel,
    Pause,
    Resume,
    Ready(bool),
    Stores(bool),
    Peers(u8),
    Hint,
    Refused,
    Probed(bool),
    GateShut,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        (0u64..300).prop_map(Event::Pass),
        (0u8..4).prop_map(Event::Lock),
        (0u8..4).prop_map(Event::Renew),
        any::<bool>().prop_map(Event::Unlock),
        any::<bool>().prop_map(Event::Promoted),
        Just(Event::Demoted),
        (0u8..4).prop_map(Event::Drained),
        any::<bool>().prop_map(Event::Demote),
        Just(Event::Transfer),
        Just(Event::Cancel),
        Just(Event::Pause),
        Just(Event::Resume),
        any::<bool>().prop_map(Event::Ready),
        any::<bool>().prop_map(Event::Stores),
        (0u8..4).prop_map(Event::Peers),
        Just(Event::Hint),
        Just(Event::Refused),
        any::<bool>().prop_map(Event::Probed),
        Just(Event::GateShut),
    ];
    prop::collection::vec(event, 0..120)
}

/// What has been commanded and not answered.
#[derive(Default, Debug)]
struct World {
    lock: bool,
    observe: bool,
    probe: bool,
    renewals: Vec<(Epoch, Moment)>,
    unlocks: Vec<Epoch>,
    /// The epoch of the running promote callback, of the finished one, of the running demote.
    promoting: Option<Epoch>,
    promoted: Option<Epoch>,
    demoting: Option<Epoch>,
    draining: Option<Epoch>,
    gate: Option<(Epoch, Moment)>,
    last_opened: Epoch,
    minted: u64,
    /// How many transfers were asked for, and answered.
    transfers: u64,
    answered: Vec<u64>,
    /// By order of the operator it does not campaign.
    paused: bool,
}

impl World {
    fn take(&mut self, bench: &Bench, commands: Vec<Command>) -> Result<(), TestCaseError> {
        for command in commands {
            match command {
                Command::TryLock { .. } => {
                    prop_assert!(!self.lock && !self.observe && !self.probe);
                    prop_assert!(!self.paused, "a paused node tries");
                    self.lock = true;
                }
                Command::Observe => self.observe = true,
                Command::Probe => self.probe = true,
                Command::Renew { epoch, .. } => self.renewals.push((epoch, bench.now)),
                Command::Unlock { epoch, .. } => {
                    prop_assert!(
                        self.gate.is_none_or(|gate| gate.0 != epoch),
                        "a release with an open gate"
                    );
                    self.unlocks.push(epoch);
                }
                Command::ReopenGate { epoch } => {
                    prop_assert_eq!(self.gate.map(|gate| gate.0), Some(epoch));
                    prop_assert!(!self.unlocks.contains(&epoch), "opened after the release");
                    prop_assert!(!self.paused, "a paused node serves");
                }
                Command::ReplyTransfer { id, .. } => {
                    prop_assert!(!self.answered.contains(&id), "answered twice");
                    self.answered.push(id);
                }
                Command::ReplyPause { result, .. } => {
                    prop_assert!(result.is_ok() || !self.paused);
                    self.paused |= result.is_ok();
                }
                Command::Promote { epoch, .. } => {
                    // I5: alternating, never overlapping.
                    prop_assert_eq!((self.promoting, self.promoted), (None, None));
                    prop_assert_eq!(self.demoting, None);
                    self.promoting = Some(epoch);
                }
                Command::Demote { epoch, .. } => {
                    prop_assert_eq!(self.promoted.take(), Some(epoch));
                    prop_assert!(self.gate.is_none(), "the gate is open in a demotion");
                    self.demoting = Some(epoch);
                }
                Command::OpenGate { epoch, until } => {
                    prop_assert_eq!(self.promoted, Some(epoch));
                    prop_assert!(epoch > self.last_opened, "an epoch is led in twice");
                    prop_assert!(until > bench.now);
                    self.last_opened = epoch;
                    self.gate = Some((epoch, until));
                }
                Command::ExtendGate { epoch, until } => {
                    prop_assert_eq!(self.gate.map(|gate| gate.0), Some(epoch));
                    self.gate = Some((epoch, until));
                }
                Command::ShutGate { epoch } => {
                    self.gate = self.gate.filter(|gate| gate.0 != epoch);
                }
                Command::Drain { epoch, .. } => self.draining = Some(epoch),
                _ => {}
            }
        }
        Ok(())
    }

    fn input(&mut self, bench: &mut Bench, event: Event) -> Option<Input> {
        Some(match event {
            Event::Pass(ms) => {
                bench.now = bench.now + MS(ms);
                Input::Tick
            }
            Event::Lock(kind) if self.lock => {
                self.lock = false;
                self.minted += 1;
                let holder = Holder {
                    owner: owner("other"),
                    epoch: epoch(self.minted),
                    info: String::new(),
                    remaining: MS(500),
                };
                let end = ReignEnd::Expired;
                let acquired = Acquired {
                    epoch: epoch(self.minted),
                    previous: previous(end, MS(0)),
                    repeated: false,
                };
                let result = match kind {
                    0 => Ok(LockOutcome::Held(holder)),
                    1 => Err(down()),
                    _ => Ok(LockOutcome::Acquired(acquired)),
                };
                Input::LockAnswered {
                    sent: bench.now - MS(1),
                    result,
                }
            }
            Event::Lock(_) if self.observe => {
                self.observe = false;
                Input::HolderAnswered { result: Ok(None) }
            }
            Event::Renew(kind) => {
                let (epoch, sent) = self.renewals.pop()?;
                let result = match kind {
                    0 => Ok(RenewOutcome::NotHeld),
                    1 => Err(down()),
                    _ => Ok(RenewOutcome::Renewed),
                };
                Input::RenewAnswered {
                    epoch,
                    sent,
                    result,
                }
            }
            Event::Unlock(ok) => {
                let epoch = self.unlocks.pop()?;
                let result = if ok {
                    Ok(UnlockOutcome::Unlocked)
                } else {
                    Err(down())
                };
                Input::UnlockAnswered { epoch, result }
            }
            Event::Promoted(ok) => {
                let epoch = self.promoting.take()?;
                self.promoted = Some(epoch);
                let failed = || Err(PromoteError::Failed("no".to_owned()));
                Input::Promoted {
                    epoch,
                    result: if ok { Ok(()) } else { failed() },
                }
            }
            Event::Demoted => Input::Demoted {
                epoch: self.demoting.take()?,
            },
            Event::Drained(kind) => Input::Drained {
                epoch: self.draining.take()?,
                end: match kind {
                    0 => DrainEnd::InFlight(1),
                    1 => DrainEnd::Stuck,
                    _ => DrainEnd::Empty,
                },
            },
            Event::Demote(pause) => Input::Demote {
                id: 1,
                expected: None,
                pause,
            },
            Event::Transfer => {
                self.transfers += 1;
                Input::Transfer {
                    id: self.transfers,
                    to: "next".parse().unwrap(),
                    expected: None,
                }
            }
            Event::Cancel => Input::CancelTransfer,
            Event::Pause => Input::Pause { id: 1 },
            Event::Resume => {
                self.paused = false;
                Input::Resume
            }
            Event::Ready(ready) => Input::Ready(ready),
            Event::Stores(ok) => Input::StoresOk(ok),
            // Right or wrong: nobody, fit, not ready, another life.
            Event::Peers(kind) => {
                let mut next = transfer::peer("next");
                next.ready = kind != 2;
                if kind == 3 {
                    next.owner.incarnation = Incarnation::random();
                }
                let known = (kind != 0).then_some(next);
                Input::Peers(known.into_iter().collect())
            }
            Event::Hint => Input::Hint(Hint::Changed),
            Event::Refused => {
                let epoch = self.gate?.0;
                Input::StoreRefused { epoch, by: epoch }
            }
            Event::GateShut => Input::GateShut {
                epoch: self.gate.take()?.0,
            },
            Event::Probed(ok) if self.probe => {
                self.probe = false;
                Input::Probed {
                    result: if ok { Ok(()) } else { Err("no".to_owned()) },
                }
            }
            _ => return None,
        })
    }
}

proptest! {
    #[test]
    fn callbacks_alternate_and_no_epoch_is_led_in_twice(events in events()) {
        let mut bench = Bench::new();
        let mut world = World::default();
        let first = bench.step(Input::Tick);
        world.take(&bench, first)?;
        for event in events {
            let Some(input) = world.input(&mut bench, event) else { continue };
            let commands = bench.step(input);
            world.take(&bench, commands)?;
            // What is due is done at once, or the driver would spin.
            if bench.wake <= bench.now {
                let commands = bench.step(Input::Tick);
                world.take(&bench, commands)?;
                prop_assert!(bench.wake > bench.now);
            }
            // A gate that is open has its lock.
            if let Some((epoch, _)) = world.gate {
                prop_assert_eq!(bench.core.view().epoch, Some(epoch));
            }
        }
        // The operator lets it in again.
        let resumed = world.input(&mut bench, Event::Resume).map(|input| bench.step(input));
        world.take(&bench, resumed.unwrap_or_default())?;
        // I6: when the world behaves, a leader serves.
        for _ in 0..200 {
            for event in [
                Event::Pass(50), Event::Unlock(true), Event::Promoted(true), Event::Demoted,
                Event::Drained(2), Event::Probed(true), Event::Lock(2), Event::Renew(2),
                Event::Renew(2),
            ] {
                let Some(input) = world.input(&mut bench, event) else { continue };
                let commands = bench.step(input);
                world.take(&bench, commands)?;
            }
        }
        prop_assert_eq!(bench.core.view().role, Role::Leader);
        prop_assert_eq!(world.answered.len() as u64, world.transfers, "a transfer has no answer");
    }
}
