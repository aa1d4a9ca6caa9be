//! Relations that a statement names in several places: queries of WITH, and views.
//!
//! A query of usual size is copied for each place, and each copy is planned with what is around it. Equal operators
//! with state become one again (`physical`). Copies multiply: sixteen queries that each name the one before twice would
//! be 65,536. So the places of a large query share a [`Common`], and the plan is a graph: a walk looks at each common
//! relation once. Two of them are equal if they are the same.

use crate::logical::{Rel, Table};
use millstream_types::Schema;
use std::collections::HashMap;
use std::sync::Arc;

/// A relation that is shared.
#[derive(Debug)]
pub struct Common {
    rel: Rel,
    schema: Schema,
    tables: Vec<Arc<Table>>,
    operators: usize,
    depth: usize,
}

impl Common {
    /// Shares a relation.
    pub fn new(rel: Rel) -> Arc<Common> {
        let (schema, tables, operators, depth) = (rel.schema(), rel.tables(), rel.operators(), rel.depth());
        Arc::new(Common { rel, schema, tables, operators, depth })
    }

    /// The relation.
    pub fn rel(&self) -> &Rel {
        &self.rel
    }

    /// Its columns, without a walk to the tables.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }
}

impl PartialEq for Common {
    fn eq(&self, other: &Common) -> bool {
        std::ptr::eq(self, other)
    }
}

/// Common relations can be a chain of thousands: it is dropped in a loop.
impl Drop for Common {
    fn drop(&mut self) {
        let mut pending = vec![self.rel.take()];
        while let Some(mut rel) = pending.pop() {
            if let Rel::Common(common) = rel {
                if let Some(mut last) = Arc::into_inner(common) {
                    pending.push(last.rel.take());
                }
                continue;
            }
            pending.extend(rel.inputs_mut().into_iter().map(Rel::take));
        }
    }
}

impl Rel {
    /// The tables that it reads, each once.
    pub fn tables(&self) -> Vec<Arc<Table>> {
        let (mut tables, mut left): (Vec<Arc<Table>>, _) = (Vec::new(), vec![self]);
        let mut add = |table: &Arc<Table>| {
            if !tables.iter().any(|known| Arc::ptr_eq(known, table)) {
                tables.push(Arc::clone(table));
            }
        };
        while let Some(rel) = left.pop() {
            match rel {
                Rel::Scan { table, .. } => add(table),
                Rel::Common(common) => common.tables.iter().for_each(&mut add),
                other => left.extend(other.inputs().into_iter().rev()),
            }
        }
        tables
    }

    /// How many operators it would have without common relations, each place having a copy.
    pub fn operators(&self) -> usize {
        let (mut operators, mut left) = (0_usize, vec![self]);
        while let Some(rel) = left.pop() {
            match rel {
                Rel::Common(common) => operators = operators.saturating_add(common.operators),
                other => {
                    operators = operators.saturating_add(1);
                    left.extend(other.inputs());
                }
            }
        }
        operators
    }

    /// How many operators the longest way to a table has, without projections and filters, of which any number become one.
    pub fn depth(&self) -> usize {
        let (mut depth, mut left) = (0, vec![(self, 0)]);
        while let Some((rel, above)) = left.pop() {
            let below = above
                + match rel {
                    Rel::Common(common) => common.depth,
                    Rel::Project { .. } | Rel::Filter { .. } => 0,
                    _ => 1,
                };
            depth = depth.max(below);
            if !matches!(rel, Rel::Common(_)) {
                left.extend(rel.inputs().into_iter().map(|input| (input, below)));
            }
        }
        depth
    }
}

/// What became of the common relations that a rewrite has met: each is rewritten once.
#[derive(Debug, Default)]
pub struct Changed(HashMap<*const Common, (Arc<Common>, Arc<Common>)>);

impl Changed {
    /// What becomes of `common`, by `change` where that is not known yet.
    pub fn once(&mut self, common: &Arc<Common>, change: impl FnOnce(&mut Changed, &Rel) -> Rel) -> Arc<Common> {
        let place = Arc::as_ptr(common);
        if let Some((_, changed)) = self.0.get(&place) {
            return Arc::clone(changed);
        }
        let changed = Common::new(change(self, common.rel()));
        // The original is kept, so that its place stays its own.
        self.0.insert(place, (Arc::clone(common), Arc::clone(&changed)));
        changed
    }
}
