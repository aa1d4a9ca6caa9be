//! Pairs of rows of the two inputs of a join: the residual, and the output of what is left.

use super::Work;
use super::store::{NO_ROW, RowStore};
use crate::columns::selected;
use arrow_array::UInt32Array;
use millstream_codegen::execute::emit;
use millstream_types::Diagnostic;

/// Candidate pairs: rows of equal keys, by number in the stores of both sides.
#[derive(Default)]
pub(crate) struct Pairs {
    left: Vec<u32>,
    right: Vec<u32>,
}

/// Which rows of a side have a partner; nobody asks when it is empty.
pub(crate) type Matched = Vec<bool>;

/// What is done with pairs for which the residual is TRUE.
pub(crate) struct Sides<'a> {
    /// Rows of the left.
    pub(crate) left: &'a RowStore,
    /// Rows of the right.
    pub(crate) right: &'a RowStore,
    /// Set for rows of the left that have a partner.
    pub(crate) left_matched: &'a mut Matched,
    /// As for the left.
    pub(crate) right_matched: &'a mut Matched,
    /// Whether pairs are output.
    pub(crate) shows_pairs: bool,
}

impl Pairs {
    /// Adds a pair.
    #[inline]
    pub(crate) fn push(&mut self, left: u32, right: u32) {
        self.left.push(left);
        self.right.push(right);
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
        let residual = work.code.residual.as_ref();
        let mut columns = Vec::new();
        if residual.is_some() || sides.shows_pairs {
            columns = sides.left.gather(&self.left)?;
            columns.extend(sides.right.gather(&self.right)?);
        }
        let Some(condition) = residual else {
            self.mark(sides, 0..rows);
            if sides.shows_pairs {
                work.emit(columns, rows);
            }
            self.clear();
            return Ok(());
        };
        let kernel = condition.kernel();
        let errors = &mut work.errors;
        let take_error = &mut |e| errors.take(e);
        let kept =
            emit(&condition.lowered, &*kernel, &columns, rows, &[i64::MIN], work.functions, take_error)?.selection;
        if let Some(fatal) = work.errors.fatal() {
            return Err(fatal);
        }
        self.mark(sides, kept.iter().map(|&i| i as usize));
        self.clear();
        if sides.shows_pairs && !kept.is_empty() {
            let length = kept.len();
            if length < rows {
                let kept = UInt32Array::from(kept);
                columns = columns.iter().map(|c| selected(c, &kept)).collect::<Result<_, _>>()?;
            }
            work.emit(columns, length);
        }
        Ok(())
    }

    fn mark(&self, sides: &mut Sides<'_>, kept: impl Iterator<Item = usize>) {
        if sides.left_matched.is_empty() && sides.right_matched.is_empty() {
            return;
        }
        for i in kept {
            if let Some(matched) = sides.left_matched.get_mut(self.left[i] as usize) {
                *matched = true;
            }
            if let Some(matched) = sides.right_matched.get_mut(self.right[i] as usize) {
                *matched = true;
            }
        }
    }

    fn clear(&mut self) {
        self.left.clear();
        self.right.clear();
    }
}

/// Outputs rows of the left with NULLs for the right.
pub(crate) fn emit_left(sides: &Sides<'_>, rows: &[u32], work: &mut Work<'_>) -> Result<(), Diagnostic> {
    emit_alone(rows, work, |part| {
        let mut columns = sides.left.gather(part)?;
        columns.extend(sides.right.gather(&vec![NO_ROW; part.len()])?);
        Ok(columns)
    })
}

/// Outputs rows of the right with NULLs for the left.
pub(crate) fn emit_right(sides: &Sides<'_>, rows: &[u32], work: &mut Work<'_>) -> Result<(), Diagnostic> {
    emit_alone(rows, work, |part| {
        let mut columns = sides.left.gather(&vec![NO_ROW; part.len()])?;
        columns.extend(sides.right.gather(part)?);
        Ok(columns)
    })
}

/// Outputs the columns of some rows, in buffers.
pub(crate) fn emit_alone(
    rows: &[u32],
    work: &mut Work<'_>,
    columns: impl Fn(&[u32]) -> Result<Vec<arrow_array::ArrayRef>, Diagnostic>,
) -> Result<(), Diagnostic> {
    for part in rows.chunks(work.most_rows) {
        work.emit(columns(part)?, part.len());
    }
    Ok(())
}
