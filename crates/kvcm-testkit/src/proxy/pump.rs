//! One direction of one connection.

use std::{
    collections::VecDeque,
    future::pending,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::tcp::{ReadHalf, WriteHalf},
    time::{Instant, sleep_until},
};

use super::{Direction, Rule, control::Control};

/// How many chunks may be on their way; more are left with the sender.
const UNDER_WAY_MAX: usize = 256;
const CHUNK: usize = 64 * 1024;

/// The connection is to be reset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reset;

pub(super) struct Pump<'a> {
    pub(super) from: ReadHalf<'a>,
    pub(super) to: WriteHalf<'a>,
    pub(super) direction: Direction,
    pub(super) control: &'a Control,
    /// Of the connection.
    pub(super) number: u64,
    /// How often connections had been forgotten when this one was opened.
    pub(super) forgets: u64,
    /// Whether the client spoke last.
    pub(super) has_asked: &'a AtomicBool,
}

/// Bytes on their way.
struct Parcel<'a> {
    bytes: Vec<u8>,
    due: Due,
    _held: Option<Held<'a>>,
}

/// Counts as a held chunk as long as it is there.
struct Held<'a>(&'a Control);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.send_modify(|held| *held -= 1);
    }
}

#[derive(Clone, Copy)]
enum Due {
    At(Instant),
    /// At the next release after so many.
    Released(u64),
}

/// What has become of one direction so far.
struct Progress<'a> {
    queue: VecDeque<Parcel<'a>>,
    /// When the latest one is due.
    last_due: Instant,
    random: Option<fastrand::Rng>,
    /// Which setting of a rule `passed` counts for.
    setting: u64,
    passed: u64,
    /// The receiver gets nothing any more, and neither side is told.
    is_lost: bool,
    /// The receiver is gone or has been told of the end: what comes is thrown away.
    is_finished: bool,
    is_ended: bool,
}

impl<'a> Pump<'a> {
    pub(super) async fn run(mut self) -> Result<(), Reset> {
        let mut script = self.control.script.subscribe();
        let mut buffer = vec![0; CHUNK];
        let mut progress = Progress {
            queue: VecDeque::new(),
            last_due: Instant::now(),
            random: None,
            setting: u64::MAX,
            passed: 0,
            is_lost: false,
            is_finished: false,
            is_ended: false,
        };
        loop {
            let (rule, releases) = {
                let script = script.borrow_and_update();
                progress.is_lost |= script.forgets != self.forgets;
                let rule = script.rules[self.direction.index()].clone();
                (rule, script.releases)
            };
            if rule == Rule::HalfClose && !progress.is_finished {
                self.finish(&mut progress).await;
            }
            if progress.is_ended && progress.queue.is_empty() {
                if progress.is_lost {
                    // As long as somebody holds the connection open.
                    return pending().await;
                }
                self.finish(&mut progress).await;
                return Ok(());
            }
            let due = progress.due(releases);
            let may_read =
                !progress.is_ended && rule != Rule::Stall && progress.queue.len() < UNDER_WAY_MAX;
            let room = rule.chunk();
            tokio::select! {
                biased;
                changed = script.changed() => {
                    if changed.is_err() {
                        return Err(Reset);
                    }
                }
                () = sleep_or_wait(due) => self.deliver(&mut progress).await,
                read = self.from.read(&mut buffer[..room]), if may_read => match read {
                    Ok(0) => progress.end(self.control.rule(self.direction)),
                    Ok(length) => self.take(&buffer[..length], &mut progress)?,
                    Err(_) => {
                        progress.end(self.control.rule(self.direction));
                        // What is on its way arrives all the same, then the end of the stream.
                        if progress.queue.is_empty() && !progress.is_lost {
                            return Err(Reset);
                        }
                    }
                },
            }
        }
    }

    fn take(&self, chunk: &[u8], progress: &mut Progress<'a>) -> Result<(), Reset> {
        self.control.count(self.direction, chunk.len());
        let is_question = self.direction == Direction::ToServer;
        if self.has_asked.swap(is_question, Ordering::Relaxed) != is_question && is_question {
            self.control.count_round_trip();
        }
        let ruling = self.control.judge(self.direction, chunk);
        if progress.setting != ruling.setting {
            progress.setting = ruling.setting;
            progress.passed = 0;
            progress.random = None;
        }
        progress.is_lost |= ruling.forgets != self.forgets;
        let now = Instant::now();
        let mut kept = chunk;
        let due = match ruling.rule {
            Rule::Reset => return Err(Reset),
            Rule::BlackHole => {
                progress.is_lost = true;
                return Ok(());
            }
            Rule::DropAfter { bytes } => {
                let left = bytes.saturating_sub(progress.passed);
                let left = usize::try_from(left).unwrap_or(usize::MAX);
                kept = &chunk[..left.min(chunk.len())];
                now
            }
            Rule::Delay {
                least,
                jitter,
                seed,
            } => {
                let number = self.number;
                let new = || fastrand::Rng::with_seed(seed.wrapping_add(number));
                let random = progress.random.get_or_insert_with(new);
                now + least + jitter.mul_f64(random.f64())
            }
            Rule::Throttle { bytes_per_second } => {
                let length = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
                let time = f64::from(length) / f64::from(bytes_per_second.max(1));
                now.max(progress.last_due) + Duration::from_secs_f64(time)
            }
            Rule::Pass | Rule::Stall | Rule::HalfClose | Rule::Hold { .. } => now,
        };
        let is_cut = kept.len() < chunk.len();
        if !progress.is_lost && !progress.is_finished {
            progress.passed += u64::try_from(kept.len()).unwrap_or(u64::MAX);
            // In order.
            progress.last_due = due.max(progress.last_due);
            let (due, held) = match ruling.rule {
                Rule::Hold { .. } => (Due::Released(ruling.releases), Some(Held(self.control))),
                _ => (Due::At(progress.last_due), None),
            };
            progress.queue.push_back(Parcel {
                bytes: kept.to_vec(),
                due,
                _held: held,
            });
        }
        progress.is_lost |= is_cut;
        Ok(())
    }

    async fn deliver(&mut self, progress: &mut Progress<'a>) {
        let Some(parcel) = progress.queue.pop_front() else {
            return;
        };
        if !progress.is_finished && self.to.write_all(&parcel.bytes).await.is_err() {
            progress.is_finished = true;
        }
    }

    async fn finish(&mut self, progress: &mut Progress<'a>) {
        if !progress.is_finished {
            progress.is_finished = true;
            // Fails only when the receiver has gone.
            let _ = self.to.shutdown().await;
        }
    }
}

impl Progress<'_> {
    /// When the next parcel is to be delivered, if that is known.
    fn due(&self, releases: u64) -> Option<Instant> {
        match self.queue.front()?.due {
            Due::At(due) => Some(due),
            Due::Released(before) => (releases > before).then(Instant::now),
        }
    }

    fn end(&mut self, rule: Rule) {
        self.is_ended = true;
        self.is_lost |= rule == Rule::BlackHole;
    }
}

impl Rule {
    /// How much is read at once.
    fn chunk(&self) -> usize {
        match self {
            Self::Throttle { bytes_per_second } => {
                let part = usize::try_from(bytes_per_second / 50).unwrap_or(CHUNK);
                part.clamp(1, CHUNK)
            }
            _ => CHUNK,
        }
    }
}

async fn sleep_or_wait(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}
