//! Scripts that run inside the server.

use redis::{Cmd, FromRedisValue, Pipeline, RedisResult};

use crate::{Link, class::is_missing_script};

/// A Lua script: sent by its digest, and with its text when the server does not know it.
#[derive(Debug)]
pub struct Script {
    text: String,
    digest: String,
}

/// Replicas that must have what a script wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// How many.
    pub count: u32,
    /// How long the server waits for them, in milliseconds; 0 would be for ever.
    pub timeout_ms: u64,
}

/// What a script answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// Its result.
    pub value: T,
    /// How many replicas have what it wrote; none when they were not asked.
    pub acknowledged: Option<u32>,
}

impl Script {
    /// A script from its pieces.
    pub fn new(pieces: &[&str]) -> Self {
        let text = pieces.concat();
        let digest = redis::Script::new(&text).get_hash().to_owned();
        Self { text, digest }
    }

    /// Runs it in one round trip (two when the server does not know it yet), `WAIT` for
    /// `replicas` included. The clock of the server is read along with it.
    ///
    /// # Errors
    /// What the server or the driver says, as it is.
    pub async fn run<T: FromRedisValue>(
        &self,
        link: &mut Link,
        keys: &[&str],
        args: &[&str],
        replicas: Option<Replicas>,
    ) -> RedisResult<Answer<T>> {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        self.run_bytes(link, keys, &args, replicas).await
    }

    /// [`run`](Self::run) with arguments that need not be text.
    ///
    /// # Errors
    /// What the server or the driver says, as it is.
    pub async fn run_bytes<T: FromRedisValue>(
        &self,
        link: &mut Link,
        keys: &[&str],
        args: &[&[u8]],
        replicas: Option<Replicas>,
    ) -> RedisResult<Answer<T>> {
        let by_digest = command("EVALSHA", &self.digest, keys, args);
        match send(link, by_digest, replicas).await {
            Err(error) if is_missing_script(&error) => {
                let by_text = command("EVAL", &self.text, keys, args);
                send(link, by_text, replicas).await
            }
            other => other,
        }
    }

    /// Runs it once for each of `keys`, in one round trip.
    ///
    /// # Errors
    /// What the server or the driver says; of several errors the first.
    pub async fn run_each<T: FromRedisValue>(
        &self,
        link: &mut Link,
        keys: &[Vec<&str>],
        args: &[&str],
    ) -> RedisResult<Vec<T>> {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        let mut pipeline = Pipeline::with_capacity(keys.len() + 1);
        // Loaded first: one unknown digest would fail the whole batch.
        pipeline.cmd("SCRIPT").arg("LOAD").arg(&self.text).ignore();
        for keys in keys {
            pipeline.add_command(command("EVALSHA", &self.digest, keys, &args));
        }
        pipeline.query_async(&mut link.connection).await
    }
}

fn command(name: &str, script: &str, keys: &[&str], args: &[&[u8]]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(script).arg(keys.len()).arg(keys).arg(args);
    command
}

async fn send<T: FromRedisValue>(
    link: &mut Link,
    command: Cmd,
    replicas: Option<Replicas>,
) -> RedisResult<Answer<T>> {
    let mut pipeline = Pipeline::with_capacity(4);
    // First, for a server that waits for replicas answers what follows only when it has given up.
    pipeline.cmd("TIME");
    if link.place.is_asking {
        pipeline.cmd("ASKING").ignore();
    }
    pipeline.add_command(command);
    if let Some(Replicas { count, timeout_ms }) = replicas {
        pipeline.cmd("WAIT").arg(count).arg(timeout_ms);
    }
    let connection = &mut link.connection;
    let (time, value, acknowledged) = match replicas {
        Some(_) => {
            let (time, value, acknowledged) = pipeline.query_async(connection).await?;
            (time, value, Some(acknowledged))
        }
        None => {
            let (time, value) = pipeline.query_async(connection).await?;
            (time, value, None)
        }
    };
    link.saw_time(time);
    Ok(Answer {
        value,
        acknowledged,
    })
}
