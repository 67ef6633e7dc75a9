//! ZooKeeper's election recipe: an ephemeral sequential node, the smallest leads, each of the
//! others watches the one before it. The session is pinged each third of its time-out, as the Java
//! client does, and closed to resign.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use kvcm_clock::{BootClock, Clock, Moment};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, tcp::OwnedWriteHalf},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use super::{
    ContenderOptions, Lead, Ready,
    jute::{Decoder, Encoder},
};

const ELECTION: &str = "/failover";
const DATA: &str = "/data";

/// Operations, by their numbers in the protocol.
mod op {
    pub(super) const CREATE: i32 = 1;
    pub(super) const EXISTS: i32 = 3;
    pub(super) const SET_DATA: i32 = 5;
    pub(super) const GET_CHILDREN: i32 = 8;
    pub(super) const PING: i32 = 11;
    pub(super) const CHECK: i32 = 13;
    pub(super) const MULTI: i32 = 14;
    pub(super) const CLOSE: i32 = -11;
    pub(super) const ERROR: i32 = -1;
}

const EVENT: i32 = -1;
const PONG: i32 = -2;
const NO_NODE: i32 = -101;
const NODE_EXISTS: i32 = -110;
/// Ephemeral and sequential.
const CANDIDATE: i32 = 3;
/// No frame of ours is longer.
const FRAME_MAX: i32 = 1 << 20;

pub(super) async fn campaign(
    options: &ContenderOptions,
    lead: &Lead,
    resign: &CancellationToken,
    ready: &mut Ready,
) -> anyhow::Result<()> {
    let mut session = Session::open(options).await?;
    for path in [ELECTION, DATA] {
        session.create(path, 0).await?;
    }
    let mine = session.create(&format!("{ELECTION}/n-"), CANDIDATE).await?;
    let mine = mine.context("a sequential node is there already")?;
    ready.tell(session.time_out)?;
    loop {
        let Some(before) = session.before(&mine).await? else {
            break;
        };
        if session.watch(&before).await? {
            session.wait(lead, resign, true).await?;
        }
        if resign.is_cancelled() {
            return session.close().await;
        }
    }
    lead.begin(&mine, session.end());
    session.wait(lead, resign, false).await?;
    lead.end();
    session.close().await
}

/// Writes that count only while the leader's node is there, in a session of their own.
pub(super) struct Store(Session);

impl Store {
    pub(super) async fn connect(options: &ContenderOptions) -> anyhow::Result<Self> {
        Ok(Self(Session::open(options).await?))
    }

    pub(super) async fn write(&mut self, token: &str, number: u64) -> anyhow::Result<bool> {
        let any_version = -1;
        let check = Encoder::default().buffer(token).int(any_version);
        let set = Encoder::default()
            .buffer(DATA)
            .buffer(number.to_string())
            .int(any_version);
        let head = |op, is_end| Encoder::default().int(op).bool(is_end).int(-1);
        let both = head(op::CHECK, false)
            .append(&check)
            .append(&head(op::SET_DATA, false))
            .append(&set)
            .append(&head(op::ERROR, true));
        let (code, answer) = self.0.call(op::MULTI, &both).await?;
        is_done(code, &answer)
    }
}

/// Whether both parts of a write were done: the first result of one that was not is an error.
fn is_done(code: i32, answer: &[u8]) -> anyhow::Result<bool> {
    match code {
        0 => Ok(Decoder(answer).int()? != op::ERROR),
        NO_NODE => Ok(false),
        _ => bail!("the server refuses a write with {code}"),
    }
}

/// A session with its connection, whose end is its end.
struct Session {
    time_out: Duration,
    writer: OwnedWriteHalf,
    frames: mpsc::Receiver<Vec<u8>>,
    reader: tokio::task::JoinHandle<()>,
    last_call: i32,
    pinged: Moment,
    /// When the last ping that was answered was sent.
    renewed: Moment,
    /// Watches that have fired and were not yet waited for.
    events: usize,
}

impl Session {
    async fn open(options: &ContenderOptions) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(options.backend).await?;
        stream.set_nodelay(true)?;
        let (mut from, mut writer) = stream.into_split();
        let asked = i32::try_from(options.lease_ms)?;
        // Version, nothing seen, no session, no password.
        let hello = Encoder::default()
            .int(0)
            .long(0)
            .int(asked)
            .long(0)
            .buffer([0; 16]);
        let sent = BootClock.now();
        writer.write_all(&hello.bool(false).framed()).await?;
        let answer = frame(&mut from).await?;
        let mut answer = Decoder(&answer);
        let (_version, granted) = (answer.int()?, answer.int()?);
        ensure!(granted > 0, "the session is refused");
        let (frames_in, frames) = mpsc::channel(64);
        let reader = tokio::spawn(async move {
            while let Ok(frame) = frame(&mut from).await {
                if frames_in.send(frame).await.is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            time_out: Duration::from_millis(u64::try_from(granted)?),
            writer,
            frames,
            reader,
            last_call: 0,
            pinged: sent,
            renewed: sent,
            events: 0,
        })
    }

    /// When the server may end the session.
    fn end(&self) -> Moment {
        self.renewed + self.time_out
    }

    async fn send(&mut self, call: i32, op: i32, body: &Encoder) -> anyhow::Result<()> {
        let head = Encoder::default().int(call).int(op);
        self.writer.write_all(&head.append(body).framed()).await?;
        Ok(())
    }

    async fn next(&mut self) -> anyhow::Result<Vec<u8>> {
        let frame = self.frames.recv().await;
        frame.context("the server has ended the session")
    }

    /// What is no answer to a call.
    fn note(&mut self, call: i32) {
        match call {
            EVENT => self.events += 1,
            PONG => self.renewed = self.pinged,
            _ => {}
        }
    }

    /// The code and the body of the answer.
    async fn call(&mut self, op: i32, body: &Encoder) -> anyhow::Result<(i32, Vec<u8>)> {
        self.last_call += 1;
        self.send(self.last_call, op, body).await?;
        loop {
            let frame = self.next().await?;
            let mut answer = Decoder(&frame);
            let (call, _change, code) = (answer.int()?, answer.long()?, answer.int()?);
            if call == self.last_call {
                return Ok((code, answer.0.to_vec()));
            }
            self.note(call);
        }
    }

    /// The path of the new node; `None` when there is one already.
    async fn create(&mut self, path: &str, flags: i32) -> anyhow::Result<Option<String>> {
        let (one, all_rights) = (1, 31);
        let body = Encoder::default()
            .buffer(path)
            .buffer("")
            .int(one)
            .int(all_rights);
        let body = body.buffer("world").buffer("anyone").int(flags);
        match self.call(op::CREATE, &body).await? {
            (0, answer) => Ok(Some(Decoder(&answer).text()?)),
            (NODE_EXISTS, _) => Ok(None),
            (code, _) => bail!("{path} cannot be created: {code}"),
        }
    }

    /// The candidate before ours; `None` when ours is the first.
    async fn before(&mut self, mine: &str) -> anyhow::Result<Option<String>> {
        let body = Encoder::default().buffer(ELECTION).bool(false);
        let (code, answer) = self.call(op::GET_CHILDREN, &body).await?;
        ensure!(code == 0, "candidates cannot be listed: {code}");
        predecessor(Decoder(&answer).texts()?, mine)
    }

    /// Watches a node; false when it is gone.
    async fn watch(&mut self, path: &str) -> anyhow::Result<bool> {
        let body = Encoder::default().buffer(path).bool(true);
        match self.call(op::EXISTS, &body).await? {
            (0, _) => Ok(true),
            (NO_NODE, _) => Ok(false),
            (code, _) => bail!("{path} cannot be watched: {code}"),
        }
    }

    /// Keeps the session alive until it is to resign or, `for_event`, a watch fires.
    async fn wait(
        &mut self,
        lead: &Lead,
        resign: &CancellationToken,
        for_event: bool,
    ) -> anyhow::Result<()> {
        loop {
            if for_event && self.events > 0 {
                self.events = 0;
                return Ok(());
            }
            let ping = self.pinged + self.time_out / 3;
            tokio::select! {
                frame = self.frames.recv() => {
                    let frame = frame.context("the server has ended the session")?;
                    self.note(Decoder(&frame).int()?);
                    lead.put_off(self.end());
                }
                () = tokio::time::sleep(ping.since(BootClock.now())) => {
                    self.pinged = BootClock.now();
                    self.send(PONG, op::PING, &Encoder::default()).await?;
                }
                () = resign.cancelled() => return Ok(()),
            }
        }
    }

    async fn close(mut self) -> anyhow::Result<()> {
        self.call(op::CLOSE, &Encoder::default()).await?;
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// The candidate with the next smaller number.
fn predecessor(mut names: Vec<String>, mine: &str) -> anyhow::Result<Option<String>> {
    names.sort_unstable();
    let is_mine = |name: &String| {
        mine.strip_prefix(ELECTION)
            .is_some_and(|own| own[1..] == **name)
    };
    let place = names.iter().position(is_mine).context("our node is gone")?;
    let before = place.checked_sub(1).map(|place| &names[place]);
    Ok(before.map(|name| format!("{ELECTION}/{name}")))
}

/// The bytes of one answer.
async fn frame(from: &mut (impl AsyncReadExt + Unpin)) -> anyhow::Result<Vec<u8>> {
    let length = from.read_i32().await?;
    ensure!(
        (0..=FRAME_MAX).contains(&length),
        "a frame of {length} bytes"
    );
    let mut bytes = vec![0; usize::try_from(length)?];
    from.read_exact(&mut bytes).await?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_waits_for_the_one_before_and_the_first_leads() {
        let names = ["n-0000000012", "n-0000000009", "n-0000000010"].map(str::to_owned);
        let before = |mine: &str| predecessor(names.to_vec(), mine).unwrap();
        assert_eq!(
            before("/failover/n-0000000012").unwrap(),
            "/failover/n-0000000010"
        );
        assert_eq!(
            before("/failover/n-0000000010").unwrap(),
            "/failover/n-0000000009"
        );
        assert_eq!(before("/failover/n-0000000009"), None);
        assert!(predecessor(names.to_vec(), "/failover/n-0000000011").is_err());
    }

    #[test]
    fn a_write_without_its_leader_is_refused() {
        let done = Encoder::default()
            .int(op::CHECK)
            .bool(false)
            .int(0)
            .framed();
        assert!(is_done(0, &done[4..]).unwrap());
        let failed = Encoder::default()
            .int(op::ERROR)
            .bool(false)
            .int(NO_NODE)
            .framed();
        assert!(!is_done(0, &failed[4..]).unwrap());
        assert!(!is_done(NO_NODE, &[]).unwrap());
        assert!(is_done(-4, &[]).is_err());
    }
}
