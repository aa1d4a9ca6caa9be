//! Which worker runs on which core and NUMA node.
//!
//! Workers are dealt out over the nodes in turns, so that a few of them use the memory of all; the cores of a node are
//! used one after the other. Linux tells nodes and their cores under `/sys/devices/system/node`; elsewhere, and when it does
//! not tell, the machine is one node.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Topology {
    /// Node of each worker, from 0.
    pub(crate) nodes: Vec<usize>,
    /// Core of each worker; `None` when it is not known.
    pub(crate) cores: Vec<Option<usize>>,
}

impl Topology {
    /// Of `workers` workers on this machine, or on an imagined one of `simulated_nodes` nodes (unless 0).
    pub(crate) fn new(workers: usize, simulated_nodes: usize) -> Topology {
        // Read once: cores that come while a process runs are found by the next one.
        static MACHINE: OnceLock<Vec<Vec<usize>>> = OnceLock::new();
        match simulated_nodes {
            0 => Topology::of(workers, MACHINE.get_or_init(|| nodes_of_machine(Path::new("/sys/devices/system/node")))),
            nodes => Topology::of(workers, &vec![Vec::new(); nodes]),
        }
    }

    /// Of `workers` workers, given the cores of each node.
    fn of(workers: usize, nodes: &[Vec<usize>]) -> Topology {
        let count = nodes.len().max(1);
        let core = |worker: usize| {
            let cores = nodes.get(worker % count).filter(|cores| !cores.is_empty())?;
            Some(cores[worker / count % cores.len()])
        };
        Topology { nodes: (0..workers).map(|w| w % count).collect(), cores: (0..workers).map(core).collect() }
    }

    /// Number of nodes that have workers.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.iter().max().map_or(1, |&last| last + 1)
    }
}

/// The cores of each node that has some.
fn nodes_of_machine(folder: &Path) -> Vec<Vec<usize>> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let number = |name: &str| name.strip_prefix("node").and_then(|n| n.parse::<usize>().ok());
    let mut nodes: Vec<(usize, Vec<usize>)> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| Some((number(&entry.file_name().to_string_lossy())?, entry.path().join("cpulist"))))
        .filter_map(|(node, list)| Some((node, cores_of_list(&fs::read_to_string(list).ok()?))))
        .filter(|(_, cores)| !cores.is_empty())
        .collect();
    nodes.sort();
    nodes.into_iter().map(|(_, cores)| cores).collect()
}

/// Cores of a list such as `0-3,8,10-11`.
fn cores_of_list(list: &str) -> Vec<usize> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read() {
        assert_eq!(cores_of_list("0-2,8,10-11\n"), [0, 1, 2, 8, 10, 11]);
        assert!(cores_of_list("\n").is_empty());
    }

    #[test]
    fn workers_are_dealt_out_over_nodes_and_then_over_their_cores() {
        let topology = Topology::of(6, &[vec![0, 1], vec![4, 5]]);
        assert_eq!(topology.nodes, [0, 1, 0, 1, 0, 1]);
        assert_eq!(topology.cores, [0, 4, 1, 5, 0, 4].map(Some));
        assert_eq!((topology.nodes(), topology.nodes[3], topology.cores[2]), (2, 1, Some(1)));
    }

    #[test]
    fn a_machine_that_tells_nothing_is_one_node() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(nodes_of_machine(&folder.path().join("none")), Vec::<Vec<usize>>::new());
        let topology = Topology::of(2, &[]);
        assert_eq!((topology.nodes(), topology.cores[1]), (1, None));
        assert_eq!(Topology::new(4, 2).nodes, [0, 1, 0, 1]);
    }

    #[test]
    fn nodes_come_in_order_and_those_without_cores_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for (node, list) in [("node10", "4-5\n"), ("node2", "0-1\n"), ("node3", "\n"), ("possible", "0")] {
            fs::create_dir(folder.path().join(node)).unwrap();
            fs::write(folder.path().join(node).join("cpulist"), list).unwrap();
        }
        assert_eq!(nodes_of_machine(folder.path()), [vec![0, 1], vec![4, 5]]);
    }
}
