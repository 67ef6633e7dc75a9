//! One election, one lock, and whatever a test lets happen to them.

use std::{collections::VecDeque, mem, time::Duration};

use coordination_core::{
    Acquired, Holder, LockOutcome, Owner, Previous, ReignEnd, RenewOutcome, UnlockOutcome,
};
use elector::{CallFailed, Command, Core, DrainEnd, Input, PromoteError, Settings};
use kvcm_clock::Moment;
use kvcm_fence::{Epoch, Incarnation};

pub(crate) const MS: fn(u64) -> Duration = Duration::from_millis;
pub(crate) const LEASE: Duration = Duration::from_secs(1);
pub(crate) const LOOP: Duration = Duration::from_millis(100);

/// What decides; the real core, or one that is known to be wrong.
pub(crate) trait Election {
    fn new(settings: Settings, me: Owner, now: Moment) -> Self;
    fn step(&mut self, now: Moment, input: Input) -> Vec<Command>;
}

impl Election for Core {
    fn new(settings: Settings, me: Owner, now: Moment) -> Self {
        Self::new(settings, me, now)
    }
    fn step(&mut self, now: Moment, input: Input) -> Vec<Command> {
        self.step(now, input)
    }
}

/// What must not be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// The gate is open in an epoch that the backend does not have for this node.
    ServesWithoutLock,
    /// The lock is renewed for two leases, and nobody is served.
    HoldsAndRefuses,
    /// A reign that was over has begun again.
    Resurrected,
    /// A callback runs out of turn.
    Callbacks,
    /// A lock is renewed that was given up.
    RenewsWhatItGaveUp,
}

/// Who holds the lock by the backend's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Free,
    Mine { epoch: Epoch, until: Moment },
    Other { epoch: Epoch },
}

/// What the callbacks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worker {
    Idle,
    Promoting(Epoch),
    Promoted(Epoch),
    Demoting(Epoch),
}

/// An election on a stage.
pub(crate) struct Stage<E> {
    pub(crate) election: E,
    pub(crate) now: Moment,
    pub(crate) record: Record,
    pub(crate) worker: Worker,
    /// Calls and jobs under way, with the moment when they were sent.
    pub(crate) pending: VecDeque<(Moment, Command)>,
    pub(crate) gate: Option<(Epoch, Moment)>,
    pub(crate) fails_to_promote: bool,
    /// Moments when the backend had nobody.
    pub(crate) was_free: bool,
    pub(crate) acquisitions: u32,
    pub(crate) stopped: bool,
    /// What was commanded, calls and jobs only.
    pub(crate) log: Vec<Command>,
    wake: Moment,
    refusing_since: Moment,
    minted: u64,
    ended: Epoch,
}

pub(crate) fn epoch(value: u64) -> Epoch {
    Epoch::new(value).unwrap()
}

pub(crate) fn owner(name: &str) -> Owner {
    Owner {
        node: name.parse().unwrap(),
        incarnation: Incarnation::from_bits(name.len() as u128),
    }
}

pub(crate) fn down() -> CallFailed {
    CallFailed {
        message: "down".to_owned(),
        fatal: false,
    }
}

impl<E: Election> Stage<E> {
    pub(crate) fn new() -> Self {
        let mut settings = Settings::new(LEASE, LOOP);
        settings.drain = MS(500);
        let now = Moment::ZERO + Duration::from_secs(100);
        Self {
            election: E::new(settings, owner("me"), now),
            now,
            record: Record::Free,
            worker: Worker::Idle,
            pending: VecDeque::new(),
            gate: None,
            fails_to_promote: false,
            was_free: true,
            acquisitions: 0,
            stopped: false,
            log: Vec::new(),
            wake: now,
            refusing_since: now,
            minted: 6,
            ended: Epoch::ZERO,
        }
    }

    /// One that serves in epoch 7.
    pub(crate) fn leading() -> Self {
        let mut stage = Self::new();
        stage.play(MS(300)).unwrap();
        assert_eq!(stage.gate.map(|gate| gate.0), Some(epoch(7)));
        stage
    }

    /// Lets the election hear something, and does what it says.
    pub(crate) fn hear(&mut self, input: Input) -> Result<(), Wrong> {
        for command in self.election.step(self.now, input) {
            match &command {
                Command::OpenGate { epoch, until } => {
                    if *epoch <= self.ended {
                        return Err(Wrong::Resurrected);
                    }
                    self.gate = Some((*epoch, *until));
                }
                Command::ExtendGate { epoch, until } => {
                    if let Some(gate) = self.gate.as_mut().filter(|gate| gate.0 == *epoch) {
                        gate.1 = gate.1.max(*until);
                    }
                }
                Command::ShutGate { epoch } => self.gate = self.gate.filter(|g| g.0 != *epoch),
                Command::Promote { epoch, .. } => {
                    if *epoch <= self.ended {
                        return Err(Wrong::Resurrected);
                    }
                    if self.worker != Worker::Idle {
                        return Err(Wrong::Callbacks);
                    }
                    self.worker = Worker::Promoting(*epoch);
                }
                Command::Demote { epoch, .. } => {
                    if self.worker != Worker::Promoted(*epoch) {
                        return Err(Wrong::Callbacks);
                    }
                    self.ended = *epoch;
                    self.worker = Worker::Demoting(*epoch);
                }
                Command::Renew { epoch, .. } if *epoch <= self.ended => {
                    return Err(Wrong::RenewsWhatItGaveUp);
                }
                Command::Wake(at) => self.wake = *at,
                Command::Stopped => self.stopped = true,
                _ => {}
            }
            self.log.push(command.clone());
            self.pending.push_back((self.now, command));
        }
        self.check()
    }

    fn check(&mut self) -> Result<(), Wrong> {
        let mine = match self.record {
            Record::Mine { epoch, .. } => Some(epoch),
            _ => None,
        };
        self.was_free |= self.record == Record::Free;
        let open = self.gate.filter(|gate| self.now < gate.1);
        if open.is_some_and(|(epoch, _)| mine != Some(epoch)) {
            return Err(Wrong::ServesWithoutLock);
        }
        if open.is_some() || mine.is_none() || self.fails_to_promote {
            self.refusing_since = self.now;
        }
        if self.now.since(self.refusing_since) > 2 * LEASE {
            return Err(Wrong::HoldsAndRefuses);
        }
        Ok(())
    }

    /// The record of this node is gone, as if its lease had ended.
    pub(crate) fn lose(&mut self) {
        self.record = Record::Free;
    }

    /// Another node has the lock, and keeps it.
    pub(crate) fn other_takes(&mut self) {
        self.minted += 1;
        self.record = Record::Other {
            epoch: epoch(self.minted),
        };
    }

    /// Whether something that this node waits for is a call of this kind.
    pub(crate) fn take(&mut self, kind: fn(&Command) -> bool) -> Option<(Moment, Command)> {
        let place = self.pending.iter().position(|(_, command)| kind(command))?;
        self.pending.remove(place)
    }

    /// Answers the oldest call of this kind as the record demands.
    pub(crate) fn answer(&mut self, kind: fn(&Command) -> bool) -> Result<(), Wrong> {
        let Some((sent, command)) = self.take(kind) else {
            return Ok(());
        };
        match self.honest(sent, command) {
            Some(input) => self.hear(input),
            None => Ok(()),
        }
    }

    /// The lock is lost, and the next renewal says so although none was due.
    pub(crate) fn renewal_finds_nothing(&mut self, epoch: Epoch) -> Result<(), Wrong> {
        let renews = |command: &Command| matches!(command, Command::Renew { .. });
        let sent = self.take(renews).map_or(self.now, |(sent, _)| sent);
        self.hear(Input::RenewAnswered {
            epoch,
            sent,
            result: Ok(RenewOutcome::NotHeld),
        })
    }

    /// The promote or demote callback returns.
    pub(crate) fn callback_returns(&mut self) -> Result<(), Wrong> {
        match self.worker {
            Worker::Promoting(epoch) => {
                self.worker = Worker::Promoted(epoch);
                let failed = || Err(PromoteError::Failed("a bad entry".to_owned()));
                let result = if self.fails_to_promote {
                    failed()
                } else {
                    Ok(())
                };
                self.hear(Input::Promoted { epoch, result })
            }
            Worker::Demoting(epoch) => {
                self.worker = Worker::Idle;
                self.hear(Input::Demoted { epoch })
            }
            Worker::Idle | Worker::Promoted(_) => Ok(()),
        }
    }

    /// Time passes for the election alone: no call is answered and no callback returns.
    pub(crate) fn pass(&mut self, time: Duration) -> Result<(), Wrong> {
        let end = self.now + time;
        while self.wake.max(self.now) <= end && self.wake != Moment::NEVER {
            self.now = self.now.max(self.wake);
            let before = self.wake;
            self.hear(Input::Tick)?;
            assert!(self.wake > before.min(self.now), "it spins");
        }
        self.now = end;
        self.check()
    }

    /// Everything works for so long: calls are answered and callbacks return.
    pub(crate) fn play(&mut self, time: Duration) -> Result<(), Wrong> {
        let end = self.now + time;
        while self.now < end {
            self.pass(MS(10))?;
            if let Record::Mine { until, .. } = self.record
                && self.now >= until
            {
                self.record = Record::Free;
            }
            for _ in 0..3 {
                for (sent, command) in mem::take(&mut self.pending) {
                    if let Some(input) = self.honest(sent, command) {
                        self.hear(input)?;
                    }
                }
                self.callback_returns()?;
            }
        }
        Ok(())
    }

    /// What an honest world answers.
    fn honest(&mut self, sent: Moment, command: Command) -> Option<Input> {
        let until = self.now + LEASE;
        Some(match command {
            Command::TryLock { .. } => {
                let outcome = match self.record {
                    Record::Other { epoch } => LockOutcome::Held(self.holder(epoch)),
                    Record::Mine { epoch, .. } => {
                        self.record = Record::Mine { epoch, until };
                        self.acquired(epoch, true)
                    }
                    Record::Free => {
                        self.minted += 1;
                        let epoch = epoch(self.minted);
                        self.record = Record::Mine { epoch, until };
                        self.acquisitions += 1;
                        self.acquired(epoch, false)
                    }
                };
                let result = Ok(outcome);
                Input::LockAnswered { sent, result }
            }
            Command::Observe => Input::HolderAnswered {
                result: Ok(match self.record {
                    Record::Free => None,
                    Record::Other { epoch } => Some(self.holder(epoch)),
                    Record::Mine { epoch, .. } => Some(Holder {
                        owner: owner("me"),
                        ..self.holder(epoch)
                    }),
                }),
            },
            Command::Renew { epoch, .. } => {
                let result = Ok(match self.record {
                    Record::Mine { epoch: held, .. } if held == epoch => {
                        self.record = Record::Mine { epoch, until };
                        RenewOutcome::Renewed
                    }
                    Record::Other { epoch } => RenewOutcome::HeldByOther(self.holder(epoch)),
                    _ => RenewOutcome::NotHeld,
                });
                Input::RenewAnswered {
                    epoch,
                    sent,
                    result,
                }
            }
            Command::Unlock { epoch, .. } => {
                let result = Ok(match self.record {
                    Record::Mine { epoch: held, .. } if held == epoch => {
                        self.record = Record::Free;
                        UnlockOutcome::Unlocked
                    }
                    Record::Other { epoch } => UnlockOutcome::HeldByOther(self.holder(epoch)),
                    _ => UnlockOutcome::NotHeld,
                });
                Input::UnlockAnswered { epoch, result }
            }
            Command::Drain { epoch, .. } => Input::Drained {
                epoch,
                end: DrainEnd::Empty,
            },
            Command::Probe => Input::Probed { result: Ok(()) },
            _ => return None,
        })
    }

    fn acquired(&self, epoch: Epoch, repeated: bool) -> LockOutcome {
        LockOutcome::Acquired(Acquired {
            epoch,
            previous: Some(Previous {
                owner: owner("other"),
                epoch: Epoch::new(epoch.get() - 1).unwrap(),
                end: ReignEnd::Expired,
                lease_left: Duration::ZERO,
            }),
            repeated,
        })
    }

    fn holder(&self, epoch: Epoch) -> Holder {
        Holder {
            owner: owner("other"),
            epoch,
            info: String::new(),
            remaining: LEASE,
        }
    }
}

pub(crate) fn tries(command: &Command) -> bool {
    matches!(command, Command::TryLock { .. } | Command::Observe)
}

pub(crate) fn renews(command: &Command) -> bool {
    matches!(command, Command::Renew { .. })
}
