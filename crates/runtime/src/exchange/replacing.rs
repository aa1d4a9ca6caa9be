//! Nodes that another process takes the place of while the others go on: in a query whose nodes send each other nothing.
//!
//! ```text
//! lost ─► no cut is made ─► what it has stored of the checkpoint under way is awaited ─► the span that it has prepared is committed
//!      ─► another process begins with the last complete checkpoint ─► it is told the splits, and the cuts that it has missed ─► cuts are made
//! ```
//!
//! Only the first node and the lost one have to do with it: rows of the others lead nowhere else. The splits of the lost node are as they were
//! in the last complete checkpoint, and so is what its sinks have shown. A checkpoint under way that it had not stored is stored by the process in
//! its place soon: it has hardly read anything since the one before.
//!
//! Before the first checkpoint of a job nobody is replaced: some sources begin where the world is when they are opened (the end of a topic), so all have
//! to begin together.

use super::{Assignment, NodeMessage, Nodes};
use crate::ids::Generation;
use crate::schedule::cut_timing::Purpose;
use millstream_types::Diagnostic;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A node that is lost, and how another process can take its place.
#[derive(Debug)]
pub struct LostNode {
    /// Its number.
    pub node: usize,
    /// Why it is lost.
    pub why: Diagnostic,
    /// The checkpoint to begin with.
    pub checkpoint: u64,
    /// How many cuts of the run it is not told of: those before.
    pub cuts: u32,
    /// How many of them were made for tables or checkpoints: the next checkpoint has the number behind them.
    pub table_cuts: u32,
    /// By sink of the plan: what has to be found where it writes to ([`Sink::share`](millstream_connectors::Sink::share)).
    pub places: Vec<Option<String>>,
}

/// Finds processes that take the place of nodes.
pub trait Replacements: Send + Sync {
    /// Has another process, or the same one anew, take the place of a lost node. It takes part when this returns. Called by one thread, for one
    /// node after the other; it may wait, but not when the query `is_over` or is to end.
    ///
    /// # Errors
    /// What ends the query: there is no process, or it cannot take part.
    fn replace(&self, lost: &LostNode, is_over: &dyn Fn() -> bool) -> Result<(), Diagnostic>;
}

/// Who is lost, and why; `None`: the query is over.
pub(super) type Loss = Option<(usize, Diagnostic)>;

/// The nodes that can be replaced, as the first one sees them.
pub(super) struct Replacing {
    pub(super) by: Arc<dyn Replacements>,
    /// Locked while a cut is made.
    record: Mutex<Record>,
    lost: Sender<Loss>,
    /// For the thread that replaces.
    receiver: Mutex<Option<Receiver<Loss>>>,
}

/// What a process in the place of another has to be told.
#[derive(Default)]
struct Record {
    /// How often a node has been lost and not been replaced since.
    absent: BTreeMap<usize, usize>,
    /// By node: the last checkpoint that it has stored.
    stored: BTreeMap<usize, u64>,
    /// By source: the names of its splits, and who reads them.
    splits: BTreeMap<usize, (Vec<String>, Assignment)>,
    /// The cuts since the last complete checkpoint, with it if it is under way.
    cuts: Vec<(Generation, Purpose)>,
    /// The others have been asked for what they have done.
    has_asked: bool,
    is_over: bool,
}

/// Whoever has it makes a cut: no node is lost that it would not be told to.
pub(crate) struct MayCut<'a>(Option<MutexGuard<'a, Record>>);

impl MayCut<'_> {
    /// A generation begins.
    pub(crate) fn note(&mut self, generation: Generation, purpose: Purpose) {
        self.0.iter_mut().for_each(|record| record.cuts.push((generation, purpose)));
    }
}

impl Replacing {
    fn new(by: Arc<dyn Replacements>) -> Replacing {
        let (lost, receiver) = channel();
        Replacing { by, record: Mutex::default(), lost, receiver: Mutex::new(Some(receiver)) }
    }
}

impl Nodes {
    /// On the first node: has lost nodes replaced. The others must send each other nothing.
    #[must_use]
    pub fn replaced_by(mut self, by: Arc<dyn Replacements>) -> Nodes {
        self.replacing = Some(Replacing::new(by));
        self
    }

    /// In the place of another node: so many cuts of the run are not told to this one.
    #[must_use]
    pub fn behind(mut self, cuts: u32) -> Nodes {
        self.cuts_before = cuts;
        self
    }

    /// Whether lost nodes are replaced.
    pub(crate) fn are_replaced(&self) -> bool {
        self.replacing.is_some()
    }

    /// Whether a cut may be made: not while a node is being replaced.
    pub(crate) fn may_cut(&self) -> Option<MayCut<'_>> {
        let Some(replacing) = &self.replacing else { return Some(MayCut(None)) };
        let record = replacing.record.lock();
        record.absent.is_empty().then_some(MayCut(Some(record)))
    }

    /// Tells the others the splits of a source.
    pub(super) fn tell_splits(&self, source: usize, names: Vec<String>, assignment: Assignment) {
        self.tell_others(|| NodeMessage::Splits(source, names.clone(), assignment.clone()));
        if let Some(replacing) = &self.replacing {
            replacing.record.lock().splits.insert(source, (names, assignment));
        }
    }

    /// Asks the others for what they have done.
    pub(crate) fn ask_for_reports(&self) {
        let record = self.replacing.as_ref().map(|replacing| replacing.record.lock());
        self.tell_others(|| NodeMessage::AskReport);
        record.into_iter().for_each(|mut record| record.has_asked = true);
    }

    /// A node has stored what it has of a checkpoint.
    pub(super) fn has_stored(&self, node: usize, checkpoint: u64) {
        if let Some(replacing) = &self.replacing {
            replacing.record.lock().stored.insert(node, checkpoint);
        }
    }

    /// A checkpoint is complete: nobody has to be told of its cut, or one before it.
    pub(crate) fn has_completed(&self, before: Generation) {
        if let Some(replacing) = &self.replacing {
            replacing.record.lock().cuts.retain(|(generation, _)| *generation > before);
        }
    }

    /// A node is lost, and will be replaced.
    ///
    /// # Errors
    /// Why it is lost, if it will not.
    pub(super) fn lose(&self, node: usize, why: Diagnostic) -> Result<(), Diagnostic> {
        let Some(replacing) = &self.replacing else { return Err(why) };
        if !self.ending.lock().forget(node) {
            // It has said all that it had to say.
            return Ok(());
        }
        *replacing.record.lock().absent.entry(node).or_default() += 1;
        let _ = replacing.lost.send(Some((node, why)));
        Ok(())
    }

    /// Ends the thread that replaces nodes.
    pub(crate) fn stop_replacing(&self) {
        if let Some(replacing) = &self.replacing {
            replacing.record.lock().is_over = true;
            let _ = replacing.lost.send(None);
        }
    }
}

impl Replacing {
    /// What the thread that replaces listens to; once.
    pub(super) fn listen(&self) -> Option<Receiver<Loss>> {
        self.receiver.lock().take()
    }

    /// Whether the query is over.
    pub(super) fn is_over(&self) -> bool {
        self.record.lock().is_over
    }

    /// Whether a node is lost, and has not been replaced.
    pub(super) fn is_absent(&self, node: usize) -> bool {
        self.record.lock().absent.contains_key(&node)
    }

    /// Whether a node has stored what it has of a checkpoint, which is its last.
    pub(super) fn has_stored(&self, node: usize, checkpoint: u64) -> bool {
        self.record.lock().stored.get(&node) == Some(&checkpoint)
    }

    /// Tells a process that has taken the place of a node what that one was told, and lets cuts be made again.
    pub(super) fn join(&self, nodes: &Nodes, node: usize, cuts: u32) {
        let mut record = self.record.lock();
        for (source, (names, assignment)) in &record.splits {
            nodes.send(node, NodeMessage::Splits(*source, names.clone(), assignment.clone()));
        }
        for (generation, purpose) in record.cuts.iter().filter(|(generation, _)| generation.0 > cuts) {
            nodes.send(node, NodeMessage::Cut(*generation, *purpose));
        }
        if record.has_asked {
            nodes.send(node, NodeMessage::AskReport);
        }
        if let Some(times) = record.absent.remove(&node).filter(|&times| times > 1) {
            record.absent.insert(node, times - 1);
        }
    }
}
