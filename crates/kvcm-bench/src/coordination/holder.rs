//! The one who holds the lock: another process, which is this program again, or for a backend of
//! one process another contender.

use std::{
    io::{BufRead, Write},
    process::Stdio,
    thread,
};

use anyhow::{Context, bail};
use kvcm_clock::{BootClock, Clock, Moment};
use kvcm_fence::Epoch;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::mpsc,
};

use crate::coordination::{
    contender::{Contender, LONG},
    place::{Place, backend},
};

const LOCK: &str = "lock";
const UNLOCK: &str = "unlock";

/// Holds the lock when it is told to.
pub(super) enum Holder {
    Here(Contender, Option<Epoch>),
    There(Box<Other>),
}

/// Another process. Killed when it is dropped.
pub(super) struct Other {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    pub(super) fn start(place: &Place) -> anyhow::Result<Self> {
        Ok(match place.uri() {
            None => Self::Here(Contender::new(place.backend()?, "holder")?, None),
            Some(uri) => Self::There(Box::new(Other::start(&uri)?)),
        })
    }

    /// Takes the lock, which must be free.
    pub(super) async fn lock(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Here(contender, epoch) => *epoch = Some(contender.lock(LONG).await?),
            Self::There(other) => other.lock().await?,
        }
        Ok(())
    }

    /// Frees it; tells when the backend was asked to.
    pub(super) async fn unlock(&mut self) -> anyhow::Result<Moment> {
        match self {
            Self::Here(contender, epoch) => {
                let epoch = epoch.take().context("unlock without lock")?;
                let asked = BootClock.now();
                contender.unlock(epoch).await?;
                Ok(asked)
            }
            Self::There(other) => other.order(UNLOCK).await,
        }
    }
}

impl Other {
    pub(super) fn start(uri: &str) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut child = Command::new(program)
            .args(["--holder", uri])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the holder")?;
        let orders = child.stdin.take().context("the holder cannot be told")?;
        let answers = child.stdout.take().context("the holder cannot be heard")?;
        Ok(Self {
            child,
            orders,
            answers: BufReader::new(answers).lines(),
        })
    }

    pub(super) async fn lock(&mut self) -> anyhow::Result<()> {
        self.order(LOCK).await?;
        Ok(())
    }

    /// SIGKILL. Not waited for: a zombie is dead enough.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.start_kill().context("cannot kill the holder")
    }

    /// The answer is the moment when the backend was asked.
    async fn order(&mut self, order: &str) -> anyhow::Result<Moment> {
        self.orders
            .write_all(format!("{order}\n").as_bytes())
            .await?;
        let answer = self.answers.next_line().await?;
        let answer = answer.context("the holder has ended, see its error above")?;
        let nanos = answer.parse().context("the holder says something else")?;
        Ok(Moment::from_nanos(nanos))
    }
}

/// Is the other process: obeys what comes on stdin until it closes.
///
/// # Errors
/// When the backend does not do what it must.
pub async fn serve(uri: &str) -> anyhow::Result<()> {
    let contender = Contender::new(backend(uri)?, "holder")?;
    let mut orders = orders()?;
    let mut epoch = None;
    while let Some(order) = orders.recv().await {
        let asked = BootClock.now();
        match (order.as_str(), epoch.take()) {
            (LOCK, None) => epoch = Some(contender.lock(LONG).await?),
            (UNLOCK, Some(epoch)) => contender.unlock(epoch).await?,
            (other, _) => bail!("`{other}` is no order, or not now"),
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", asked.as_nanos())?;
        out.flush()?;
    }
    Ok(())
}

/// Reads stdin on a thread, so that connections go on meanwhile.
fn orders() -> anyhow::Result<mpsc::Receiver<String>> {
    let (sender, orders) = mpsc::channel(1);
    thread::Builder::new().spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    })?;
    Ok(orders)
}
