//! Relations that a statement names in several places: queries of WITH, and views.
//!
//! A query of usual size is copied for each place, and each copy is planned with what is around it. Equal operators
//! with state become one again (`physical`). Copies multiply: sixteen queries that each name the one before twice would
//! be 65,536. So the places of a large query share a [`Common`], and the plan is a graph: a walk looks at each common
//! relation once. Two of them are equal if they are the same.

use crate::logical::{Rel, Table};
use millstream_types::Schema;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// A relation that is shared.
#[derive(Debug)]
pub struct Common {
    rel: Rel,
    schema: OnceLock<Schema>,
    tables: Vec<Arc<Table>>,
    operators: usize,
    depth: usize,
    is_copied: bool,
}

impl Common {
    /// Shares a relation.
    pub fn new(rel: Rel) -> Arc<Common> {
        Arc::new(Common::of(rel, false))
    }

    /// Shares a relation until [`Rel::with_copies`].
    pub fn copied(rel: Rel) -> Arc<Common> {
        Arc::new(Common::of(rel, true))
    }

    fn of(rel: Rel, is_copied: bool) -> Common {
        let (tables, operators, depth) = (rel.tables(), rel.operators(), rel.depth());
        let schema = OnceLock::new();
        // A walk down a chain of them would be as deep as the chain; that of a projection goes nowhere.
        if !matches!(rel, Rel::Project { .. }) {
            let _ = schema.set(rel.schema());
        }
        Common { rel, schema, tables, operators, depth, is_copied }
    }

    /// Whether places have copies of it in the end.
    pub fn is_copied(&self) -> bool {
        self.is_copied
    }

    /// See [`Rel::operators`].
    pub fn operators(&self) -> usize {
        self.operators
    }

    /// See [`Rel::depth`].
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The relation.
    pub fn rel(&self) -> &Rel {
        &self.rel
    }

    /// Its columns, without a walk to the tables.
    pub fn schema(&self) -> &Schema {
        self.schema.get_or_init(|| self.rel.schema())
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
    /// Puts copies in the places of relations that are shared until then.
    #[must_use]
    pub fn with_copies(mut self) -> Rel {
        self.make_copies(&mut Changed::default());
        self
    }

    #[recursive::recursive]
    fn make_copies(&mut self, changed: &mut Changed) {
        let mut left = vec![self];
        while let Some(rel) = left.pop() {
            rel.make_own();
            if let Rel::Common(common) = rel {
                *common = changed.once(common, |changed, inner| {
                    let mut inner = inner.clone();
                    inner.make_copies(changed);
                    inner
                });
            }
            left.extend(rel.inputs_mut());
        }
    }

    /// If it is shared until there are copies, this place gets its own now.
    pub fn make_own(&mut self) {
        while let Rel::Common(common) = self
            && common.is_copied
        {
            let shared = Arc::clone(common);
            *self = Rel::Union { inputs: vec![] };
            *self = match Arc::try_unwrap(shared) {
                Ok(mut last) => last.rel.take(),
                Err(shared) => shared.rel.clone(),
            };
        }
    }

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
