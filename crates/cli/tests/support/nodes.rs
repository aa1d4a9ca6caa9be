//! Processes that take part in runs of others.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use crate::support::millstream;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A process that takes part in runs.
pub struct Node {
    child: Child,
    pub address: String,
    said: Arc<Mutex<String>>,
}

impl Node {
    pub fn start(folder: &Path, listen: &str) -> Node {
        Node::of(millstream(folder), listen)
    }

    /// One that a command with its variables begins.
    pub fn of(mut command: Command, listen: &str) -> Node {
        command.args(["node", "--listen", listen]).env("MILLSTREAM_CLUSTER_TOKEN", TOKEN);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let address = first.rsplit(' ').next().unwrap().to_string();
        assert!(address.starts_with("127.0.0.1:"), "{first}");
        // What it says is read, so that it never waits for a reader.
        let said: Arc<Mutex<String>> = Arc::default();
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut said = heard.lock().unwrap();
                said.push_str(&line);
                said.push('\n');
            }
        });
        Node { child, address, said }
    }

    /// Ends it, and starts another one at its place.
    pub fn replace(&mut self, folder: &Path) {
        self.kill();
        *self = Node::start(folder, &self.address);
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// What it has said since it listens.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// So many.
pub fn nodes(count: usize, folder: &Path) -> Vec<Node> {
    (0..count).map(|_| Node::start(folder, "127.0.0.1:0")).collect()
}

/// Where they are, as `--cluster` says it.
pub fn addresses(nodes: &[Node]) -> String {
    let addresses: Vec<&str> = nodes.iter().map(|node| node.address.as_str()).collect();
    format!("static://{}", addresses.join(","))
}

/// Has a command run on nodes as well, if there are any; it waits so many seconds for those that are gone.
pub fn on<'a>(command: &'a mut Command, nodes: &[Node], seconds: &str) -> &'a mut Command {
    if nodes.is_empty() {
        return command;
    }
    command.args(["--cluster", &addresses(nodes)]);
    command.args(["--cluster-replacement-timeout", seconds]).env("MILLSTREAM_CLUSTER_TOKEN", TOKEN)
}
