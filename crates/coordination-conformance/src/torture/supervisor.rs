//! Who starts, stops and kills the children.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use fastrand::Rng;
use kvcm_clock::{BootClock, Clock};
use rustix::process::{Pid, Signal, kill_process};

use super::{
    Report,
    child::{LEASE_MS, NODE},
    event::{Event, What},
    history::History,
};

/// How many rounds, when not as many as the test wants.
const ROUNDS: &str = "KVCM_TORTURE_ROUNDS";
/// What decides whom it hits and when, in place of chance.
const SEED: &str = "KVCM_TORTURE_SEED";
/// How many processes contend.
const CHILDREN: usize = 4;
/// Within this somebody must acquire the lock, or nobody can.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a round waits for a child to do what it wants to break into.
const TRIGGER_MAX: Duration = Duration::from_millis(200);

/// What is done to the children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// Nothing: they contend.
    None,
    /// SIGKILL.
    Kill,
    /// SIGKILL, and SIGSTOP for some leases, after which they go on or are killed.
    StopAndKill,
}

/// How children are tortured.
#[derive(Clone, Copy, Debug)]
pub struct Torture {
    /// What is done to them.
    pub harm: Harm,
    /// How often. In each round somebody must acquire the lock afterwards.
    pub rounds: usize,
    /// How long their leases are. Longer than the test may take, if the backend knows of deaths.
    pub lease: Duration,
}

impl Torture {
    /// The same with as many rounds as the environment asks for: all of `KVCM_TORTURE_ROUNDS`, or
    /// a part of them.
    #[must_use]
    pub fn with_rounds_of_environment(self, divisor: usize) -> Self {
        let rounds = env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok());
        let rounds = rounds.map_or(self.rounds, |all: usize| all.div_ceil(divisor));
        Self { rounds, ..self }
    }

    /// Starts children by `command`, and tortures them.
    ///
    /// # Panics
    /// When the backend has not kept its word: two owners at a time, an epoch that does not rise,
    /// a lock that nobody can take; or when a child ended by itself.
    pub fn run(&self, command: impl Fn() -> Command) -> Report {
        let seed = env::var(SEED).ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| fastrand::u64(..));
        eprintln!("{self:?}, seed {seed}");
        let start = BootClock.now();
        let mut supervisor = Supervisor::start(*self, seed, &command);
        for _ in 0..self.rounds {
            supervisor.round();
        }
        let mut report = supervisor.end();
        report.took = BootClock.now().since(start);
        report
    }
}

/// What a child has said, by its number, or that it has ended.
type Word = (usize, Option<Event>);

/// A child and all that it has said.
struct Life {
    number: usize,
    process: Child,
    events: Vec<Event>,
}

impl Life {
    fn phase(&self) -> &'static str {
        let last = self.events.last();
        last.map_or("starting", |event| event.what.phase())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // Both fail only when it has ended and was waited for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Supervisor<'a> {
    torture: Torture,
    random: Rng,
    command: &'a dyn Fn() -> Command,
    lives: Vec<Life>,
    /// Lives that were started, for their numbers.
    started: usize,
    said: Receiver<Word>,
    sender: SyncSender<Word>,
    history: History,
    /// Holders that were killed: their epochs, and when.
    killed_holders: Vec<(u64, u64)>,
    report: Report,
}

impl<'a> Supervisor<'a> {
    fn start(torture: Torture, seed: u64, command: &'a dyn Fn() -> Command) -> Self {
        let (sender, said) = sync_channel(1000);
        let report = Report {
            seed,
            rounds: torture.rounds,
            ..Report::default()
        };
        let mut supervisor = Self {
            torture,
            random: Rng::with_seed(seed),
            command,
            lives: Vec::new(),
            started: 0,
            said,
            sender,
            history: History::default(),
            killed_holders: Vec::new(),
            report,
        };
        for place in 0..CHILDREN {
            let life = supervisor.spawn(place);
            supervisor.lives.push(life);
        }
        supervisor
    }

    /// Starts a process as the node `place`.
    fn spawn(&mut self, place: usize) -> Life {
        let number = self.started;
        self.started += 1;
        let mut process = (self.command)()
            .env(NODE, format!("n{place}"))
            .env(LEASE_MS, self.torture.lease.as_millis().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let sender = self.sender.clone();
        thread::spawn(move || {
            let lines = stdout.lines().map_while(Result::ok);
            // Sending fails only when the torture has ended.
            for event in lines.filter_map(|line| line.parse().ok()) {
                let _ = sender.send((number, Some(event)));
            }
            let _ = sender.send((number, None));
        });
        Life {
            number,
            process,
            events: Vec::new(),
        }
    }

    fn round(&mut self) {
        if self.torture.harm == Harm::None {
            return self.until_acquired_after(0);
        }
        let place = self.choose();
        thread::sleep(Duration::from_micros(self.random.u64(0..1500)));
        self.hear_what_was_said();
        if self.torture.harm == Harm::StopAndKill && self.random.u8(0..3) == 0 {
            self.stop(place);
            if self.random.bool() {
                self.lives[place].signal(Signal::CONT);
                return self.until_acquired_after(BootClock.now().as_nanos());
            }
        }
        let killed_at = self.kill(place);
        self.lives[place] = self.spawn(place);
        self.until_acquired_after(killed_at);
    }

    /// Waits for a child to do something at random, or a while; the one to be hit.
    fn choose(&mut self) -> usize {
        let some = self.random.usize(0..CHILDREN);
        let phase = ["campaigning", "holding", "renewing", "releasing", "between"];
        let Some(phase) = phase.get(self.random.usize(0..phase.len() + 2)) else {
            thread::sleep(Duration::from_micros(self.random.u64(0..15_000)));
            return some;
        };
        self.hear_what_was_said();
        let end = BootClock.now() + TRIGGER_MAX;
        while let Some((number, event)) = self.hear(end.since(BootClock.now())) {
            let place = self.lives.iter().position(|life| life.number == number);
            if let Some(place) = place.filter(|_| event.what.phase() == *phase) {
                return place;
            }
        }
        some
    }

    /// Stops a process for up to three leases. It may be inside of a critical section, so nobody
    /// need acquire meanwhile.
    fn stop(&mut self, place: usize) {
        let life = &self.lives[place];
        life.signal(Signal::STOP);
        *self.report.stops.entry(life.phase()).or_default() += 1;
        let leases = self.random.f64() * 3.0;
        let end = BootClock.now() + self.torture.lease.mul_f64(leases);
        while self.hear(end.since(BootClock.now())).is_some() {}
    }

    /// Kills a process and takes all that it has said; when that was.
    fn kill(&mut self, place: usize) -> u64 {
        let killed_at = BootClock.now().as_nanos();
        let life = &mut self.lives[place];
        life.process.kill().unwrap();
        life.process.wait().unwrap();
        let number = life.number;
        loop {
            match self.said.recv_timeout(PATIENCE).unwrap() {
                (who, Some(event)) => self.take(who, event),
                (who, None) if who == number => break,
                (who, None) => panic!("child {who} ended by itself"),
            }
        }
        let life = &mut self.lives[place];
        *self.report.kills.entry(life.phase()).or_default() += 1;
        if let Some(last) = life.events.last()
            && matches!(last.what.phase(), "holding" | "renewing")
        {
            self.killed_holders.push((last.epoch, killed_at));
        }
        let events = std::mem::take(&mut life.events);
        self.history.add(&events).unwrap();
        killed_at
    }

    /// The next event of anybody, unless `patience` ends before.
    fn hear(&mut self, patience: Duration) -> Option<(usize, Event)> {
        let (number, event) = self.said.recv_timeout(patience).ok()?;
        let event = event.unwrap_or_else(|| panic!("child {number} ended by itself"));
        self.take(number, event.clone());
        Some((number, event))
    }

    fn hear_what_was_said(&mut self) {
        while self.hear(Duration::ZERO).is_some() {}
    }

    fn until_acquired_after(&mut self, moment: u64) {
        let end = BootClock.now() + PATIENCE;
        while let Some((_, event)) = self.hear(end.since(BootClock.now())) {
            if event.what.is_acquisition() && event.at > moment {
                return;
            }
        }
        panic!("nobody could take the lock for {PATIENCE:?}");
    }

    fn take(&mut self, number: usize, event: Event) {
        self.report.failures += usize::from(event.what == What::Failed);
        let life = self.lives.iter_mut().find(|life| life.number == number);
        life.unwrap().events.push(event);
    }

    /// Ends all children, and finds out what they have proven.
    fn end(mut self) -> Report {
        for place in 0..CHILDREN {
            self.kill(place);
        }
        // Whatever they were about to do when they died, the lock can be had.
        self.lives[0] = self.spawn(0);
        self.until_acquired_after(0);
        self.kill(0);
        self.history.check().unwrap();
        let mut report = self.report;
        report.reigns = self.history.reigns();
        report.ends = self.history.ends();
        let takeovers = self.killed_holders.iter();
        report.takeovers = takeovers
            .filter_map(|(epoch, at)| self.history.takeover(*epoch, *at))
            .collect();
        report
    }
}
