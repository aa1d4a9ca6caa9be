//! The thread of the first node that has another process take the place of each node that is lost ([`replacing`](super::replacing) says how).

use super::Nodes;
use super::replacing::{LostNode, Replacing};
use crate::cancel::CancelState;
use crate::durable::schedule::suspended;
use crate::query::Query;
use crate::station::{Succeeded, Succession};
use millstream_storage::store_failed;
use millstream_types::{Diagnostic, code};
use std::collections::VecDeque;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// How soon whoever waits looks again.
const LOOK: Duration = Duration::from_millis(5);

/// The body of the thread that replaces lost nodes, until the query is over.
///
/// # Errors
/// Why a node cannot be replaced.
pub(crate) fn replace_nodes(query: &Query) -> Result<(), Diagnostic> {
    let Some(nodes) = &query.host().nodes else { return Ok(()) };
    let Some(replacing) = &nodes.replacing else { return Ok(()) };
    let Some(receiver) = replacing.listen() else { return Ok(()) };
    let mut waiting = VecDeque::new();
    loop {
        let lost = match waiting.is_empty() {
            true => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => receiver.recv_timeout(LOOK),
        };
        match lost {
            Ok(Some((node, why))) => {
                query.host().stats.reports.lost(node, &why.message);
                waiting.push_back((node, why));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Ok(None) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        // What one has stored may be waited for because another one has not.
        let is_due = |(node, _): &(usize, Diagnostic)| !is_awaited(query, replacing, *node);
        if let Some((node, why)) = waiting.iter().position(is_due).and_then(|at| waiting.remove(at)) {
            replace(query, nodes, replacing, node, why)?;
        }
    }
}

/// Whether what a lost node has stored of the checkpoint under way counts as soon as the others have stored theirs.
fn is_awaited(query: &Query, replacing: &Replacing, node: usize) -> bool {
    let under_way = query.host().checkpointing.as_ref().and_then(|checkpointing| checkpointing.under_way());
    under_way.is_some_and(|(_, number)| replacing.has_stored(node, number))
}

fn replace(
    query: &Query,
    nodes: &Nodes,
    replacing: &Replacing,
    node: usize,
    why: Diagnostic,
) -> Result<(), Diagnostic> {
    let Some(checkpointing) = &query.host().checkpointing else { return Err(why) };
    // No cut is made while the node is absent, so this stays as it is.
    let (checkpoint, under_way) = (checkpointing.last_complete(), checkpointing.under_way());
    let Some(checkpoint) = checkpoint else { return Err(why) };
    let is_ending = || replacing.is_over() || query.cancel().state() != CancelState::Running;
    if is_ending() {
        return ended(query, checkpoint);
    }
    let (cuts, table_cuts) = match under_way {
        Some((generation, number)) => (generation.0 - 1, checkpointing.table_cuts_to(number) - 1),
        None => (query.cuts().last().0, query.host().tables.next().0 - 1),
    };
    // Those of the checkpoint that the run began with are committed.
    let tokens = match checkpointing.restored_number() == Some(checkpoint) {
        true => Vec::new(),
        false => checkpointing.config.checkpoints.tokens_of(checkpoint, node).map_err(|e| {
            let message = format!("what node {node} has stored of checkpoint {checkpoint} cannot be read");
            store_failed(code::CHECKPOINT_DAMAGED, &message, &e)
        })?,
    };
    let mut shared = Vec::new();
    let succession = Succession { node, tokens: &tokens, is_lost: &|node| replacing.is_absent(node) };
    for station in query.stations() {
        let Succeeded { place, consequences } = loop {
            match station.succeed(&succession)? {
                Some(succeeded) => break succeeded,
                None if is_ending() => return ended(query, checkpoint),
                None => {}
            }
        };
        query.act(consequences);
        shared.extend(place);
    }
    let mut places = vec![None; query.plan().sinks.len()];
    shared.iter().for_each(|(sink, place)| places[*sink] = Some(place.name.clone()));
    let lost = LostNode { node, why, checkpoint, cuts, table_cuts, places };
    let replaced = replacing.by.replace(&lost, &is_ending);
    if replaced.is_err() && is_ending() {
        return ended(query, checkpoint);
    }
    replaced?;
    // It has found them.
    drop(shared);
    query.host().stats.reports.replaced(node);
    replacing.join(nodes, node, cuts);
    query.cancel().wake();
    Ok(())
}

/// The query is over, or was asked to end, while a node is absent: a stop does not wait for it, as there is a checkpoint to resume from.
fn ended(query: &Query, checkpoint: u64) -> Result<(), Diagnostic> {
    match query.cancel().state() {
        CancelState::Stop => Err(suspended(checkpoint)),
        CancelState::Running | CancelState::Abort => Ok(()),
    }
}
