//! How to start one node.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{Ports, server_binary};

/// Name, folder and configuration of one node. Log and ports file lie in the folder, named after
/// the node.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    name: String,
    dir: PathBuf,
    program: Vec<OsString>,
    config: Vec<(String, String)>,
    ready_within: Duration,
}

impl NodeSpec {
    /// A node with the configuration that every test needs: loopback only, free ports. Fails when
    /// the server is not built.
    pub fn new(name: &str, dir: &Path) -> anyhow::Result<Self> {
        Ok(Self::with_program(name, dir, [server_binary()?.into()]))
    }

    /// The same with a program of one's own and its first arguments: another version of the
    /// server, or a wrapper around it.
    pub fn with_program(
        name: &str,
        dir: &Path,
        program: impl IntoIterator<Item = OsString>,
    ) -> Self {
        let mut spec = Self {
            name: name.to_owned(),
            dir: dir.to_owned(),
            program: program.into_iter().collect(),
            config: Vec::new(),
            ready_within: Duration::from_secs(30),
        };
        let ports_file = spec.ports_file().to_string_lossy().into_owned();
        for (key, value) in [
            ("kvcm.leader_elector.node_id", name),
            ("kvcm.service.bind_address", "127.0.0.1"),
            ("kvcm.service.advertised_host", "127.0.0.1"),
            ("kvcm.service.ports_file", &ports_file),
            ("kvcm.service.rpc_port", "0"),
            ("kvcm.service.http_port", "0"),
            ("kvcm.service.admin_rpc_port", "0"),
            ("kvcm.service.admin_http_port", "0"),
        ] {
            spec = spec.set(key, value);
        }
        spec
    }

    /// Sets a configuration key, over an earlier value.
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.config.retain(|(other, _)| other != key);
        self.config.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Keeps the ports that the node had, so that it comes back at its old address.
    pub fn on_ports(self, ports: &Ports) -> Self {
        // 0 is how sharing the gRPC port is said.
        let admin_rpc = match ports.admin_rpc_port {
            port if port == ports.rpc_port => 0,
            port => port,
        };
        self.set("kvcm.service.rpc_port", &ports.rpc_port.to_string())
            .set("kvcm.service.http_port", &ports.http_port.to_string())
            .set("kvcm.service.admin_rpc_port", &admin_rpc.to_string())
            .set(
                "kvcm.service.admin_http_port",
                &ports.admin_http_port.to_string(),
            )
    }

    /// How long a start may take until the node serves; 30 s if not set, for slow machines.
    pub fn ready_within(mut self, time: Duration) -> Self {
        self.ready_within = time;
        self
    }

    /// The node's name, which is its node id.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it prints, of all its starts.
    pub fn log_file(&self) -> PathBuf {
        self.dir.join(format!("{}.log", self.name))
    }

    pub(crate) fn ports_file(&self) -> PathBuf {
        self.dir.join(format!("{}.ports.json", self.name))
    }

    pub(crate) fn start_limit(&self) -> Duration {
        self.ready_within
    }

    /// Program and arguments.
    pub(crate) fn command_line(&self) -> Vec<OsString> {
        let mut words = self.program.clone();
        for (key, value) in &self.config {
            words.push("-e".into());
            words.push(format!("{key}={value}").into());
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(spec: &NodeSpec) -> Vec<String> {
        let words = spec.command_line().into_iter();
        words.map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn the_last_value_of_a_key_is_the_one_given() {
        let spec = NodeSpec::with_program("a", Path::new("/x"), ["prog".into(), "first".into()])
            .set("k", "1")
            .set("k", "2");
        let words = words(&spec);
        assert_eq!(words[..3], ["prog", "first", "-e"]);
        assert!(words.contains(&"kvcm.leader_elector.node_id=a".to_owned()));
        assert!(words.contains(&"kvcm.service.ports_file=/x/a.ports.json".to_owned()));
        assert!(words.contains(&"k=2".to_owned()) && !words.contains(&"k=1".to_owned()));
    }

    #[test]
    fn a_shared_admin_port_stays_shared() {
        let ports = Ports {
            rpc_port: 5,
            http_port: 6,
            admin_rpc_port: 5,
            admin_http_port: 8,
            debug_http_port: None,
        };
        let spec = NodeSpec::with_program("a", Path::new("/x"), ["prog".into()]).on_ports(&ports);
        let words = words(&spec);
        for word in [
            "rpc_port=5",
            "http_port=6",
            "admin_rpc_port=0",
            "admin_http_port=8",
        ] {
            assert!(words.contains(&format!("kvcm.service.{word}")), "{word}");
        }
    }
}
