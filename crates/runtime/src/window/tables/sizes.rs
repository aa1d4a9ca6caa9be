//! What new tables begin with: what those had that were completed last, in this run or in the one before.

use super::{OpenTables, TablesByNumber, Taken};
use millstream_state::{SharedTable, Table, TableHint};
use std::sync::Arc;

/// A new table begins with at most 1/`HINTED_SHARE` of the budget.
const HINTED_SHARE: u64 = 4096;

impl OpenTables {
    /// What tables of a kind had that are taken now, most of all, is what new ones begin with.
    pub(super) fn note_sizes(&self, taken: &TablesByNumber) {
        let mut hints = self.facts.tables.lock();
        let own = |table: &Taken| match table {
            Taken::Own(table) if !table.is_empty() && !table.is_appending() => Some(table.hint()),
            _ => None,
        };
        let shared = |table: &Taken| match table {
            Taken::Shared(table) => Some(table.hint()),
            _ => None,
        };
        let size = |hint: &TableHint| hint.keys + hint.range.map_or(0, |range| range.len as usize);
        if let Some(hint) = taken.values().flatten().filter_map(own).max_by_key(size) {
            hints.own = hint;
        }
        if let Some(hint) = taken.values().flatten().filter_map(shared).next_back() {
            hints.shared = hint;
        }
    }

    /// A table of an owner, as large as those before it unless that is much: windows may be many, and not all alike.
    pub(super) fn own_table(&self) -> Box<Table> {
        let hint = self.facts.tables.lock().own;
        let most = self.budget.limit() / HINTED_SHARE;
        let fits = hint.bytes(&self.layout) as u64 <= most && !self.is_spilling_near();
        let hint = if fits { hint } else { TableHint::default() };
        let table = Table::with_hint(Arc::clone(&self.layout), self.dense, hint);
        Box::new(table.charged(&self.budget))
    }

    /// A table of a node, as large as the last one: there is one for all workers.
    pub(super) fn shared_table(&self) -> Box<SharedTable> {
        let (layout, workers, hint) = (Arc::clone(&self.layout), self.owners.workers, self.facts.tables.lock().shared);
        Box::new(SharedTable::new(layout, workers, self.dense, hint).charged(&self.budget))
    }
}
