//! The proxy, in front of a server that echoes.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use std::{io::ErrorKind, net::SocketAddr, time::Duration};

use kvcm_testkit::{
    Direction::{ToClient, ToServer},
    Proxy, Rule,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::{Instant, timeout},
};

/// How long something that must not happen is waited for.
const QUIET: Duration = Duration::from_millis(50);
/// How long something that must happen is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Echoes, and tells how many bytes have come and how many connections have ended.
struct Echo {
    address: SocketAddr,
    came: watch::Receiver<usize>,
    ended: watch::Receiver<usize>,
}

async fn echo() -> Echo {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (bytes, came) = watch::channel(0);
    let (ends, ended) = watch::channel(0);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (bytes, ends) = (bytes.clone(), ends.clone());
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                    bytes.send_modify(|count| *count += length);
                    if stream.write_all(&buffer[..length]).await.is_err() {
                        break;
                    }
                }
                ends.send_modify(|count| *count += 1);
            });
        }
    });
    Echo {
        address,
        came,
        ended,
    }
}

async fn reached(mut counter: watch::Receiver<usize>, count: usize) {
    let reached = counter.wait_for(|now| *now >= count);
    timeout(PATIENCE, reached).await.unwrap().unwrap();
}

async fn connect(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(proxy.address()).await.unwrap()
}

async fn receive(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut buffer = vec![0; length];
    let read = stream.read_exact(&mut buffer);
    timeout(PATIENCE, read).await.unwrap().unwrap();
    buffer
}

async fn ask(stream: &mut TcpStream, text: &str) -> Vec<u8> {
    stream.write_all(text.as_bytes()).await.unwrap();
    receive(stream, text.len()).await
}

async fn is_quiet(stream: &mut TcpStream) -> bool {
    timeout(QUIET, stream.read_u8()).await.is_err()
}

/// How the stream ends: none for its regular end.
async fn end(stream: &mut TcpStream) -> Option<ErrorKind> {
    let mut rest = Vec::new();
    let ended = timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    ended.unwrap().err().map(|error| error.kind())
}

#[tokio::test]
async fn bytes_pass_and_are_counted() {
    let server = echo().await;
    let proxy = Proxy::start(server.address).unwrap();
    let mut client = connect(&proxy).await;
    assert_eq!(ask(&mut client, "abc").await, b"abc");
    assert_eq!(ask(&mut client, "de").await, b"de");
    assert_eq!((proxy.bytes(ToServer), proxy.bytes(ToClient)), (5, 5));
    assert_eq!((proxy.round_trips(), proxy.accepted()), (2, 1));
    assert_eq!(proxy.connections(), 1);
    drop(client);
    reached(server.ended, 1).await;
    timeout(PATIENCE, proxy.until_connections(0)).await.unwrap();
}

#[tokio::test]
async fn a_stalled_direction_goes_on_where_it_stopped() {
    let server = echo().await;
    let proxy = Proxy::start(server.address).unwrap();
    let mut client = connect(&proxy).await;
    ask(&mut client, "a").await;
    proxy.set(ToServer, Rule::Stall);
    client.write_all(b"bcd").await.unwrap();
    assert!(is_quiet(&mut client).await);
    assert_eq!(*server.came.borrow(), 1);
    proxy.set(ToServer, Rule::Pass);
    assert_eq!(receive(&mut client, 3).await, b"bcd");
}

#[tokio::test]
async fn a_black_hole_leaves_its_connections_half_open_for_good() {
    let server = echo().await;
    let proxy = Proxy::start(server.address).unwrap();
    let mut client = connect(&proxy).await;
    ask(&mut client, "a").await;
    proxy.set_both(Rule::BlackHole);
    client.write_all(b"b").await.unwrap();
    assert!(is_quiet(&mut client).await);
    proxy.set_both(Rule::Pass);
    client.write_all(b"c").await.unwrap();
    assert!(is_quiet(&mut client).await);
    drop(client);
    assert_eq!(ask(&mut connect(&proxy).await, "d").await, b"d");
    // The server has never heard of the end of the first.
    reached(server.ended.clone(), 1).await;
    assert_eq!((*server.came.borrow(), *server.ended.borrow()), (2, 1));
    assert!(proxy.connections() >= 1);
}

#[tokio::test]
async fn forgotten_connections_are_half_open_and_new_ones_are_not() {
    let server = echo().await;
    let proxy = Proxy::start(server.address).unwrap();
    let mut client = connect(&proxy).await;
    ask(&mut client, "a").await;
    proxy.forget_all();
    assert_eq!(ask(&mut connect(&proxy).await, "b").await, b"b");
    reached(server.ended.clone(), 1).await;
    client.write_all(b"c").await.unwrap();
    assert!(is_quiet(&mut client).await);
    assert_eq!(*server.came.borrow(), 2);
}

#[tokio::test]
async fn an_answer_can_vanish_after_its_question_arrived() {
    let server = echo().await;
    let proxy = Proxy::start(server.address).unwrap();
    proxy.set(ToClient, Rule::BlackHole);
    let mut client = connect(&proxy).await;
    client.write_all(b"abc").await.unwrap();
    reached(server.came.clone(), 3).await;
    assert!(is_quiet(&mut client).await);
}

#[tokio::test]
async fn a_half_closed_direction_ends_and_the_other_does_not() {
    let server = echo().await;
    let proxy = Proxy::start(server.address).unwrap();
    let mut client = connect(&proxy).await;
    ask(&mut client, "a").await;
    proxy.set(ToClient, Rule::HalfClose);
    assert_eq!(end(&mut client).await, None);
    client.write_all(b"bc").await.unwrap();
    reached(server.came.clone(), 3).await;
}

#[tokio::test]
async fn a_reset_comes_with_the_next_bytes_of_its_direction() {
    let server = echo().await;
    let proxy = Proxy::start(server.address).unwrap();
    let mut client = connect(&proxy).await;
    ask(&mut client, "a").await;
    proxy.set(ToClient, Rule::Reset);
    assert!(is_quiet(&mut client).await);
    client.write_all(b"b").await.unwrap();
    assert_eq!(end(&mut client).await, Some(ErrorKind::ConnectionReset));
    reached(server.came.clone(), 2).await;
    reached(server.ended.clone(), 1).await;
    proxy.set(ToClient, Rule::Pass);
    assert_eq!(ask(&mut connect(&proxy).await, "c").await, b"c");
}

#[tokio::test]
async fn one_held_chunk_arrives_when_it_is_released_although_its_sender_has_gone() {
    let server = echo().await;
    let proxy = Proxy::start(server.address).unwrap();
    let (mut first, mut second) = (connect(&proxy).await, connect(&proxy).await);
    proxy.set(ToServer, Rule::hold_containing("late"));
    assert_eq!(ask(&mut first, "soon").await, b"soon");
    first.write_all(b"the late one").await.unwrap();
    timeout(PATIENCE, proxy.until_held()).await.unwrap();
    drop(first);
    // Only one is held.
    assert_eq!(ask(&mut second, "late").await, b"late");
    assert_eq!((proxy.held(), *server.came.borrow()), (1, 8));
    proxy.release();
    reached(server.came.clone(), 20).await;
    reached(server.ended.clone(), 1).await;
    assert_eq!(proxy.held(), 0);
}

#[tokio::test]
async fn what_follows_a_held_chunk_waits_behind_it() {
    let server = echo().await;
    let proxy = Proxy::start(server.address).unwrap();
    let mut client = connect(&proxy).await;
    ask(&mut client, "a").await;
    proxy.set(ToClient, Rule::hold());
    client.write_all(b"bc").await.unwrap();
    timeout(PATIENCE, proxy.until_held()).await.unwrap();
    client.write_all(b"de").await.unwrap();
    reached(server.came.clone(), 5).await;
    assert!(is_quiet(&mut client).await);
    proxy.release();
    assert_eq!(receive(&mut client, 4).await, b"bcde");
}

#[tokio::test]
async fn delays_keep_the_order_and_last_at_least_what_they_say() {
    let server = echo().await;
    let proxy = Proxy::start(server.address).unwrap();
    let mut client = connect(&proxy).await;
    let rule = Rule::Delay {
        least: Duration::from_millis(20),
        jitter: Duration::from_millis(20),
        seed: 7,
    };
    proxy.set_both(rule);
    let start = Instant::now();
    let text: Vec<_> = (0..50).collect();
    for byte in &text {
        client.write_all(&[*byte]).await.unwrap();
    }
    assert_eq!(receive(&mut client, 50).await, text);
    assert!(start.elapsed() >= Duration::from_millis(40));
}

#[tokio::test]
async fn a_throttled_direction_takes_its_time() {
    let server = echo().await;
    let proxy = Proxy::start(server.address).unwrap();
    let mut client = connect(&proxy).await;
    let bytes_per_second = 10_000;
    proxy.set(ToServer, Rule::Throttle { bytes_per_second });
    let start = Instant::now();
    let text = "x".repeat(2000);
    assert_eq!(ask(&mut client, &text).await.len(), 2000);
    assert!(start.elapsed() >= Duration::from_millis(190));
}

#[tokio::test]
async fn an_exact_number_of_bytes_arrives_before_the_rest_is_lost() {
    let server = echo().await;
    let proxy = Proxy::start(server.address).unwrap();
    let mut client = connect(&proxy).await;
    ask(&mut client, "abc").await;
    proxy.set(ToServer, Rule::DropAfter { bytes: 4 });
    assert_eq!(ask(&mut client, "de").await, b"de");
    client.write_all(b"fghi").await.unwrap();
    assert_eq!(receive(&mut client, 2).await, b"fg");
    assert!(is_quiet(&mut client).await);
    assert_eq!(*server.came.borrow(), 7);
}

#[tokio::test]
async fn connections_can_be_refused_and_accepted_again_while_open_ones_go_on() {
    let server = echo().await;
    let proxy = Proxy::start(server.address).unwrap();
    let mut client = connect(&proxy).await;
    ask(&mut client, "a").await;
    proxy.refuse().unwrap();
    let refused = TcpStream::connect(proxy.address()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    ask(&mut client, "b").await;
    proxy.accept().unwrap();
    ask(&mut connect(&proxy).await, "c").await;
}

#[tokio::test]
async fn cutting_resets_all_connections_and_lets_new_ones_in() {
    let server = echo().await;
    let proxy = Proxy::start(server.address).unwrap();
    let mut clients = [connect(&proxy).await, connect(&proxy).await];
    for client in &mut clients {
        ask(client, "a").await;
    }
    proxy.set(ToServer, Rule::hold());
    clients[0].write_all(b"b").await.unwrap();
    timeout(PATIENCE, proxy.until_held()).await.unwrap();
    proxy.cut_all();
    for client in &mut clients {
        assert_eq!(end(client).await, Some(ErrorKind::ConnectionReset));
    }
    timeout(PATIENCE, proxy.until_connections(0)).await.unwrap();
    assert_eq!(proxy.held(), 0);
    ask(&mut connect(&proxy).await, "c").await;
    assert_eq!(*server.came.borrow(), 3);
}

#[tokio::test]
async fn a_server_that_is_not_there_resets_the_client() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = free.local_addr().unwrap();
    drop(free);
    let proxy = Proxy::start(target).unwrap();
    // Fast enough, the reset is seen by the connect itself.
    let end = match TcpStream::connect(proxy.address()).await {
        Ok(mut client) => end(&mut client).await,
        Err(error) => Some(error.kind()),
    };
    assert_eq!(end, Some(ErrorKind::ConnectionReset));
}

#[test]
fn a_test_without_a_runtime_can_use_it_and_dropping_it_frees_the_port() {
    let proxy = Proxy::start(([127, 0, 0, 1], 1).into()).unwrap();
    let address = proxy.address();
    proxy.refuse().unwrap();
    proxy.accept().unwrap();
    drop(proxy);
    std::net::TcpListener::bind(address).unwrap();
}
