//! Nodes in network namespaces of their own, each with a link to a bridge, whose rate can be limited (Linux, root, `ip` and `tc`).

use super::quota::Quota;
use crate::suite::Failure;
use std::path::Path;
use std::process::Command;

/// What a link takes at once; and how long what is too much waits before it is dropped.
const BURST_BYTES: u64 = 64 << 10;
const WAIT_MS: u64 = 2000;

/// Namespaces and the links between them. Gone when it is dropped; their processes must have ended.
pub(super) struct Links {
    /// What the names begin with, which are short.
    name: String,
    nodes: usize,
}

impl Links {
    /// For so many nodes.
    pub(super) fn new(nodes: usize) -> Result<Links, Failure> {
        let links = Links { name: format!("ms{}", std::process::id()), nodes };
        let bridge = links.bridge();
        ip(&["link", "add", "name", &bridge, "type", "bridge"])?;
        ip(&["link", "set", &bridge, "up"])?;
        for node in 0..nodes {
            let (space, outside) = (links.space(node), links.outside(node));
            ip(&["netns", "add", &space])?;
            ip(&["link", "add", &outside, "type", "veth", "peer", "name", "eth0", "netns", &space])?;
            ip(&["link", "set", &outside, "master", &bridge, "up"])?;
            ip(&["-n", &space, "addr", "add", &format!("{}/24", links.host(node)), "dev", "eth0"])?;
            ip(&["-n", &space, "link", "set", "lo", "up"])?;
            ip(&["-n", &space, "link", "set", "eth0", "up"])?;
        }
        Ok(links)
    }

    fn bridge(&self) -> String {
        format!("{}b", self.name)
    }

    fn space(&self, node: usize) -> String {
        format!("{}n{node}", self.name)
    }

    /// The end of a link at the bridge.
    fn outside(&self, node: usize) -> String {
        format!("{}v{node}", self.name)
    }

    /// Where a node is reached.
    pub(super) fn host(&self, node: usize) -> String {
        format!("10.213.77.{}", node + 1)
    }

    /// A command that runs a program in the namespace of a node.
    pub(super) fn command(&self, quota: &Quota, program: &Path, node: usize) -> Command {
        let mut command = quota.command(Path::new("ip"));
        command.args(["netns", "exec", &self.space(node)]).arg(program);
        command
    }

    /// Bytes so far, of both ways of each link.
    pub(super) fn carried(&self) -> Result<Vec<f64>, Failure> {
        let ways = (0..self.nodes).flat_map(|node| ["rx_bytes", "tx_bytes"].map(|way| (node, way)));
        ways.map(|(node, way)| {
            let path = format!("/sys/class/net/{}/statistics/{way}", self.outside(node));
            Ok(std::fs::read_to_string(path)?.trim().parse()?)
        })
        .collect()
    }

    /// Has each way of each link carry so many bytes a second at most; `None`: as many as it can.
    pub(super) fn limit(&self, bytes_per_s: Option<f64>) -> Result<(), Failure> {
        for node in 0..self.nodes {
            let (space, outside) = (self.space(node), self.outside(node));
            for device in [vec!["-n", &*space, "qdisc"], vec!["qdisc"]] {
                let dev = if device.len() > 1 { "eth0" } else { &*outside };
                match bytes_per_s {
                    None => tc(&[&device[..], &["del", "dev", dev, "root"]].concat())?,
                    Some(rate) => {
                        let (rate, burst) = (format!("{:.0}bit", rate * 8.0), format!("{BURST_BYTES}"));
                        let (wait, of_tbf) = (format!("{WAIT_MS}ms"), ["root", "tbf", "rate"]);
                        let limits = [&*rate, "burst", &*burst, "latency", &*wait];
                        tc(&[&device[..], &["replace", "dev", dev], &of_tbf, &limits].concat())?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        // What stays is in nobody's way; the ends of links go with the namespaces.
        for node in 0..self.nodes {
            let _ = ip(&["netns", "del", &self.space(node)]);
        }
        let _ = ip(&["link", "del", &self.bridge()]);
    }
}

fn ip(arguments: &[&str]) -> Result<(), Failure> {
    run("ip", arguments)
}

fn tc(arguments: &[&str]) -> Result<(), Failure> {
    run("tc", arguments)
}

fn run(program: &str, arguments: &[&str]) -> Result<(), Failure> {
    let output = Command::new(program).args(arguments).output().map_err(|e| format!("{program}: {e} (iproute2)"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {} (needs root and Linux)", arguments.join(" "), said.trim()).into())
}
