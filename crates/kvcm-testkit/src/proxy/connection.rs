//! One connection: two directions.

use std::sync::atomic::AtomicBool;

use tokio::net::TcpStream;

use super::{
    Direction,
    control::Control,
    pump::{Pump, Reset},
};

/// Carries bytes until both directions have ended, or the connection is reset.
pub(super) async fn run(
    mut client: TcpStream,
    mut server: TcpStream,
    control: &Control,
    number: u64,
) {
    let mut script = control.script.subscribe();
    let (cuts, forgets) = {
        let script = script.borrow();
        (script.cuts, script.forgets)
    };
    for side in [&client, &server] {
        // Only slower without.
        let _ = side.set_nodelay(true);
    }
    let has_asked = AtomicBool::new(false);
    let ended = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let pump = |from, to, direction| Pump {
            from,
            to,
            direction,
            control,
            number,
            forgets,
            has_asked: &has_asked,
        };
        let up = pump(from_client, to_server, Direction::ToServer);
        let down = pump(from_server, to_client, Direction::ToClient);
        tokio::select! {
            ended = async { tokio::try_join!(up.run(), down.run()).map(|_| ()) } => ended,
            _ = script.wait_for(|script| script.cuts != cuts) => Err(Reset),
        }
    };
    if ended.is_err() {
        reset(&client);
        reset(&server);
    }
}

/// The peer gets a reset when `stream` is dropped.
pub(super) fn reset(stream: &TcpStream) {
    // Fails only when the peer has gone.
    let _ = stream.set_zero_linger();
}
