//! Top-N within windows: `ROW_NUMBER`, `RANK` and `DENSE_RANK` over the rows of a partition of a window.
//!
//! Rows wait by their `window_time` and are sorted when the watermark reaches it. A window that collects many rows is
//! cut down to those that can still be among the ranks that are kept: more rows never make a rank smaller, and of equal
//! rows the one that came first ranks first; in deduplication by time that keeps the last row, the one that came last.

use super::batch::Batch;
use super::groups::Groups;
use super::key_share::{KeyShare, of_same_operator};
use super::order::{SortKeys, compare};
use super::state::{State, Work};
use super::store::RowStore;
use super::window_join::Windows;
use crate::columns::selected;
use crate::executable_plan::OperatorCode;
use arrow_array::{ArrayRef, Int64Array, UInt32Array};
use millstream_plan::logical::RankFunction;
use millstream_plan::pipeline::{self, KeyedOperator, Ties};
use millstream_storage::{ByteReader, ByteWriter};
use millstream_types::Diagnostic;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A window is cut down after at least this many new rows.
const MANY_ROWS: usize = 16 << 10;

/// See the module.
pub(crate) struct Rank {
    plan: pipeline::Rank,
    windows: Windows,
    /// Rows that the last cut has left in a window.
    left: BTreeMap<i64, usize>,
    /// Of the window that is being ranked.
    groups: Groups,
}

/// Rows in order of group and rank.
struct Ranked {
    columns: Vec<ArrayRef>,
    rows: Vec<u32>,
    ranks: Vec<i64>,
}

impl Rank {
    /// No rows.
    pub(crate) fn new(plan: &KeyedOperator, rank: &pipeline::Rank, code: &OperatorCode) -> Result<Rank, Diagnostic> {
        let (windows, groups) = (Windows::new(plan), Groups::new(plan, code)?);
        Ok(Rank { plan: rank.clone(), windows, left: BTreeMap::new(), groups })
    }

    /// The rows with ranks from `first` to the last that is kept.
    fn rank(&mut self, store: &RowStore, first: u64, work: &mut Work<'_>) -> Result<Ranked, Diagnostic> {
        let mut rows: Vec<u32> = (0..store.len() as u32).collect();
        let columns = store.gather(&rows)?;
        let groups = self.groups.assign_parts(0, store.parts(), work)?;
        self.groups.clear();
        let keys = self.plan.order.iter().map(|&s| SortKeys::new(&columns[s.column], s));
        let keys: Vec<SortKeys> = keys.collect::<Result<_, _>>()?;
        let group = |row: u32| groups[row as usize];
        let keeps_last = self.plan.ties == Ties::Last;
        let tie = |a: u32, b: u32| if keeps_last { b.cmp(&a) } else { a.cmp(&b) };
        rows.sort_unstable_by(|&a, &b| {
            group(a).cmp(&group(b)).then_with(|| compare(&keys, a, b)).then_with(|| tie(a, b))
        });
        let (mut place, mut rank, mut dense) = (0, 0, 0);
        let mut before: Option<u32> = None;
        let mut ranked = Ranked { columns, rows: Vec::new(), ranks: Vec::new() };
        for &row in &rows {
            if before.is_none_or(|b| group(b) != group(row)) {
                (place, rank, dense) = (1, 1, 1);
            } else {
                place += 1;
                if before.is_some_and(|b| compare(&keys, b, row).is_ne()) {
                    (rank, dense) = (place, dense + 1);
                }
            }
            before = Some(row);
            let number = match self.plan.function {
                RankFunction::RowNumber => place,
                RankFunction::Rank => rank,
                RankFunction::DenseRank => dense,
            };
            if (first..=self.plan.range.1).contains(&number) {
                ranked.rows.push(row);
                ranked.ranks.push(i64::try_from(number).unwrap_or(i64::MAX));
            }
        }
        Ok(ranked)
    }

    /// Cuts a window down, if it has grown enough.
    fn cut(&mut self, window: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        if self.plan.range.1 == u64::MAX {
            return Ok(());
        }
        let left = self.left.get(&window).copied().unwrap_or(0);
        if self.windows.rows(window, 0) <= 2 * left + MANY_ROWS {
            return Ok(());
        }
        let Some(mut stores) = self.windows.take(window) else { return Ok(()) };
        let mut kept = self.rank(&stores[0], 1, work)?.rows;
        kept.sort_unstable();
        stores[0].keep(&kept)?;
        self.left.insert(window, kept.len());
        self.windows.put_back(window, stores);
        Ok(())
    }
}

impl State for Rank {
    fn advance(&mut self, inputs: Vec<Batch>, watermark: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        for batch in inputs {
            for window in self.windows.add(0, batch)? {
                self.cut(window, work)?;
            }
        }
        while let Some((window, stores)) = self.windows.complete(watermark) {
            self.left.remove(&window);
            work.window = window;
            let Ranked { columns, rows, ranks } = self.rank(&stores[0], self.plan.range.0, work)?;
            for (rows, ranks) in rows.chunks(work.most_rows).zip(ranks.chunks(work.most_rows)) {
                let picked = UInt32Array::from(rows.to_vec());
                let mut output: Vec<ArrayRef> =
                    columns.iter().map(|c| selected(c, &picked)).collect::<Result<_, _>>()?;
                output.push(Arc::new(Int64Array::from(ranks.to_vec())));
                work.emit(output, rows.len());
            }
        }
        Ok(())
    }

    fn settle(&mut self, is_plenty: bool) -> Result<(), Diagnostic> {
        self.windows.settle(is_plenty)
    }

    fn due(&self) -> i64 {
        self.windows.due()
    }

    fn bytes(&mut self) -> usize {
        self.windows.bytes()
    }

    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.windows.save(out)
    }

    fn restore(&mut self, from: &mut ByteReader<'_>, _now_ms: i64) -> Result<(), Diagnostic> {
        self.windows.restore(from)
    }

    fn absorb(&mut self, other: &mut dyn State, share: &mut KeyShare<'_>) -> Result<(), Diagnostic> {
        self.windows.absorb(&of_same_operator::<Rank>(other)?.windows, share)
    }
}
