//! A TCP proxy that breaks connections as networks do.

mod connection;
mod control;
mod listener;
mod pump;
mod rule;

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        mpsc::{SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use anyhow::Context;
use tokio::{net::TcpSocket, sync::mpsc};

use control::Control;
use listener::{Listener, Order};

pub use rule::{Direction, Rule};

/// The thread of the proxy does nothing else, so it answers soon on any machine.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// A proxy on a free loopback port in front of one server, scripted by a test.
///
/// It runs on a thread of its own, so it works for blocking tests as well, and goes on while a
/// test waits. A rule counts for all connections, also those that come later, and for all bytes
/// that the proxy has not read yet when [`set`](Self::set) returns. Dropping it closes everything.
pub struct Proxy {
    address: SocketAddr,
    control: Arc<Control>,
    orders: mpsc::Sender<(Order, SyncSender<io::Result<()>>)>,
    thread: Option<JoinHandle<()>>,
    /// Keeps the port ours while nobody listens on it.
    _reserved: TcpSocket,
}

impl Proxy {
    /// Starts a proxy that passes everything on to `target`.
    ///
    /// # Errors
    /// When no port or thread is left.
    pub fn start(target: SocketAddr) -> anyhow::Result<Self> {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), target)
    }

    /// The same at an address of one's own, such as 127.0.0.11 and the port of `target`: a server
    /// that advertises that host is then reached through the proxy by all who are told of it.
    ///
    /// # Errors
    /// When the address is taken, or no thread is left.
    pub fn start_at(address: SocketAddr, target: SocketAddr) -> anyhow::Result<Self> {
        let reserved = listener::bind(address)?;
        let address = reserved.local_addr()?;
        let control = Arc::new(Control::default());
        control.aim(target);
        let (orders, taken) = mpsc::channel(8);
        let listener = Listener {
            address,
            control: control.clone(),
            orders: taken,
        };
        let thread = std::thread::Builder::new()
            .name("proxy".to_owned())
            .spawn(move || listener.run_here())?;
        let proxy = Self {
            address,
            control,
            orders,
            thread: Some(thread),
            _reserved: reserved,
        };
        proxy.accept()?;
        Ok(proxy)
    }

    /// Where clients connect to.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What happens to the bytes of one direction from now on.
    pub fn set(&self, direction: Direction, rule: Rule) {
        self.control.set(direction, rule);
    }

    /// [`set`](Self::set) for both directions.
    pub fn set_both(&self, rule: Rule) {
        self.set(Direction::ToServer, rule.clone());
        self.set(Direction::ToClient, rule);
    }

    /// New connections are accepted, as at the start.
    ///
    /// # Errors
    /// When the port cannot be listened on.
    pub fn accept(&self) -> anyhow::Result<()> {
        self.order(Order::Accept)
    }

    /// New connections are refused as by a host where nobody listens. Open ones stay.
    ///
    /// # Errors
    /// When the proxy's thread has ended.
    pub fn refuse(&self) -> anyhow::Result<()> {
        self.order(Order::Refuse)
    }

    /// Resets all open connections, on both sides.
    pub fn cut_all(&self) {
        self.control.cut_all();
    }

    /// Loses all that is still to come over the open connections, as a firewall does that has
    /// forgotten them: they are half-open from now on. New ones are not affected.
    pub fn forget_all(&self) {
        self.control.forget_all();
    }

    /// New connections go to `target` from now on, as when an address moves to another machine.
    /// Open ones stay.
    pub fn aim(&self, target: SocketAddr) {
        self.control.aim(target);
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        *self.control.open.borrow()
    }

    /// How many connections have been accepted.
    pub fn accepted(&self) -> u64 {
        self.control.accepted()
    }

    /// How often a client has sent after its server had answered, or for the first time, over all
    /// connections: the number of round trips of protocols that ask and answer.
    pub fn round_trips(&self) -> u64 {
        self.control.round_trips()
    }

    /// How many bytes the proxy has read of those that go in `direction`.
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.control.bytes(direction)
    }

    /// How many chunks are held.
    pub fn held(&self) -> usize {
        *self.control.held.borrow()
    }

    /// Waits until a chunk is held.
    pub async fn until_held(&self) {
        let mut held = self.control.held.subscribe();
        // Ends only with the sender, which we hold.
        let _ = held.wait_for(|held| *held > 0).await;
    }

    /// Waits until `count` connections or fewer are open.
    pub async fn until_connections(&self, count: usize) {
        let mut open = self.control.open.subscribe();
        let _ = open.wait_for(|open| *open <= count).await;
    }

    /// Sends all held chunks on, also of those senders that have gone away since.
    pub fn release(&self) {
        self.control.release();
    }

    fn order(&self, order: Order) -> anyhow::Result<()> {
        let (answer, answered) = sync_channel(1);
        self.orders
            .try_send((order, answer))
            .context("the proxy has ended")?;
        answered
            .recv_timeout(ANSWER_LIMIT)
            .context("the proxy does not answer")?
            .with_context(|| format!("the proxy at {}", self.address))
    }
}

// === impl Drop, Debug ===

impl Drop for Proxy {
    fn drop(&mut self) {
        self.control.end();
        if let Some(thread) = self.thread.take() {
            // A panic of the proxy shows in the test by what it does not do.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({} {:?})", self.address, self.control)
    }
}
