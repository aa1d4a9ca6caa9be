//! What everybody outside can see of a job: checkpoints that are complete, and spans of sinks that are committed. It knows nothing of how they came about.

use std::collections::{BTreeMap, BTreeSet};

/// A checkpoint, as the manifest says it.
#[derive(Debug, Clone)]
pub struct Record {
    pub attempt: u64,
    pub number: u64,
    /// How far each split has been read before it.
    pub positions: Vec<u64>,
    /// By node of the attempt: the attempt in which it has stored its part, and the splits that it reads.
    pub parts: Vec<(u64, Vec<usize>)>,
    pub is_finished: bool,
}

#[derive(Default)]
pub struct Ledger {
    /// The newest attempt that has looked for its checkpoint.
    pub newest: u64,
    /// Written by whoever believed to be the owner of the job.
    written: BTreeMap<(u64, u64), Record>,
    /// Checkpoints that count, in the order in which they came to do so.
    pub chain: Vec<Record>,
    /// Number of the checkpoint and of the node.
    visible: BTreeSet<(u64, usize)>,
    /// How far each split's rows can be seen.
    shown: Vec<u64>,
}

impl Ledger {
    pub fn new(splits: usize) -> Ledger {
        Ledger { shown: vec![0; splits], ..Ledger::default() }
    }

    /// A manifest is about to be written.
    pub fn writes(&mut self, record: Record) {
        let Record { attempt, number, parts, positions, .. } = &record;
        assert!(!parts.is_empty(), "checkpoint {number} has no parts");
        for (node, (of, _)) in parts.iter().enumerate() {
            assert_eq!(of, attempt, "checkpoint {number} has what node {node} stored in another attempt");
        }
        let mut read: Vec<usize> = parts.iter().flat_map(|(_, splits)| splits.iter().copied()).collect();
        read.sort_unstable();
        assert_eq!(read, (0..positions.len()).collect::<Vec<_>>(), "every node has said how far it has read, once");
        self.written.insert((*attempt, *number), record);
    }

    /// It has been written, and its writer owns the job.
    pub fn completed(&mut self, attempt: u64, number: u64) {
        assert_eq!(attempt, self.newest, "an old attempt completes checkpoint {number}");
        let record = self.written[&(attempt, number)].clone();
        self.count(record);
    }

    fn count(&mut self, record: Record) {
        if let Some(last) = self.chain.last() {
            assert!(record.number > last.number, "checkpoint {} after {}", record.number, last.number);
            assert!(!last.is_finished, "a checkpoint behind the end");
            let is_read_again = std::iter::zip(&record.positions, &last.positions).any(|(now, before)| now < before);
            assert!(!is_read_again, "checkpoint {} is behind {}", record.number, last.number);
            let shown = (0..last.parts.len()).all(|node| self.visible.contains(&(last.number, node)));
            assert!(shown, "checkpoint {} is complete, and {} is not committed", record.number, last.number);
        }
        self.chain.push(record);
    }

    /// A new attempt resumes from what it has found in the store.
    pub fn resumes(&mut self, attempt: u64, from: Option<(u64, u64)>) {
        assert!(attempt > self.newest, "attempts have rising numbers");
        self.newest = attempt;
        let last = self.chain.last().map(|last| (last.attempt, last.number));
        if from != last {
            // Its writer had written it, and not looked yet whether it owns the job.
            let found = from.and_then(|from| self.written.get(&from)).cloned();
            self.count(found.unwrap_or_else(|| panic!("it resumes from {from:?} instead of {last:?}")));
        }
        // Whoever resumes commits what the checkpoint has.
        if let Some(last) = self.chain.last().cloned() {
            (0..last.parts.len()).for_each(|node| self.commits(last.attempt, last.number, node));
        }
    }

    /// The span that a node has prepared for a checkpoint can be seen from now on.
    pub fn commits(&mut self, attempt: u64, number: u64, node: usize) {
        let found = self.chain.iter().position(|record| (record.attempt, record.number) == (attempt, number));
        let Some(at) = found else {
            panic!("node {node} commits checkpoint {number} of attempt {attempt}, which does not count")
        };
        if !self.visible.insert((number, node)) {
            return;
        }
        assert_eq!(at + 1, self.chain.len(), "checkpoint {number} is committed after a later one is complete");
        let before = at.checked_sub(1).map(|before| self.chain[before].positions.clone());
        for &split in &self.chain[at].parts[node].1 {
            let (from, to) = (before.as_ref().map_or(0, |before| before[split]), self.chain[at].positions[split]);
            assert_eq!(self.shown[split], from, "rows of split {split} are seen twice, or never");
            self.shown[split] = to;
        }
    }

    /// Everything can be seen, once.
    pub fn check_end(&self, units: &[u64]) {
        assert!(self.chain.last().is_some_and(|last| last.is_finished));
        assert_eq!(self.shown, units, "all rows can be seen in the end");
    }
}
