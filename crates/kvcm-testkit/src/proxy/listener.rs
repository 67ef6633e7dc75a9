//! Accepting connections, or not.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, mpsc::SyncSender},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::mpsc,
    task::JoinSet,
};

use super::{connection, control::Control};

const BACKLOG: u32 = 1024;

/// Whether to accept connections.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    Accept,
    Refuse,
}

pub(super) struct Listener {
    pub(super) address: SocketAddr,
    pub(super) control: Arc<Control>,
    pub(super) orders: mpsc::Receiver<(Order, SyncSender<io::Result<()>>)>,
}

impl Listener {
    /// Runs on this thread until the proxy ends.
    pub(super) fn run_here(self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        // Without a runtime nobody answers the first order, which is an error of the start.
        if let Ok(runtime) = runtime {
            runtime.block_on(self.run());
        }
    }

    async fn run(mut self) {
        let mut script = self.control.script.subscribe();
        let mut listener = None;
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                _ = script.wait_for(|script| script.is_over) => return,
                Some((order, answer)) = self.orders.recv() => {
                    // Nobody waits for the answer only when the test has failed.
                    let _ = answer.send(self.obey(order, &mut listener));
                }
                client = accept(listener.as_ref()) => {
                    let number = self.control.opened();
                    let control = self.control.clone();
                    connections.spawn(async move {
                        serve(client, &control, number).await;
                        control.closed();
                    });
                }
                Some(_) = connections.join_next() => {}
            }
        }
    }

    fn obey(&self, order: Order, listener: &mut Option<TcpListener>) -> io::Result<()> {
        match order {
            Order::Refuse => *listener = None,
            Order::Accept if listener.is_some() => {}
            Order::Accept => *listener = Some(bind(self.address)?.listen(BACKLOG)?),
        }
        Ok(())
    }
}

/// A socket on a port that several sockets of ours may be bound to, one of which listens.
pub(super) fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    if let Some(listener) = listener {
        loop {
            match listener.accept().await {
                Ok((client, _)) => return client,
                // Of that connection (it was reset), or of too many open files.
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }
    std::future::pending().await
}

async fn serve(client: TcpStream, control: &Control, number: u64) {
    let target = control.script.borrow().target;
    let server = match target {
        Some(target) => TcpStream::connect(target).await,
        None => Err(io::ErrorKind::NotConnected.into()),
    };
    match server {
        Ok(server) => connection::run(client, server, control, number).await,
        // What its client would have seen without us, as near as it can be.
        Err(_) => connection::reset(&client),
    }
}
