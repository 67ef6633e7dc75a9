//! The independent prober: a thread for each node that writes all the time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::bail;
use kvcm_clock::{BootClock, Clock, Moment};
use parking_lot::Mutex;

use super::{
    measure::Ack,
    system::Target,
    writer::{Answer, Writer},
};
use crate::interrupt::Interrupt;

/// A node is asked once in this time, unless it takes longer to answer.
const PACE: Duration = Duration::from_millis(1);
/// Between two looks at what the threads have seen.
const LOOK: Duration = Duration::from_millis(2);
/// So long one and the same node has to take writes before it is the leader.
const STEADY: Duration = Duration::from_millis(200);

/// And so many of them; slower than 50 ms each would not be measured.
const STEADY_WRITES: usize = 4;

/// Writes to every node, so that nobody has to find out who leads: what is measured is when the
/// service is there again, the same way for all.
pub(super) struct Prober {
    shared: Arc<Shared>,
    interrupt: Interrupt,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: Arc<AtomicBool>,
    seen: Mutex<Seen>,
}

/// What the writes came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) acks: Vec<Ack>,
    /// When writes to a leader ended of which nobody knows what came of them.
    pub(super) unknown: Vec<Moment>,
}

impl Prober {
    /// Keys count up from `first_key`, in a range of 2⁴⁰ for each node.
    pub(super) fn start(
        targets: &[Target],
        first_key: i64,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut prober = Self {
            shared,
            interrupt: interrupt.clone(),
            threads: Vec::new(),
        };
        for (node, target) in targets.iter().enumerate() {
            let (target, shared) = (*target, Arc::clone(&prober.shared));
            let first_key = first_key + ((node as i64) << 40);
            let thread = thread::Builder::new().name(format!("probe-{node}"));
            let thread = thread.spawn(move || probe(node, target, first_key, &shared))?;
            prober.threads.push(thread);
        }
        Ok(prober)
    }

    /// The node that alone takes writes, for a while already.
    pub(super) fn leader(&self, limit: Duration) -> anyhow::Result<usize> {
        let begun = BootClock.now();
        let found = self.wait(limit, |seen, now| {
            let last = seen.acks.last()?;
            let since = now - STEADY;
            let recent = || {
                seen.acks
                    .iter()
                    .rev()
                    .take_while(|ack| ack.returned > since)
            };
            let is_steady = now.since(begun) >= STEADY
                && recent().count() >= STEADY_WRITES
                && recent().all(|ack| ack.node == last.node);
            is_steady.then_some(last.node)
        });
        match found {
            Some(leader) => Ok(leader),
            None => bail!("no node takes writes steadily within {limit:?}"),
        }
    }

    /// Waits for an acknowledgement that `is_it`; false when there is none within `limit`, or
    /// before the bench is told to end.
    pub(super) fn wait_for(&self, limit: Duration, is_it: impl Fn(&Ack) -> bool) -> bool {
        let mut looked_at = 0;
        let found = self.wait(limit, |seen, _| {
            let new = &seen.acks[looked_at..];
            looked_at = seen.acks.len();
            new.iter().any(&is_it).then_some(())
        });
        found.is_some()
    }

    fn wait<T>(
        &self,
        limit: Duration,
        mut look: impl FnMut(&Seen, Moment) -> Option<T>,
    ) -> Option<T> {
        let end = BootClock.now() + limit;
        loop {
            let now = BootClock.now();
            if let Some(found) = look(&self.shared.seen.lock(), now) {
                return Some(found);
            }
            if now >= end || self.interrupt.is_told() {
                return None;
            }
            thread::sleep(LOOK);
        }
    }

    /// Ends all writes.
    pub(super) fn finish(mut self) -> Seen {
        self.end();
        std::mem::take(&mut self.shared.seen.lock())
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // A panic has been printed already.
            let _panic = thread.join();
        }
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.end();
    }
}

fn probe(node: usize, target: Target, first_key: i64, shared: &Shared) {
    let stop = &shared.stop;
    let mut key = first_key;
    let mut connection = None;
    let mut leads = false;
    while !stop.load(Relaxed) {
        let begun = BootClock.now();
        if connection.is_none() {
            // Nobody is there: nothing was sent.
            connection = Writer::connect(target, key, stop).ok();
        }
        if let Some(writer) = &mut connection {
            let sent = BootClock.now();
            let answer = writer.write();
            let returned = BootClock.now();
            key = writer.next_key();
            let is_broken = answer.is_err();
            match answer {
                Ok(Answer::Done) => {
                    leads = true;
                    shared.seen.lock().acks.push(Ack {
                        node,
                        begun: sent,
                        returned,
                    });
                }
                Ok(Answer::Refused) => leads = false,
                // What ends because we end does not count, nor what one ends that did not lead.
                Err(_) if stop.load(Relaxed) || !std::mem::take(&mut leads) => {}
                Ok(Answer::Unknown) | Err(_) => shared.seen.lock().unknown.push(returned),
            }
            if is_broken {
                connection = None;
            }
        }
        let spent = BootClock.now().since(begun);
        thread::sleep(PACE.saturating_sub(spent));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{SocketAddr, TcpListener},
        sync::atomic::AtomicU64,
    };

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Speaks as a contender does; leads while `leads` says so, and tells when it last said yes.
    fn node(leads: &Arc<AtomicBool>, last: &Arc<AtomicU64>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (leads, last) = (Arc::clone(leads), Arc::clone(last));
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut order = [0];
            while stream.read_exact(&mut order).is_ok() {
                let yes = leads.load(Relaxed);
                if yes {
                    last.store(BootClock.now().as_nanos(), Relaxed);
                }
                let answer = if yes { b"y" } else { b"n" };
                if stream.write_all(answer).is_err() {
                    return;
                }
            }
        });
        address
    }

    #[test]
    fn the_gap_is_as_long_as_nobody_led_and_the_new_leader_is_seen() {
        let flags = [true, false].map(|leads| Arc::new(AtomicBool::new(leads)));
        let times = [0, 0].map(|time| Arc::new(AtomicU64::new(time)));
        let targets = [0, 1].map(|place| Target::Contender(node(&flags[place], &times[place])));
        let prober = Prober::start(&targets, 0, &Interrupt::default()).unwrap();
        assert_eq!(prober.leader(LIMIT).unwrap(), 0);
        let struck = BootClock.now();
        flags[0].store(false, Relaxed);
        // As long as it takes: what is asked is whether the prober saw the same as the nodes.
        thread::sleep(Duration::from_millis(80));
        let no_sooner = BootClock.now();
        flags[1].store(true, Relaxed);
        assert!(prober.wait_for(LIMIT, |ack| ack.node == 1));
        let ended = BootClock.now();
        let seen = prober.finish();
        let gap = super::super::measure::longest_gap(&seen.acks, struck, ended).unwrap();
        let last = Moment::from_nanos(times[0].load(Relaxed));
        // The node told the time just before it answered, which may be a stall earlier.
        assert!(
            gap + ended.since(no_sooner) >= no_sooner.since(last),
            "{gap:?}"
        );
        assert!(gap >= Duration::from_millis(70) || last > struck, "{gap:?}");
        assert!(seen.unknown.is_empty());
        let leaders = super::super::measure::leaders(&seen.acks, no_sooner);
        assert_eq!(leaders, Some((0, 1)));
    }

    #[test]
    fn a_write_to_the_leader_whose_connection_breaks_is_unknown() {
        for (answer, unknown) in [(b"y", 1), (b"n", 0)] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let target = Target::Contender(listener.local_addr().unwrap());
            let prober = Prober::start(&[target], 0, &Interrupt::default()).unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            let mut order = [0];
            stream.read_exact(&mut order).unwrap();
            stream.write_all(answer).unwrap();
            stream.read_exact(&mut order).unwrap();
            drop(stream);
            // The next connection shows that the end of the first was seen.
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut order).unwrap();
            assert_eq!(prober.finish().unknown.len(), unknown);
        }
    }
}
