//! A small HTTP/1.1 client, for tests: one connection for each request.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// No answer of a test takes longer; without a limit a hung server hangs the test.
const LIMIT: Duration = Duration::from_secs(30);

/// Status and body of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpReply {
    /// 200 and so on.
    pub status: u16,
    /// The body, undecoded.
    pub body: Vec<u8>,
}

impl HttpReply {
    /// The body as JSON.
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("not JSON: {}", String::from_utf8_lossy(&self.body)))
    }
}

/// `POST path` with a body that is sent as it is.
pub async fn http_post(address: SocketAddr, path: &str, body: &[u8]) -> anyhow::Result<HttpReply> {
    request(address, "POST", path, &[], body).await
}

/// The same with more headers, name and value each.
pub async fn http_post_with(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> anyhow::Result<HttpReply> {
    request(address, "POST", path, headers, body).await
}

/// `GET path`.
pub async fn http_get(address: SocketAddr, path: &str) -> anyhow::Result<HttpReply> {
    request(address, "GET", path, &[], &[]).await
}

async fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> anyhow::Result<HttpReply> {
    let headers = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    let headers: String = headers.collect();
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n{headers}\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        parse(&answer)
    };
    tokio::time::timeout(LIMIT, exchange)
        .await
        .with_context(|| format!("no answer within {LIMIT:?}"))
        .flatten()
        .with_context(|| format!("{method} http://{address}{path}"))
}

/// Takes an answer apart, which ends where the connection does.
fn parse(answer: &[u8]) -> anyhow::Result<HttpReply> {
    let split = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let split = split.context("the answer ends within its headers")?;
    let head = std::str::from_utf8(&answer[..split]).context("headers that are not text")?;
    let body = &answer[split + 4..];
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.with_context(|| format!("not an HTTP answer: {first}"))?;
    for line in lines {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") && value.parse() != Ok(body.len()) {
            bail!("the answer says {value} bytes and has {}", body.len());
        }
        if name.eq_ignore_ascii_case("transfer-encoding") {
            bail!("the answer comes in parts ({value}), which is not read here");
        }
    }
    Ok(HttpReply {
        status,
        body: body.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_request_goes_out_whole_and_the_answer_comes_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut got = vec![0; 4096];
            let mut length = 0;
            while !got[..length].ends_with(b"{\"a\":1}") {
                length += stream.read(&mut got[length..]).await.unwrap();
            }
            let answer = b"HTTP/1.1 400 Bad\r\nContent-Length: 2\r\n\r\n{}";
            stream.write_all(answer).await.unwrap();
            String::from_utf8(got[..length].to_vec()).unwrap()
        });
        let headers = [("x-a", "1")];
        let reply = http_post_with(address, "/api/x", &headers, br#"{"a":1}"#);
        let reply = reply.await.unwrap();
        assert_eq!(
            (reply.status, reply.json().unwrap()),
            (400, serde_json::json!({}))
        );
        let got = server.await.unwrap();
        assert!(got.starts_with("POST /api/x HTTP/1.1\r\n"), "{got}");
        assert!(got.contains("content-length: 7\r\n"), "{got}");
        assert!(got.contains("x-a: 1\r\n"), "{got}");
    }

    #[test]
    fn answers_that_are_cut_or_in_parts_are_refused() {
        for answer in [
            "HTTP/1.1 200 OK\r\n",
            "SSH-2.0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        ] {
            assert!(parse(answer.as_bytes()).is_err(), "{answer}");
        }
    }
}
