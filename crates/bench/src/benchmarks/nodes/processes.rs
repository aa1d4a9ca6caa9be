//! Nodes as processes: `millstream node`, and `millstream run` as the first one.

use super::links::Links;
use super::quota::Quota;
use crate::suite::{Failure, timed};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// For processes of this machine, which nobody else reaches.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const TOKEN_VARIABLE: &str = "MILLSTREAM_CLUSTER_TOKEN";
/// For nodes that are not at the loopback.
const INSECURE: &str = "--insecure-cluster";

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
    /// What they are connected by, if not the loopback.
    links: Option<Links>,
}

/// What a run of the first nodes gave.
pub(super) struct ClusterRun {
    /// From the start of the first process to its end.
    pub(super) seconds: f64,
    /// Of all nodes.
    pub(super) processor_s: f64,
    /// Of the loopback, or of the busiest way of a link, with all that is around frames.
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
    fn start(program: &Path, name: &str, cores: f64, place: Option<(&Links, usize)>) -> Result<Node, Failure> {
        let quota = Quota::new(name, cores)?;
        let (mut command, host) = match place {
            None => (quota.command(program), "127.0.0.1".to_string()),
            Some((links, node)) => (links.command(&quota, program, node), links.host(node)),
        };
        command.args(["node", "--listen", &format!("{host}:0")]).env(TOKEN_VARIABLE, TOKEN);
        command.args(place.map(|_| INSECURE));
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stderr.take().ok_or("a node says nothing")?).lines();
        let first = lines.next().ok_or("a node has ended")??;
        let address = first.rsplit(' ').next().unwrap_or_default().to_string();
        // What it says is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        let node = Node { child, address, quota };
        if node.address.starts_with(&format!("{host}:")) {
            Ok(node)
        } else {
            Err(format!("a node says: {first}").into())
        }
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
    /// So many nodes, each with a part of a core, at the loopback.
    pub(super) fn start(nodes: usize, cores: f64) -> Result<Cluster, Failure> {
        Cluster::at(nodes, cores, None)
    }

    /// The same, each in a network namespace of its own.
    pub(super) fn with_links(nodes: usize, cores: f64) -> Result<Cluster, Failure> {
        Cluster::at(nodes, cores, Some(Links::new(nodes)?))
    }

    /// What the nodes are connected by, if not by the loopback.
    pub(super) fn links(&self) -> Option<&Links> {
        self.links.as_ref()
    }

    fn at(nodes: usize, cores: f64, links: Option<Links>) -> Result<Cluster, Failure> {
        let program = std::env::current_exe()?.with_file_name("millstream");
        if !program.exists() {
            return Err(format!("{} is missing: make release", program.display()).into());
        }
        let name = |node: usize| format!("millstream-bench-{}-{node}", std::process::id());
        let start = |node| Node::start(&program, &name(node), cores, links.as_ref().map(|links| (links, node)));
        let others = (1..nodes).map(start).collect::<Result<_, _>>()?;
        Ok(Cluster { others, first: Quota::new(&name(0), cores)?, program, links })
    }

    /// What runs a script on the first `nodes` nodes.
    pub(super) fn command(&self, script: &Path, nodes: usize) -> Command {
        let mut command = match &self.links {
            None => self.first.command(&self.program),
            Some(links) => links.command(&self.first, &self.program, 0),
        };
        command.arg("run").arg(script).arg("--quiet").env(TOKEN_VARIABLE, TOKEN);
        if let Some(links) = &self.links {
            command.args([INSECURE, "--cluster-listen", &format!("{}:0", links.host(0))]);
        }
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
        let (used, wire) = (self.used_s()?, self.carried()?);
        let (seconds, output) = timed(|| command.output());
        let (output, processor_s) = (output?, self.used_s()? - used);
        let ways = self.carried()?.into_iter().zip(wire).map(|(now, before)| now - before);
        let wire_bytes = ways.fold(0.0, f64::max);
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

    /// Bytes so far: of the loopback, or of each way of each link.
    fn carried(&self) -> Result<Vec<f64>, Failure> {
        self.links.as_ref().map_or_else(|| Ok(vec![wire_bytes()?]), Links::carried)
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
