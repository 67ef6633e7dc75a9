//! One write after the other to one node, over one connection.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use serde_json::{Value, json};

use super::{kvcm::INSTANCE, sentinel::MASTER, system::Target};

/// Between two looks at whether an answer is still wanted.
const LOOK: Duration = Duration::from_millis(50);
/// No answer here is longer.
const BODY_MAX: usize = 1 << 20;

/// What a node answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is written.
    Done,
    /// It does not lead, and nothing was done.
    Refused,
    /// It may have been written.
    Unknown,
}

/// A connection to one node.
pub(super) struct Writer {
    target: Target,
    stream: BufReader<Patient>,
    /// Who names the master, where somebody does.
    sentinel: Option<BufReader<Patient>>,
    keys: i64,
}

/// Waits for an answer as long as one is wanted, however long that takes.
struct Patient {
    stream: TcpStream,
    stop: Arc<AtomicBool>,
}

impl Writer {
    /// Keys count up from `first_key`, so that no two writes have the same.
    pub(super) fn connect(
        target: Target,
        first_key: i64,
        stop: &Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let (address, sentinel) = match target {
            Target::Kvcm(address) | Target::Contender(address) => (address, None),
            Target::Redis { server, sentinel } => (server, Some(sentinel)),
        };
        let stream = Patient::connect(address, stop)?;
        let sentinel = sentinel.map(|address| Patient::connect(address, stop));
        Ok(Self {
            target,
            stream,
            sentinel: sentinel.transpose()?,
            keys: first_key,
        })
    }

    /// The key of the next write.
    pub(super) fn next_key(&self) -> i64 {
        self.keys
    }

    /// One write, and its answer.
    ///
    /// # Errors
    /// When the connection is broken: then nobody knows what came of it.
    pub(super) fn write(&mut self) -> io::Result<Answer> {
        let key = self.keys;
        self.keys += 1;
        match self.target {
            Target::Contender(_) => {
                self.send(b"w")?;
                let mut answer = [0];
                self.stream.read_exact(&mut answer)?;
                Ok(match &answer {
                    b"y" => Answer::Done,
                    b"n" => Answer::Refused,
                    _ => Answer::Unknown,
                })
            }
            Target::Redis { server, .. } => {
                if self.named_master()? != server.port() {
                    return Ok(Answer::Refused);
                }
                self.send(format!("SET probe {key}\r\n").as_bytes())?;
                Ok(redis_answer(&line(&mut self.stream)?))
            }
            Target::Kvcm(_) => self.write_block(key),
        }
    }

    fn write_block(&mut self, key: i64) -> io::Result<Answer> {
        let start = json!({
            "trace_id": "failover",
            "instance_id": INSTANCE,
            "block_keys": [key],
            "write_timeout_seconds": 60,
        });
        let answer = self.post("/api/startWriteCache", &start)?;
        let started = kvcm_answer(&answer);
        if started != Answer::Done {
            return Ok(started);
        }
        let finish = json!({
            "trace_id": "failover",
            "instance_id": INSTANCE,
            "write_session_id": answer["write_session_id"],
            "success_blocks": { "bool_masks": { "values": [true] } },
        });
        Ok(kvcm_answer(&self.post("/api/finishWriteCache", &finish)?))
    }

    /// The port of the master, as the sentinel names it now.
    fn named_master(&mut self) -> io::Result<u16> {
        let sentinel = self.sentinel.as_mut().ok_or_else(|| bad("no sentinel"))?;
        let question = format!("SENTINEL GET-MASTER-ADDR-BY-NAME {MASTER}\r\n");
        sentinel.get_mut().stream.write_all(question.as_bytes())?;
        read_port(sentinel)
    }

    fn post(&mut self, path: &str, body: &Value) -> io::Result<Value> {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.send(request.as_bytes())?;
        read_reply(&mut self.stream)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().stream.write_all(bytes)
    }
}

impl Patient {
    fn connect(address: SocketAddr, stop: &Arc<AtomicBool>) -> io::Result<BufReader<Self>> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
        let stop = Arc::clone(stop);
        Ok(BufReader::new(Self { stream, stop }))
    }
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
        loop {
            match self.stream.read(buffer) {
                Err(error) if matches!(error.kind(), WouldBlock | TimedOut | Interrupted) => {
                    if self.stop.load(Relaxed) {
                        return Err(TimedOut.into());
                    }
                }
                read => return read,
            }
        }
    }
}

fn line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    line.truncate(line.trim_end().len());
    Ok(line)
}

/// Two texts, the second of which is a port.
fn read_port(stream: &mut impl BufRead) -> io::Result<u16> {
    let lines = [(); 5].map(|()| line(stream));
    let [count, _, _, _, port] = lines;
    if count? != "*2" {
        return Err(bad("a sentinel that does not know the master"));
    }
    port?.parse().map_err(|_| bad("a port that is no number"))
}

fn redis_answer(line: &str) -> Answer {
    match line {
        "+OK" => Answer::Done,
        // A replica, or a server that is not ready.
        _ if line.starts_with("-READONLY") || line.starts_with("-LOADING") => Answer::Refused,
        _ => Answer::Unknown,
    }
}

fn kvcm_answer(reply: &Value) -> Answer {
    match reply["header"]["status"]["code"].as_str() {
        Some("OK") => Answer::Done,
        Some("SERVER_NOT_LEADER") => Answer::Refused,
        _ => Answer::Unknown,
    }
}

/// The JSON of one HTTP/1.1 answer, after which the connection goes on.
fn read_reply(stream: &mut impl BufRead) -> io::Result<Value> {
    let mut length = None;
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (name, value) = line.trim_end().split_once(':').unwrap_or(("", ""));
        // The status line has no colon, nor has the empty one that ends them all.
        if line.trim_end().is_empty() {
            break;
        }
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok();
        }
    }
    let length = length.filter(|length| *length <= BODY_MAX);
    let length = length.ok_or_else(|| bad("an answer without a length"))?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    serde_json::from_slice(&body).map_err(|_| bad("an answer that is not JSON"))
}

fn bad(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_answers_on_one_connection_are_told_apart() {
        let mut bytes: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nx: y:z\r\n\r\n{\"a\":1}\
                                 HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(read_reply(&mut bytes).unwrap(), json!({ "a": 1 }));
        assert_eq!(read_reply(&mut bytes).unwrap(), json!({}));
        let end = read_reply(&mut bytes).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn answers_without_length_or_json_are_errors() {
        for bytes in [
            "HTTP/1.1 200 OK\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno",
        ] {
            let error = read_reply(&mut bytes.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bytes}");
        }
    }

    #[test]
    fn a_sentinel_names_a_port() {
        let mut bytes: &[u8] = b"*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6380\r\n";
        assert_eq!(read_port(&mut bytes).unwrap(), 6380);
        assert!(read_port(&mut &b"*-1\r\n"[..]).is_err());
        assert!(read_port(&mut &b""[..]).is_err());
    }

    #[test]
    fn what_is_refused_is_not_unknown() {
        let code = |code: &str| kvcm_answer(&json!({ "header": { "status": { "code": code } } }));
        let codes = ["OK", "SERVER_NOT_LEADER", "IO_ERROR"].map(code);
        assert_eq!(codes, [Answer::Done, Answer::Refused, Answer::Unknown]);
        let lines = ["+OK", "-READONLY You can't write", "-ERR x"].map(redis_answer);
        assert_eq!(lines, [Answer::Done, Answer::Refused, Answer::Unknown]);
    }
}
