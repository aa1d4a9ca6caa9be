//! Nodes as processes: `millstream node`, and `millstream run` as the first one.

use super::quota::Quota;
use crate::suite::{Failure, timed};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// For processes of this machine, which listen at its loopback only.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const TOKEN_VARIABLE: &str = "MILLSTREAM_CLUSTER_TOKEN";

/// A node that waits for runs. Ended when it is dropped, before its quota.
pub(super) struct Node {
    child: Child,
    address: String,
    quota: Quota,
}

/// The nodes, of which the first is started for each run.
pub(super) struct Cluster {
    others: Vec<Node>,
    first: Quota,
    program: PathBuf,
}

/// What a run of the first nodes gave.
pub(super) struct ClusterRun {
    /// From the start of the first process to its end.
    pub(super) seconds: f64,
    /// Of all nodes.
    pub(super) processor_s: f64,
    /// Of the loopback, with all that is around frames.
    pub(super) wire_bytes: f64,
    /// What the first node has done.
    pub(super) stats: Value,
}

/// What processes that do not know of each other took for their parts.
pub(super) struct Apart {
    /// Until the last has ended.
    pub(super) seconds: f64,
    /// Of all.
    pub(super) processor_s: f64,
}

impl Node {
    fn start(program: &Path, name: &str, cores: f64) -> Result<Node, Failure> {
        let quota = Quota::new(name, cores)?;
        let mut command = quota.command(program);
        command.args(["node", "--listen", "127.0.0.1:0"]).env(TOKEN_VARIABLE, TOKEN);
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stderr.take().ok_or("a node says nothing")?).lines();
        let first = lines.next().ok_or("a node has ended")??;
        let address = first.rsplit(' ').next().unwrap_or_default().to_string();
        // What it says is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        let node = Node { child, address, quota };
        if node.address.starts_with("127.0.0.1:") { Ok(node) } else { Err(format!("a node says: {first}").into()) }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Cluster {
    /// So many nodes, each with a part of a core.
    pub(super) fn start(nodes: usize, cores: f64) -> Result<Cluster, Failure> {
        let program = std::env::current_exe()?.with_file_name("millstream");
        if !program.exists() {
            return Err(format!("{} is missing: make release", program.display()).into());
        }
        let name = |node: usize| format!("millstream-bench-{}-{node}", std::process::id());
        let others = (1..nodes).map(|node| Node::start(&program, &name(node), cores)).collect::<Result<_, _>>()?;
        Ok(Cluster { others, first: Quota::new(&name(0), cores)?, program })
    }

    /// What runs a script on the first `nodes` nodes.
    pub(super) fn command(&self, script: &Path, nodes: usize) -> Command {
        let mut command = self.first.command(&self.program);
        command.arg("run").arg(script).arg("--quiet").env(TOKEN_VARIABLE, TOKEN);
        let others: Vec<&str> = self.others[..nodes - 1].iter().map(|node| node.address.as_str()).collect();
        if !others.is_empty() {
            command.args(["--cluster", &format!("static://{}", others.join(","))]);
        }
        command
    }

    /// Runs a script on the first `nodes` nodes.
    pub(super) fn run(&self, script: &Path, nodes: usize) -> Result<ClusterRun, Failure> {
        let mut command = self.command(script, nodes);
        command.args(["--stats", "json"]);
        let (used, wire) = (self.used_s()?, wire_bytes()?);
        let (seconds, output) = timed(|| command.output());
        let (output, processor_s, wire_bytes) = (output?, self.used_s()? - used, wire_bytes()? - wire);
        let text = String::from_utf8_lossy(&output.stderr);
        let stats = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).next_back();
        match stats {
            Some(stats) if output.status.success() => Ok(ClusterRun { seconds, processor_s, wire_bytes, stats }),
            _ => Err(format!("on {nodes} nodes: {text}").into()),
        }
    }

    /// Runs a script on each of the nodes at once, of which none knows of the others: what the machine gives to that number of processes.
    pub(super) fn apart(&self, scripts: &[PathBuf]) -> Result<Apart, Failure> {
        let quotas = [&self.first].into_iter().chain(self.others.iter().map(|node| &node.quota));
        let used = self.used_s()?;
        let (seconds, ended) = timed(|| -> Result<(), Failure> {
            let start = |(quota, script): (&Quota, &PathBuf)| {
                quota.command(&self.program).arg("run").arg(script).arg("--quiet").stderr(Stdio::piped()).spawn()
            };
            let running: Vec<Child> = quotas.zip(scripts).map(start).collect::<Result<_, _>>()?;
            for child in running {
                let output = child.wait_with_output()?;
                if !output.status.success() {
                    return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
                }
            }
            Ok(())
        });
        ended?;
        Ok(Apart { seconds, processor_s: self.used_s()? - used })
    }

    fn used_s(&self) -> Result<f64, Failure> {
        let quotas = self.others.iter().map(|node| &node.quota).chain([&self.first]);
        quotas.map(Quota::used_s).sum()
    }
}

/// What the loopback has carried.
fn wire_bytes() -> Result<f64, Failure> {
    let text = std::fs::read_to_string("/proc/net/dev")?;
    carried(&text).ok_or_else(|| "no loopback in /proc/net/dev".into())
}

fn carried(text: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.trim().strip_prefix("lo:"))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_loopback_has_carried_is_found() {
        let text = "Inter-|   Receive\n face |bytes    packets\n    lo: 1234 7 0 0\n  eth0: 99 1 0 0\n";
        assert_eq!(carried(text), Some(1234.0));
        assert_eq!(carried("  eth0: 99 1 0 0\n"), None);
    }
}
