//! The splits of a source on several nodes: their numbers are those that the first node gives them, since files and partitions may come while
//! one node after the other looks.

use super::{Arriving, NodeMessage, Nodes, wire};
use crate::cancel::{CancelState, CancelToken, aborted};
use millstream_connectors::SplitReader;
use millstream_types::{Diagnostic, code};
use std::collections::BTreeMap;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// How soon a node that waits looks whether it shall end.
const LOOK: Duration = Duration::from_millis(50);

/// A split by its name, with its reader, if this node sees it.
pub(crate) type NamedSplit = (String, Option<Box<dyn SplitReader>>);

/// Splits that one node reads all of.
pub(crate) fn named(readers: Vec<Box<dyn SplitReader>>) -> Vec<NamedSplit> {
    readers.into_iter().map(|reader| (reader.name().to_string(), Some(reader))).collect()
}

/// The reader of a split that this node has to read.
pub(crate) fn seen((name, reader): NamedSplit) -> Result<Box<dyn SplitReader>, Diagnostic> {
    reader.ok_or_else(|| {
        let message = format!("this node does not see '{name}', which it has to read");
        Diagnostic::new(code::NODES_DIFFER, message)
            .advise("have all nodes see the same files and topics, under the same names")
    })
}

impl Nodes {
    /// The splits of a source as the first node has them, in its order.
    ///
    /// # Errors
    /// When the first node has failed.
    pub(crate) fn agree_on_splits(
        &self,
        source: usize,
        readers: Vec<Box<dyn SplitReader>>,
        cancel: &CancelToken,
    ) -> Result<Vec<NamedSplit>, Diagnostic> {
        if self.is_first() {
            let splits = named(readers);
            self.tell_others(|| NodeMessage::Splits(source, splits.iter().map(|(name, _)| name.clone()).collect()));
            return Ok(splits);
        }
        let names = self.await_splits(source, cancel)?;
        let mut found: BTreeMap<String, NamedSplit> =
            named(readers).into_iter().map(|split| (split.0.clone(), split)).collect();
        Ok(names.into_iter().map(|name| found.remove(&name).unwrap_or((name, None))).collect())
    }

    /// Waits for what the first node says of a source; what comes before that is kept.
    fn await_splits(&self, source: usize, cancel: &CancelToken) -> Result<Vec<String>, Diagnostic> {
        let inbound = self.inbound.lock();
        let inbound = inbound.as_ref().ok_or_else(|| Diagnostic::bug("a node listens before it is built"))?;
        loop {
            let arriving = match inbound.recv_timeout(LOOK) {
                Ok(arriving) => arriving,
                Err(RecvTimeoutError::Timeout) if cancel.state() != CancelState::Abort => continue,
                Err(_) => return Err(aborted()),
            };
            match arriving {
                Arriving::Message(0, message, credit) => match wire::decode(message)? {
                    NodeMessage::Splits(of, names) if of == source => return Ok(names),
                    NodeMessage::Ended(why) => return Err(why.unwrap_or_else(aborted)),
                    other => self.early.lock().push_back(Arriving::Message(0, wire::encode(other), credit)),
                },
                Arriving::Lost(why) => return Err(why),
                other => self.early.lock().push_back(other),
            }
        }
    }
}
