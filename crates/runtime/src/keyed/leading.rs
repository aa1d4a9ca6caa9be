//! Rows of a buffer that an operator would not use, found before they are exchanged ([`Leading`]).
//!
//! A row that `most` earlier rows of the same buffer and window rank before has a rank above that whatever else comes. Of rows that are
//! joined with their maximum, all but a few of each buffer end here: they are neither copied nor stored.

use super::batch::{Batch, times_of};
use super::order::{SortKeys, compare};
use crate::columns::sliced;
use arrow_array::{Array as _, ArrayRef};
use millstream_abi::hash_bytes;
use millstream_plan::logical::RankFunction;
use millstream_plan::pipeline::{KeyedInput, Leading, LeadingWindows, SortColumn, Ties};
use millstream_plan::window::Timeline;
use millstream_state::Ordinal;
use millstream_types::Diagnostic;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// After so many rows of a buffer it is seen whether the others are worth looking at.
pub(super) const FIRST_ROWS: usize = 1 << 10;

/// A window, of a key where these are compared.
#[derive(Clone, Copy)]
struct Window {
    /// Its time, or those of its slice.
    start: i64,
    end: i64,
    /// The hash of the key. Keys that share a hash share the window, and only the first of them is looked at.
    hash: i64,
    /// From this watermark on its rows are late.
    due: i64,
    /// Where its best rows are.
    place: usize,
}

/// Mixes a time and a hash.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.write_u64(hash_bytes(bytes));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_i64(&mut self, word: i64) {
        self.write_u64(word as u64);
    }
}

/// The rows of an input that may matter, in their order; `None`: all.
///
/// Late rows stay: the operator counts them. A row that is in time has only rows before it that are, too.
pub(super) fn leading_rows(
    leading: &Leading,
    input: &KeyedInput,
    timeline: Timeline,
    batch: &Batch,
    hashes: &[i64],
) -> Result<Option<Vec<u32>>, Diagnostic> {
    let kept = leaders_of(leading, input, timeline, batch, hashes)?.map(|leaders| leaders.kept);
    Ok(kept.filter(|kept| kept.len() < hashes.len()))
}

/// The same of rows that are all there: later ones of them count, too.
pub(super) fn first_rows(
    leading: &Leading,
    input: &KeyedInput,
    timeline: Timeline,
    batch: &Batch,
    hashes: &[i64],
) -> Result<Option<Vec<u32>>, Diagnostic> {
    let leaders = leaders_of(leading, input, timeline, batch, hashes)?;
    let first = leaders.map(|leaders| leaders.first(&batch.columns)).transpose()?;
    Ok(first.filter(|first| first.len() < hashes.len()))
}

/// Those of the rows of an input that may matter; `None`: nothing is known, or it is not worth it.
fn leaders_of<'a>(
    leading: &'a Leading,
    input: &'a KeyedInput,
    timeline: Timeline,
    batch: &Batch,
    hashes: &[i64],
) -> Result<Option<Leaders<'a>>, Diagnostic> {
    let Batch { columns, ordinals, .. } = batch;
    let rows = hashes.len();
    if rows < 2 || !ordinals.is_sorted() {
        return Ok(None);
    }
    let mut leaders = Leaders::new(leading, input, timeline);
    // With many keys nearly every row is one of the first: then the keys of the others are not made.
    if rows >= 2 * FIRST_ROWS {
        // Where partitions may share a buffer, rows that are left out cost a copy of the others.
        let most = match leading.windows {
            LeadingWindows::OfKey => FIRST_ROWS / 4 * 3,
            LeadingWindows::OfTime | LeadingWindows::Slices { .. } => FIRST_ROWS / 2,
        };
        if !leaders.take(&sliced(columns, 0, FIRST_ROWS), ordinals, &hashes[..FIRST_ROWS])? || leaders.kept.len() > most
        {
            return Ok(None);
        }
    }
    let are_known = leaders.take(columns, ordinals, hashes)?;
    Ok(are_known.then_some(leaders))
}

/// The rows of a buffer that may matter, of those that have been looked at.
struct Leaders<'a> {
    leading: &'a Leading,
    input: &'a KeyedInput,
    timeline: Timeline,
    /// The best rows of each window so far, in order.
    best: Vec<Vec<u32>>,
    places: HashMap<(i64, i64), usize, BuildHasherDefault<Mixed>>,
    last: Option<Window>,
    /// How many rows have been looked at.
    rows: usize,
    kept: Vec<u32>,
    /// Of each that is kept: its window, if rows of that decide whether it matters.
    windows: Vec<Option<usize>>,
}

impl<'a> Leaders<'a> {
    /// Before the first row.
    fn new(leading: &'a Leading, input: &'a KeyedInput, timeline: Timeline) -> Leaders<'a> {
        let (best, places, kept, windows) = (Vec::new(), HashMap::default(), Vec::new(), Vec::new());
        Leaders { leading, input, timeline, best, places, last: None, rows: 0, kept, windows }
    }

    /// Looks at rows up to a place, of columns that begin with those that it has looked at. `false`: a time is NULL, so nothing is
    /// known.
    fn take(&mut self, columns: &[ArrayRef], ordinals: &[Ordinal], hashes: &[i64]) -> Result<bool, Diagnostic> {
        let (leading, input) = (self.leading, self.input);
        let time = match leading.windows {
            LeadingWindows::OfKey => None,
            LeadingWindows::OfTime => input.time,
            LeadingWindows::Slices { time, .. } => Some(time),
        };
        let times = match time {
            Some(time) if columns[time].null_count() > 0 => return Ok(false),
            Some(time) => Some(times_of(&columns[time])?),
            None => None,
        };
        let order = self.order(columns)?;
        let by_key = matches!(leading.windows, LeadingWindows::OfKey | LeadingWindows::OfTime);
        let compared = if by_key { &*input.keys } else { &[] };
        let key = |&column: &usize| {
            SortKeys::new(&columns[column], SortColumn { column, descending: false, nulls_first: true })
        };
        let keys: Vec<SortKeys> = compared.iter().map(key).collect::<Result<_, _>>()?;

        let most = leading.most;
        let are_ties_behind = leading.function == RankFunction::RowNumber && leading.ties == Ties::First;
        let Leaders { best: all, places, kept, windows, .. } = self;
        let (timeline, mut last) = (self.timeline, self.last);
        for row in std::mem::replace(&mut self.rows, hashes.len())..hashes.len() {
            let (time, hash) = (times.as_ref().map_or(0, |times| times[row]), if by_key { hashes[row] } else { 0 });
            let same = last.filter(|of| (of.start..of.end).contains(&time) && of.hash == hash);
            let window = same.unwrap_or_else(|| {
                let (start, end, due) = match leading.windows {
                    LeadingWindows::OfKey => (0, 1, i64::MAX),
                    LeadingWindows::OfTime => (time, time.saturating_add(1), timeline.watermark_at(time)),
                    LeadingWindows::Slices { slicing, .. } => {
                        let start = slicing.start_of(time);
                        let end = start.saturating_add(slicing.size_ms);
                        (start, end, end.saturating_sub(1))
                    }
                };
                let place = *places.entry((start, hash)).or_insert_with(|| {
                    all.push(Vec::new());
                    all.len() - 1
                });
                Window { start, end, hash, due, place }
            });
            last = Some(window);
            let (best, is_in_time) = (&mut all[window.place], ordinals[row].watermark < window.due);
            let stays = !by_key && time == window.start;
            let row = row as u32;
            let is_other = |&first: &u32| compare(&keys, first, row).is_ne();
            if !is_in_time || best.first().is_some_and(is_other) {
                kept.push(row);
                windows.push(None);
                continue;
            }
            if best.len() == most && !stays {
                let against = best.last().map_or(Ordering::Equal, |&last| compare(&order, last, row));
                if against.is_lt() || (are_ties_behind && against.is_eq()) {
                    continue;
                }
            }
            kept.push(row);
            windows.push((!stays).then_some(window.place));
            let is_before = |&other: &u32| match leading.ties {
                Ties::Last => compare(&order, other, row).is_lt(),
                _ => compare(&order, other, row).is_le(),
            };
            let at = best.partition_point(is_before);
            let neighbour = if leading.ties == Ties::Last { Some(at) } else { at.checked_sub(1) };
            let neighbour = neighbour.and_then(|at| best.get(at));
            let has_twin = neighbour.is_some_and(|&other| compare(&order, other, row).is_eq());
            if !has_twin || leading.function != RankFunction::DenseRank {
                best.insert(at, row);
                best.truncate(most);
            }
        }
        self.last = last;
        Ok(true)
    }

    /// What rows are ordered by, of these columns.
    fn order(&self, columns: &[ArrayRef]) -> Result<Vec<SortKeys>, Diagnostic> {
        self.leading.order.iter().map(|&sort| SortKeys::new(&columns[sort.column], sort)).collect()
    }

    /// Those that may matter when no others of these columns come: fewer than `most` rank before them.
    fn first(&self, columns: &[ArrayRef]) -> Result<Vec<u32>, Diagnostic> {
        let order = self.order(columns)?;
        let is_first = |row: u32, window: Option<usize>| {
            let Some(best) = window.map(|window| &self.best[window]) else { return true };
            match (best.last(), self.leading.function) {
                _ if best.len() < self.leading.most => true,
                (_, RankFunction::RowNumber) => best.contains(&row),
                (last, _) => last.is_none_or(|&last| compare(&order, row, last).is_le()),
            }
        };
        let kept = self.kept.iter().zip(&self.windows);
        Ok(kept.filter(|&(&row, &window)| is_first(row, window)).map(|(&row, _)| row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyed::batch::Batch;
    use arrow_array::{Int64Array, StringViewArray, TimestampMillisecondArray};
    use millstream_plan::window::Slicing;
    use millstream_types::{DataType, Field, Schema};
    use std::sync::Arc;

    /// Time, key and value of a row, with the watermark before it.
    type Row = (i64, i64, Option<i64>, i64);

    fn random(seed: &mut u64, below: u64) -> i64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((*seed >> 33) % below) as i64
    }

    fn batch(rows: &[Row]) -> Batch {
        let times = TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.0));
        let keys = StringViewArray::from_iter_values(rows.iter().map(|row| format!("a key that is long {}", row.1)));
        let values = Int64Array::from_iter(rows.iter().map(|row| row.2));
        let columns: Vec<ArrayRef> = vec![Arc::new(times), Arc::new(keys), Arc::new(values)];
        let ordinal = |(position, row): (usize, &Row)| Ordinal {
            watermark: row.3,
            input: 0,
            split: 0,
            position: position as u64,
            pipeline: 0,
        };
        Batch::new(columns, rows.iter().enumerate().map(ordinal).collect())
    }

    #[test]
    fn rows_that_are_left_out_have_enough_before_them() {
        let fields = [("time", DataType::Timestamp(3)), ("key", DataType::STRING), ("value", DataType::BigInt)];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec();
        let input =
            KeyedInput { schema: Schema::new(fields), keys: vec![1], time: Some(0), reach_ms: Some(0), leading: None };
        let slicing = Slicing { size_ms: 10, offset_ms: 3 };
        let mut seed = 5;
        let (mut left_out, mut left_out_of_all) = (0, 0);
        for round in 0..300 {
            let (rows, values) = (1 + random(&mut seed, 80), 1 + random(&mut seed, 12) as u64);
            let mut watermark = -20;
            let rows: Vec<Row> = (0..rows)
                .map(|_| {
                    watermark += random(&mut seed, 3);
                    let value = Some(random(&mut seed, values)).filter(|&value| value > 0);
                    (watermark - 4 + random(&mut seed, 25), random(&mut seed, 3), value, watermark)
                })
                .collect();
            // Two keys share a hash.
            let hashes: Vec<i64> = rows.iter().map(|row| row.1 / 2).collect();
            let windows = match round / 3 % 3 {
                0 => LeadingWindows::OfKey,
                1 => LeadingWindows::OfTime,
                _ => LeadingWindows::Slices { time: 0, slicing },
            };
            let ties = match round % 2 {
                0 => Ties::First,
                _ if windows == LeadingWindows::OfKey => Ties::Last,
                _ => Ties::First,
            };
            let function = [RankFunction::RowNumber, RankFunction::Rank, RankFunction::DenseRank][round % 3];
            let most = 1 + round % 4;
            let order = vec![SortColumn { column: 2, descending: round % 5 < 3, nulls_first: false }];
            let leading = Leading { windows, order: order.clone(), function, ties, most };
            let batch = batch(&rows);
            let kept = leading_rows(&leading, &input, Timeline::Own, &batch, &hashes).unwrap();
            let kept = kept.unwrap_or_else(|| (0..rows.len() as u32).collect());
            assert!(kept.is_sorted());
            let mut in_steps = Leaders::new(&leading, &input, Timeline::Own);
            for end in [rows.len() / 3, rows.len() / 2, rows.len()] {
                let first = sliced(&batch.columns, 0, end);
                assert!(in_steps.take(&first, &batch.ordinals, &hashes[..end]).unwrap());
            }
            assert_eq!(in_steps.kept, kept, "in one step and in several");
            let first = first_rows(&leading, &input, Timeline::Own, &batch, &hashes).unwrap();
            let first = first.unwrap_or_else(|| (0..rows.len() as u32).collect());
            assert!(first.is_sorted() && first.iter().all(|row| kept.contains(row)));
            left_out_of_all += kept.len() - first.len();
            let sorted = SortKeys::new(&batch.columns[2], order[0]).unwrap();
            for row in (0..rows.len()).filter(|&row| first.binary_search(&(row as u32)).is_err()) {
                let is_left_out_of_all = kept.contains(&(row as u32));
                left_out += usize::from(!is_left_out_of_all);
                let window = |row: &Row| match windows {
                    LeadingWindows::OfKey => (0, row.1, i64::MAX),
                    LeadingWindows::OfTime => (row.0, row.1, row.0),
                    LeadingWindows::Slices { slicing, .. } => {
                        let start = slicing.start_of(row.0);
                        (start, 0, start + 9)
                    }
                };
                let (own, due) = (window(&rows[row]), window(&rows[row]).2);
                assert!(rows[row].3 < due, "a late row is the operator's");
                let is_sliced = matches!(windows, LeadingWindows::Slices { .. });
                assert!(!is_sliced || rows[row].0 != own.0, "the start of a slice");
                let others = if is_left_out_of_all { 0..rows.len() } else { 0..row };
                let before = others.filter(|&other| other != row && window(&rows[other]) == own && rows[other].3 < due);
                let mut before: Vec<usize> = before
                    .filter(|&other| {
                        let against = sorted.compare(other as u32, row as u32);
                        let is_tie_before = match (function, ties) {
                            (RankFunction::RowNumber, Ties::First) => other < row,
                            (RankFunction::RowNumber, Ties::Last) => other > row,
                            _ => false,
                        };
                        against.is_lt() || (against.is_eq() && is_tie_before)
                    })
                    .collect();
                if function == RankFunction::DenseRank {
                    before.sort_by(|&a, &b| sorted.compare(a as u32, b as u32));
                    before.dedup_by(|a, b| sorted.compare(*a as u32, *b as u32).is_eq());
                }
                assert!(before.len() >= most, "row {row} of {rows:?} has only {before:?} before it");
            }
        }
        assert!(left_out > 1000 && left_out_of_all > 500, "{left_out}, {left_out_of_all}");
    }
}
