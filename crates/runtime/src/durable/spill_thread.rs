//! The spilling thread: has stations write state to files until there is little enough of it.

use super::cuts::make_cut;
use crate::query::Query;
use crate::schedule::cut_timing::Purpose;
use crate::station::Spillable;
use millstream_state::{MemoryClass, release_before_sleep};
use millstream_types::Diagnostic;
use std::thread;
use std::time::Duration;

/// How soon the thread looks again whether a cut has passed.
const LOOK: Duration = Duration::from_millis(1);
/// How long it does nothing when there was nothing to be gained.
const PAUSE: Duration = Duration::from_millis(20);

/// The body of the spilling thread.
pub(crate) fn spill_when_asked(query: &Query) -> Result<(), Diagnostic> {
    let host = query.host();
    while host.spilling.wait() {
        host.flow.set_spilling(true);
        let is_enough = spill_down(query)?;
        release_before_sleep();
        host.flow.set_spilling(false);
        if !is_enough {
            host.flow.note_spilled_in_vain();
            // State is something else: looking for tables after every task would find nothing again.
            host.spilling.pause(PAUSE);
        }
        host.spilling.done();
    }
    Ok(())
}

/// Spills until there is little enough state, or nothing is left to be spilled; whether there is little enough.
fn spill_down(query: &Query) -> Result<bool, Diagnostic> {
    let (spilling, budget, mut has_cut) = (&query.host().spilling, &query.host().flow.budget, false);
    while !spilling.is_over() {
        spill(query, Spillable::Reserve)?;
        // Before the look at tables: what the cut leaves frozen is there when it is not on its way any more.
        let is_on_its_way = query.cuts().is_on_its_way();
        let mut spilled = 0;
        for what in Spillable::ALL {
            spilled += spill(query, what)?;
        }
        // Most of what is not counted is what this thread and others have just freed.
        budget.measure(true);
        if budget.state() <= spilling.low() {
            return Ok(true);
        } else if spilled > 0 {
            has_cut = false;
        } else if is_on_its_way {
            thread::sleep(LOOK);
        } else if has_cut
            || budget.used_by(MemoryClass::Tables) < budget.limit() / 16
            || !make_cut(query, Purpose::Tables)
        {
            return Ok(budget.state() <= spilling.high());
        } else {
            has_cut = true;
        }
    }
    Ok(true)
}

/// Has all stations spill something; how many pieces.
fn spill(query: &Query, what: Spillable) -> Result<usize, Diagnostic> {
    let mut spilled = 0;
    for station in query.stations() {
        let (pieces, consequences) = station.spill(what, query.host().spilling.low())?;
        query.act(consequences);
        spilled += pieces;
    }
    Ok(spilled)
}
