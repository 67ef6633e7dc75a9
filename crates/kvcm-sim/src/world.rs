//! Virtual time and the tasks of all processes, on one thread.
//!
//! Time stands still while any task can run and then jumps to the next timer, so an idle hour
//! costs nothing. Of several tasks that can run, the seed chooses the next: orders of execution
//! are part of what a seed explores.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

/// Whose tasks run, are held up, or are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Process {
    Running,
    Paused,
    Dead,
}

/// Names one process of the world. What belongs to none (clients, the nemesis) is a process that
/// nobody harms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessId(usize);

/// A handle of the world; cheap to clone.
#[derive(Clone)]
pub(crate) struct World(Arc<Shared>);

struct Shared {
    /// Nanoseconds since the beginning.
    now: AtomicU64,
    state: Mutex<State>,
    ready: Arc<Mutex<Vec<usize>>>,
}

struct State {
    timers: BinaryHeap<Reverse<Timed>>,
    next_timer: u64,
    spawned: Vec<(ProcessId, BoxFuture<'static, ()>)>,
    processes: Vec<(Process, Vec<usize>)>,
    deaths: bool,
}

struct Timed {
    at: u64,
    /// Timers of one moment fire in the order in which they were set.
    number: u64,
    action: Action,
}

enum Action {
    Wake(Arc<Slot>),
    Call(Box<dyn FnOnce() + Send>),
}

/// Whom a timer wakes; nobody when its future was dropped.
type Slot = Mutex<Option<Waker>>;

/// The tasks, and the loop that runs them.
pub(crate) struct Executor {
    world: World,
    random: fastrand::Rng,
    tasks: Vec<Option<Task>>,
    polls: u64,
}

struct Task {
    process: ProcessId,
    future: BoxFuture<'static, ()>,
    waker: Waker,
    queued: Arc<TaskWaker>,
}

struct TaskWaker {
    task: usize,
    queued: AtomicBool,
    ready: Arc<Mutex<Vec<usize>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Relaxed) {
            self.ready.lock().push(self.task);
        }
    }
}

// === impl World ===

impl World {
    /// An empty world at its beginning.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shared {
            now: AtomicU64::new(0),
            state: Mutex::new(State {
                timers: BinaryHeap::new(),
                next_timer: 0,
                spawned: Vec::new(),
                processes: Vec::new(),
                deaths: false,
            }),
            ready: Arc::default(),
        }))
    }

    /// Nanoseconds since the beginning.
    pub(crate) fn now(&self) -> u64 {
        self.0.now.load(Relaxed)
    }

    /// A new process without tasks.
    pub(crate) fn process(&self) -> ProcessId {
        let mut state = self.0.state.lock();
        state.processes.push((Process::Running, Vec::new()));
        ProcessId(state.processes.len() - 1)
    }

    /// Runs `future` as part of `process`; a process that is dead starts nothing.
    pub(crate) fn spawn(&self, process: ProcessId, future: BoxFuture<'static, ()>) {
        let mut state = self.0.state.lock();
        if state.processes[process.0].0 == Process::Dead {
            drop(state);
            drop(future);
        } else {
            state.spawned.push((process, future));
        }
    }

    /// Calls `action` when `at` has come.
    pub(crate) fn at(&self, at: u64, action: impl FnOnce() + Send + 'static) {
        self.schedule(at, Action::Call(Box::new(action)));
    }

    /// Calls `action` after `delay`.
    pub(crate) fn after(&self, delay: Duration, action: impl FnOnce() + Send + 'static) {
        self.at(self.now() + nanos(delay), action);
    }

    /// Waits for `at`.
    pub(crate) fn sleep_until(&self, at: u64) -> Sleep {
        Sleep {
            world: self.clone(),
            at,
            slot: None,
        }
    }

    /// Waits for `delay`.
    pub(crate) fn sleep(&self, delay: Duration) -> Sleep {
        self.sleep_until(self.now() + nanos(delay))
    }

    /// Nothing of the process runs until it is resumed; time goes on.
    pub(crate) fn pause(&self, process: ProcessId) -> bool {
        let state = &mut self.0.state.lock().processes[process.0].0;
        let runs = *state == Process::Running;
        if runs {
            *state = Process::Paused;
        }
        runs
    }

    /// Lets a paused process go on.
    pub(crate) fn resume(&self, process: ProcessId) -> bool {
        let mut state = self.0.state.lock();
        let (process, parked) = &mut state.processes[process.0];
        if *process != Process::Paused {
            return false;
        }
        *process = Process::Running;
        let parked = std::mem::take(parked);
        self.0.ready.lock().extend(parked);
        true
    }

    /// Ends the process where it stands: its tasks are dropped.
    pub(crate) fn kill(&self, process: ProcessId) {
        let mut state = self.0.state.lock();
        state.processes[process.0] = (Process::Dead, Vec::new());
        state.deaths = true;
    }

    /// Forgets all that was to happen: it holds on to the world.
    pub(crate) fn clear(&self) {
        let (timers, spawned) = {
            let mut state = self.0.state.lock();
            let timers = std::mem::take(&mut state.timers);
            (timers, std::mem::take(&mut state.spawned))
        };
        drop((timers, spawned));
    }

    fn schedule(&self, at: u64, action: Action) {
        let mut state = self.0.state.lock();
        let number = state.next_timer;
        state.next_timer += 1;
        state.timers.push(Reverse(Timed { at, number, action }));
    }
}

// === impl Executor ===

impl Executor {
    /// Runs the tasks of `world` in an order that `random` chooses.
    pub(crate) fn new(world: World, random: fastrand::Rng) -> Self {
        Self {
            world,
            random,
            tasks: Vec::new(),
            polls: 0,
        }
    }

    /// Lets `time` pass.
    pub(crate) fn run_until(&mut self, end: u64) {
        loop {
            self.adopt();
            self.bury();
            let ready = {
                let mut ready = self.world.0.ready.lock();
                match ready.len() {
                    0 => None,
                    1 => ready.pop(),
                    // Sorted, because libraries wake several waiters in an order of their own.
                    count => {
                        ready.sort_unstable();
                        Some(ready.swap_remove(self.random.usize(..count)))
                    }
                }
            };
            if let Some(task) = ready {
                self.poll(task);
            } else if !self.next_timer(end) {
                self.world.0.now.store(end, Relaxed);
                return;
            }
        }
    }

    /// How often tasks were polled.
    #[cfg(test)]
    pub(crate) const fn polls(&self) -> u64 {
        self.polls
    }

    fn adopt(&mut self) {
        let spawned = std::mem::take(&mut self.world.0.state.lock().spawned);
        for (process, future) in spawned {
            let queued = Arc::new(TaskWaker {
                task: self.tasks.len(),
                queued: AtomicBool::new(false),
                ready: self.world.0.ready.clone(),
            });
            queued.wake_by_ref();
            self.tasks.push(Some(Task {
                process,
                future,
                waker: queued.clone().into(),
                queued,
            }));
        }
    }

    fn bury(&mut self) {
        let dead: Vec<_> = {
            let mut state = self.world.0.state.lock();
            if !std::mem::take(&mut state.deaths) {
                return;
            }
            let is_dead = |task: &Task| state.processes[task.process.0].0 == Process::Dead;
            let dead = |task: &mut Option<Task>| task.take_if(|task| is_dead(task));
            self.tasks.iter_mut().filter_map(dead).collect()
        };
        // Dropped futures may call the world.
        drop(dead);
    }

    fn poll(&mut self, number: usize) {
        let Some(task) = &mut self.tasks[number] else {
            return;
        };
        {
            let mut state = self.world.0.state.lock();
            let (process, parked) = &mut state.processes[task.process.0];
            match process {
                Process::Running => {}
                Process::Paused => return parked.push(number),
                Process::Dead => return,
            }
        }
        self.polls += 1;
        task.queued.queued.store(false, Relaxed);
        let mut context = Context::from_waker(&task.waker);
        if task.future.as_mut().poll(&mut context).is_ready() {
            self.tasks[number] = None;
        }
    }

    fn next_timer(&self, end: u64) -> bool {
        let timed = {
            let mut state = self.world.0.state.lock();
            match state.timers.peek() {
                Some(Reverse(timed)) if timed.at <= end => state.timers.pop(),
                _ => None,
            }
        };
        let Some(Reverse(timed)) = timed else {
            return false;
        };
        self.world.0.now.fetch_max(timed.at, Relaxed);
        match timed.action {
            Action::Call(call) => call(),
            Action::Wake(slot) => {
                let waker = slot.lock().take();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
        true
    }
}

/// Waits for a moment of the world.
pub(crate) struct Sleep {
    world: World,
    at: u64,
    slot: Option<Arc<Slot>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.world.now() >= self.at {
            return Poll::Ready(());
        }
        match &self.slot {
            Some(slot) => *slot.lock() = Some(context.waker().clone()),
            None => {
                let slot = Arc::new(Mutex::new(Some(context.waker().clone())));
                self.world.schedule(self.at, Action::Wake(slot.clone()));
                self.slot = Some(slot);
            }
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(slot) = &self.slot {
            *slot.lock() = None;
        }
    }
}

/// Whole nanoseconds; 584 years at most.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

// === impl ordering ===

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// Ticks of a process that sleeps for 1 ms again and again.
    fn ticks(world: &World, process: ProcessId) -> Arc<AtomicU64> {
        let count = Arc::new(AtomicU64::new(0));
        let (world_, counter) = (world.clone(), count.clone());
        let tick = async move {
            loop {
                world_.sleep(MS(1)).await;
                counter.fetch_add(1, Relaxed);
            }
        };
        world.spawn(process, Box::pin(tick));
        count
    }

    #[test]
    fn a_paused_process_does_nothing_while_time_goes_on_and_a_dead_one_is_gone() {
        let world = World::new();
        let mut executor = Executor::new(world.clone(), fastrand::Rng::with_seed(1));
        let process = world.process();
        let count = ticks(&world, process);
        executor.run_until(nanos(MS(10)));
        assert_eq!(count.load(Relaxed), 10);
        assert!(world.pause(process));
        executor.run_until(nanos(MS(20)));
        assert_eq!(count.load(Relaxed), 10);
        assert!(world.resume(process));
        executor.run_until(nanos(MS(30)));
        // Its timer of the eleventh millisecond counts at the twentieth.
        assert_eq!(count.load(Relaxed), 21);
        world.kill(process);
        executor.run_until(nanos(MS(40)));
        assert_eq!(count.load(Relaxed), 21);
        assert_eq!(Arc::strong_count(&count), 1, "its tasks are dropped");
        assert_eq!(world.now(), nanos(MS(40)));
    }

    #[test]
    fn an_idle_year_passes_at_once() {
        let world = World::new();
        let mut executor = Executor::new(world, fastrand::Rng::with_seed(1));
        executor.run_until(nanos(Duration::from_secs(365 * 86_400)));
        assert_eq!(executor.polls(), 0);
    }
}
