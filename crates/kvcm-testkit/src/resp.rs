//! Just enough of Redis' protocol to give orders to a server.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, bail};

const LIMIT: Duration = Duration::from_secs(60);

/// One command over a connection of its own.
pub(crate) fn command(address: SocketAddr, words: &[&str]) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(request.as_bytes())?;
    answer(&mut BufReader::new(stream))
}

fn answer(reader: &mut BufReader<TcpStream>) -> anyhow::Result<String> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let line = line.trim_end();
    let (kind, text) = line.split_at_checked(1).context("the connection ended")?;
    match kind {
        "+" | ":" => Ok(text.to_owned()),
        "-" => bail!("{text}"),
        "$" => {
            let length: i64 = text.parse()?;
            let Ok(length) = usize::try_from(length) else {
                return Ok(String::new());
            };
            let mut bytes = vec![0; length + 2];
            reader.read_exact(&mut bytes)?;
            bytes.truncate(length);
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
        "*" => {
            let count = text.parse::<i64>()?.max(0);
            let elements: anyhow::Result<Vec<_>> = (0..count).map(|_| answer(reader)).collect();
            Ok(elements?.join("\n"))
        }
        _ => bail!("cannot read the answer `{line}`"),
    }
}
