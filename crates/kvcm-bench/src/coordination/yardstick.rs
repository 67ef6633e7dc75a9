//! What timers, disk and server themselves take, without a backend: no call can be faster.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    time::Duration,
};

use anyhow::ensure;
use kvcm_clock::{BootClock, Clock, Timer, TokioTimer};

use crate::{
    coordination::{Options, place::Place, report::Measure},
    samples::Samples,
};

/// How often a disk is made to sync.
const SYNCS: u32 = 300;
/// How often a timer is waited for.
const SLEEPS: u32 = 300;
/// Each for so long.
const SLEEP: Duration = Duration::from_millis(5);

pub(super) async fn measure(place: &Place, options: &Options) -> anyhow::Result<Vec<Measure>> {
    let kind = place.kind();
    let late = Measure::new(kind, "the machine: lateness of timers", lateness().await);
    let mut measures = vec![late];
    measures.extend(match place {
        Place::Memory(_) => vec![],
        Place::File(folder) => {
            // On the same disk; gone before the backend starts.
            let scratch = tempfile::tempdir_in(folder.path())?;
            let name = times(SYNCS, || sync_name(scratch.path()))?;
            let file = times(SYNCS, || sync_file(scratch.path()))?;
            vec![
                Measure::new(kind, "the disk: new name, fsync of directory", name),
                Measure::new(kind, "the disk: 400 bytes, fdatasync", file),
            ]
        }
        Place::Redis(server) => {
            let mut stream = TcpStream::connect(server.address())?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            let ping = times(options.calls, || ping(&mut stream))?;
            vec![Measure::new(kind, "the server: PING over TCP", ping)]
        }
    });
    Ok(measures)
}

/// What every takeover at the end of a lease waits at least.
async fn lateness() -> Samples {
    let timer = TokioTimer::new(BootClock);
    let mut late = Vec::new();
    for _ in 0..SLEEPS {
        let end = BootClock.now() + SLEEP;
        timer.sleep_until(end).await;
        late.push(BootClock.now().since(end));
    }
    late.into_iter().collect()
}

fn times(count: u32, mut work: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<Samples> {
    let sample = |_| {
        let start = BootClock.now();
        work()?;
        Ok(BootClock.now().since(start))
    };
    (0..count).map(sample).collect()
}

fn sync_name(folder: &Path) -> anyhow::Result<()> {
    let path = folder.join("name");
    let new = OpenOptions::new().write(true).create_new(true).open(&path);
    drop(new?);
    File::open(folder)?.sync_all()?;
    Ok(fs::remove_file(path)?)
}

fn sync_file(folder: &Path) -> anyhow::Result<()> {
    let mut file = File::create(folder.join("file"))?;
    file.write_all(&[b'x'; 400])?;
    Ok(file.sync_data()?)
}

fn ping(stream: &mut TcpStream) -> anyhow::Result<()> {
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer)?;
    ensure!(
        &answer == b"+PONG\r\n",
        "redis-server answers something else"
    );
    Ok(())
}
