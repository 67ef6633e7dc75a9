//! Starts a packaged server and sees whether it serves.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

use anyhow::{Context, bail};

use crate::shell;

/// How often something is looked at, and how many times.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: u32 = 600;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Ends a server whatever happens.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only when it has ended.
        if self.0.kill().is_ok() {
            let _ = self.0.wait();
        }
    }
}

/// Runs `binary` with the configuration file `config` on free ports until it leads, asks it to
/// end, and expects that it does so well.
pub(crate) fn run(binary: &Path, config: &Path) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let ports_file = folder.path().join("ports.json");
    let mut command = Command::new(binary);
    command.current_dir(folder.path()).arg("-c").arg(config);
    // The environment is stronger than the file.
    command.env("kvcm_service_ports_file", &ports_file);
    command.env("kvcm_service_bind_address", "127.0.0.1");
    for port in ["rpc_port", "http_port", "admin_rpc_port", "admin_http_port"] {
        command.env(format!("kvcm_service_{port}"), "0");
    }
    command
        .stdin(Stdio::null())
        .stderr(fs::File::create(folder.path().join("log"))?);
    let child = command
        .spawn()
        .with_context(|| format!("cannot start {}", binary.display()))?;
    let mut server = Server(child);
    let served = serve(&mut server.0, &ports_file).with_context(|| {
        let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        format!("{} does not work; its log:\n{log}", binary.display())
    });
    served.map(|()| eprintln!("{} leads, serves and ends well", binary.display()))
}

fn serve(server: &mut Child, ports_file: &Path) -> anyhow::Result<()> {
    let port = wait("tell its ports", || {
        let text = fs::read(ports_file).ok()?;
        let ports: serde_json::Value = serde_json::from_slice(&text).ok()?;
        u16::try_from(ports["admin_http_port"].as_u64()?).ok()
    })?;
    wait("lead", || {
        get(port, "/leaderz")
            .ok()
            .filter(|answer| answer.starts_with("HTTP/1.1 200"))
            .map(drop)
    })?;
    for path in ["/livez", "/readyz"] {
        let answer = get(port, path)?;
        if !answer.starts_with("HTTP/1.1 200") {
            bail!("{path}: {answer}");
        }
    }
    shell::run(
        Command::new("kill")
            .arg("-TERM")
            .arg(server.id().to_string()),
    )?;
    let status = wait("end", || server.try_wait().ok().flatten())?;
    if !status.success() {
        bail!("it ended with {status}");
    }
    Ok(())
}

fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
    for _ in 0..LOOKS {
        if let Some(found) = look() {
            return Ok(found);
        }
        sleep(LOOK);
    }
    bail!("it does not {what} within {:?}", LOOK * LOOKS)
}

fn get(port: u16, path: &str) -> anyhow::Result<String> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
