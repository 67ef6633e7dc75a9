//! Redis as the one to compare with: a key for each block, its URI as the value.

use bytes::Bytes;
use kvcm_testkit::RedisServer;

use crate::serve::client::{Client, Rpc};

/// A Redis that writes nothing to disk.
pub(super) fn start() -> anyhow::Result<RedisServer> {
    RedisServer::start(&[])
}

/// A command as it is sent.
#[derive(Debug)]
pub(super) struct Command(Vec<u8>);

impl Command {
    pub(super) fn new(name: &str, words: usize) -> Self {
        let mut command = Self(format!("*{}\r\n", words + 1).into_bytes());
        command.word(name.as_bytes());
        command
    }

    pub(super) fn word(&mut self, word: &[u8]) {
        self.0
            .extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        self.0.extend_from_slice(word);
        self.0.extend_from_slice(b"\r\n");
    }

    pub(super) fn into_bytes(self) -> Bytes {
        self.0.into()
    }
}

/// Looks keys up.
pub(super) fn mget(keys: &[i64]) -> Bytes {
    let mut command = Command::new("MGET", keys.len());
    for key in keys {
        command.word(key.to_string().as_bytes());
    }
    command.into_bytes()
}

/// Writes keys, with one value for each.
pub(super) fn mset<'a>(keys: &[i64], mut value: impl FnMut(usize) -> &'a str) -> Bytes {
    let mut command = Command::new("MSET", 2 * keys.len());
    for (at, key) in keys.iter().enumerate() {
        command.word(key.to_string().as_bytes());
        command.word(value(at).as_bytes());
    }
    command.into_bytes()
}

/// Has the client's connection use a database.
pub(super) async fn select(client: &mut Client, database: &str) -> anyhow::Result<()> {
    let mut command = Command::new("SELECT", 1);
    command.word(database.as_bytes());
    client.call(Rpc::Start, command.into_bytes(), 5).await?;
    Ok(())
}

/// Empties a database.
pub(super) async fn empty(client: &mut Client, database: &str) -> anyhow::Result<()> {
    select(client, database).await?;
    let command = Command::new("FLUSHDB", 0).into_bytes();
    client.call(Rpc::Start, command, 5).await?;
    Ok(())
}

/// How many values of an answer to MGET are there before the first that is not.
pub(super) fn prefix(answer: &[u8]) -> Option<usize> {
    let line = |at: usize| {
        let rest = answer.get(at..)?;
        let end = rest.iter().position(|byte| *byte == b'\r')?;
        let number: i64 = std::str::from_utf8(&rest[1..end]).ok()?.parse().ok()?;
        Some((number, at + end + 2))
    };
    let (count, mut at) = line(0)?;
    for found in 0..usize::try_from(count).ok()? {
        let (length, value) = line(at)?;
        let Ok(length) = usize::try_from(length) else {
            return Some(found);
        };
        at = value + length + 2;
    }
    usize::try_from(count).ok()
}

/// How many values of an answer to MGET are there.
pub(super) fn found(answer: &[u8]) -> usize {
    let mut lines = answer.split(|byte| *byte == b'\n');
    let has_value = |line: &&[u8]| line.starts_with(b"$") && !line.starts_with(b"$-1");
    lines.by_ref().filter(has_value).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_what_redis_reads() {
        assert_eq!(mget(&[-7]), "*2\r\n$4\r\nMGET\r\n$2\r\n-7\r\n");
        assert_eq!(
            mset(&[5], |_| "u"),
            "*3\r\n$4\r\nMSET\r\n$1\r\n5\r\n$1\r\nu\r\n"
        );
        assert_eq!(prefix(b"*3\r\n$1\r\na\r\n$-1\r\n$1\r\nb\r\n"), Some(1));
        assert_eq!(prefix(b"*1\r\n$1\r\na\r\n"), Some(1));
        assert_eq!(found(b"*3\r\n$1\r\na\r\n$-1\r\n$1\r\nb\r\n"), 2);
    }
}
