//! What new tables begin with: what those had that were sealed last, in this run or in the one before.

use super::{OpenTables, TablesByNumber, Taken};
use millstream_state::{SharedTable, Table, TableHint};
use std::sync::Arc;

/// The hash part of a new table begins with at most 1/`HASHED_SHARE` of the budget: windows may be many, and not all alike.
const HASHED_SHARE: u64 = 4096;
/// All of it begins with at most 1/`HINTED_SHARE`: an array has a fraction of the bytes that a hash part would grow to.
const HINTED_SHARE: u64 = 256;

impl OpenTables {
    /// What a shared table had that is taken now is what new ones begin with.
    pub(super) fn note_shared(&self, taken: &TablesByNumber) {
        let shared = |table: &Taken| match table {
            Taken::Shared(table) => Some(table.hint()),
            _ => None,
        };
        if let Some(hint) = taken.values().flatten().filter_map(shared).next_back() {
            self.facts.tables.lock().shared = hint;
        }
    }

    /// What a table of an owner had is what new ones begin with.
    pub(super) fn note_own(&self, hint: TableHint) {
        self.facts.tables.lock().own = hint;
    }

    /// Notes what an open table has grown to, while nothing is known of any that was sealed.
    pub(crate) fn note_open(&self, table: &Table) {
        let mut hints = self.facts.tables.lock();
        if !hints.own.is_known && table.is_array() {
            // It may have few of the keys to come.
            hints.own = TableHint { is_known: hints.own.is_known, ..table.hint() };
        }
    }

    /// What a table of an owner begins with: what those before it had, unless that is much.
    pub(super) fn hint(&self) -> TableHint {
        let hint = self.facts.tables.lock().own;
        let hashed = TableHint { range: None, ..hint };
        let fits = |hint: &TableHint, share| hint.bytes(&self.layout) as u64 <= self.budget.limit() / share;
        match fits(&hashed, HASHED_SHARE) && fits(&hint, HINTED_SHARE) && !self.is_spilling_near() {
            true => hint,
            false => TableHint { is_known: hint.is_known, ..TableHint::default() },
        }
    }

    /// A table of an owner that expects nothing yet but a number of keys to be hashed.
    pub(super) fn bare_table(&self) -> Box<Table> {
        let hint = TableHint { range: self.hint().range.filter(|_| !self.layout.allows_arrays()), ..self.hint() };
        Box::new(Table::with_hint(Arc::clone(&self.layout), self.dense, hint).charged(&self.budget))
    }

    /// A table of an owner, as large as those before it.
    pub(super) fn own_table(&self) -> Box<Table> {
        Box::new(Table::with_hint(Arc::clone(&self.layout), self.dense, self.hint()).charged(&self.budget))
    }

    /// A table of a node, as large as the last one: there is one for all workers.
    pub(super) fn shared_table(&self) -> Box<SharedTable> {
        let (layout, workers, hint) = (Arc::clone(&self.layout), self.owners.workers, self.facts.tables.lock().shared);
        Box::new(SharedTable::new(layout, workers, self.dense, hint).charged(&self.budget))
    }
}
