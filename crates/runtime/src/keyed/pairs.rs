//! Pairs of rows of the two inputs of a join: the residual, and the output of what is left.

use super::state::Work;
use super::store::{NO_ROW, RowStore};
use crate::columns::selected;
use arrow_array::{ArrayRef, UInt32Array};
use millstream_codegen::execute::emit;
use millstream_types::Diagnostic;

/// Candidate pairs: rows of equal keys, by number in the stores of both sides.
#[derive(Default)]
pub(crate) struct Pairs {
    left: Vec<u32>,
    right: Vec<u32>,
    /// As for [`Work::emit_behind`], or the windows of [`Work::emit_by_window`]; empty where pairs are put out without.
    times: Vec<i64>,
}

/// What the times of pairs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PairTimes {
    /// The watermarks behind which pairs are put out.
    Watermarks,
    /// The windows of the pairs.
    Windows,
}

/// Which rows of a side have a partner; nobody asks when it is empty.
pub(crate) type Matched = Vec<bool>;

/// What is done with pairs for which the residual is TRUE.
pub(crate) struct Sides<'a> {
    /// Rows of the left and of the right.
    pub(crate) stores: [&'a RowStore; 2],
    /// Set for rows of each side that have a partner.
    pub(crate) matched: [Matched; 2],
    /// Whether pairs are output.
    pub(crate) shows_pairs: bool,
    /// What the times of pairs with times are.
    pub(crate) times: PairTimes,
}

impl<'a> Sides<'a> {
    /// Of rows of these stores; what `work` puts out from now on is of them.
    pub(crate) fn new(
        stores: [&'a RowStore; 2],
        matched: [Matched; 2],
        shows_pairs: bool,
        work: &mut Work<'_>,
    ) -> Sides<'a> {
        work.are_of_table = stores.iter().all(|store| store.are_of_table());
        Sides { stores, matched, shows_pairs, times: PairTimes::Watermarks }
    }
}

impl Pairs {
    /// Adds a pair.
    #[inline]
    pub(crate) fn push(&mut self, left: u32, right: u32) {
        self.left.push(left);
        self.right.push(right);
    }

    /// Adds a pair that is put out behind a watermark, or of a window.
    #[inline]
    pub(crate) fn push_at(&mut self, left: u32, right: u32, time: i64) {
        self.times.push(time);
        self.push(left, right);
    }

    /// Number of pairs.
    pub(crate) fn len(&self) -> usize {
        self.left.len()
    }

    /// Decides about all pairs, and forgets them.
    pub(crate) fn flush(&mut self, sides: &mut Sides<'_>, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let rows = self.len();
        if rows == 0 {
            return Ok(());
        }
        let has_residual = work.code.residual.is_some();
        let mut columns = Vec::new();
        if has_residual || sides.shows_pairs {
            columns = sides.stores[0].gather(&self.left)?;
            columns.extend(sides.stores[1].gather(&self.right)?);
        }
        let mut times = std::mem::take(&mut self.times);
        if !has_residual {
            self.mark(sides, 0..rows);
            if sides.shows_pairs {
                emit_pairs(columns, rows, (sides.times, times), work);
            }
            self.clear();
            return Ok(());
        }
        let kept = residual_of(&columns, rows, work)?;
        self.mark(sides, kept.iter().map(|&i| i as usize));
        self.clear();
        if sides.shows_pairs && !kept.is_empty() {
            let length = kept.len();
            if length < rows {
                if !times.is_empty() {
                    times = kept.iter().map(|&pair| times[pair as usize]).collect();
                }
                let kept = UInt32Array::from(kept);
                columns = columns.iter().map(|c| selected(c, &kept)).collect::<Result<_, _>>()?;
            }
            emit_pairs(columns, length, (sides.times, times), work);
        }
        Ok(())
    }

    fn mark(&self, sides: &mut Sides<'_>, kept: impl Iterator<Item = usize>) {
        if sides.matched.iter().all(Vec::is_empty) {
            return;
        }
        for i in kept {
            for (row, matched) in [self.left[i], self.right[i]].into_iter().zip(&mut sides.matched) {
                if let Some(matched) = matched.get_mut(row as usize) {
                    *matched = true;
                }
            }
        }
    }

    fn clear(&mut self) {
        self.left.clear();
        self.right.clear();
    }
}

fn emit_pairs(columns: Vec<ArrayRef>, rows: usize, (kind, times): (PairTimes, Vec<i64>), work: &mut Work<'_>) {
    match kind {
        _ if times.is_empty() => work.emit(columns, rows),
        PairTimes::Watermarks => work.emit_behind(columns, times),
        PairTimes::Windows => work.emit_by_window(&columns, &times),
    }
}

/// The numbers of the rows, columns of the left and then of the right, for which the residual is TRUE.
pub(crate) fn residual_of(columns: &[ArrayRef], rows: usize, work: &mut Work<'_>) -> Result<Vec<u32>, Diagnostic> {
    let condition = work.code.residual.as_ref().ok_or_else(|| Diagnostic::bug("a join has no residual"))?;
    let kernel = condition.kernel();
    let errors = &mut work.errors;
    let take_error = &mut |e| errors.take(e);
    let kept = emit(&condition.lowered, &*kernel, columns, rows, &[i64::MIN], work.functions, take_error)?;
    work.errors.fatal().map_or_else(|| Ok(kept.selection.into_vec()), Err)
}

/// Outputs rows of an input with NULLs for the other one; behind watermarks, where there are any.
pub(crate) fn emit_padded(
    stores: [&RowStore; 2],
    port: usize,
    rows: &[u32],
    watermarks: &[i64],
    work: &mut Work<'_>,
) -> Result<(), Diagnostic> {
    for (place, part) in rows.chunks(work.most_rows).enumerate() {
        let nulls = vec![NO_ROW; part.len()];
        let of = |input: usize| if input == port { part } else { &nulls };
        let mut columns = stores[0].gather(of(0))?;
        columns.extend(stores[1].gather(of(1))?);
        let first = place * work.most_rows;
        let watermarks = watermarks.get(first..first + part.len()).unwrap_or(&[]).to_vec();
        emit_pairs(columns, part.len(), (PairTimes::Watermarks, watermarks), work);
    }
    Ok(())
}
