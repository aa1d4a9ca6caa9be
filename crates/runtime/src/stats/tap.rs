//! A look at the rows that go to a sink: the last ones, as text, while somebody looks.

use arrow_array::{Array, ArrayRef, Int8Array};
use millstream_connectors::display;
use millstream_types::{RowKind, Schema};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Rows that are kept.
const KEPT: usize = 100;
/// Rows of one buffer that are kept.
const OF_BUFFER: usize = 20;
/// A buffer is looked at at most once in so long, so a fast sink costs no more than a slow one.
const APART: Duration = Duration::from_millis(50);
/// Who has not asked for so long looks no more.
const INTEREST: Duration = Duration::from_secs(10);
/// Bytes of a value that are shown.
const MOST_BYTES: usize = 500;

/// The rows that went to a sink last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenRows {
    /// The sink, as its statistics call it.
    pub sink: String,
    /// Names and types of the columns; of a result that changes, the kind of change is the first.
    pub columns: Vec<(String, String)>,
    /// Values as SQL shows them; `None` is NULL. The newest row is the last.
    pub rows: Vec<Vec<Option<String>>>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RowTap {
    /// Whether somebody looks: all that a buffer asks for otherwise.
    is_open: AtomicBool,
    state: Mutex<TapState>,
}

#[derive(Debug, Default)]
struct TapState {
    asked: Option<Instant>,
    noted: Option<Instant>,
    rows: VecDeque<Vec<Option<String>>>,
}

impl RowTap {
    /// Rows have been made for a sink whose columns are `schema`, and the kind of change behind them if there is one.
    pub(crate) fn note(&self, schema: &Schema, columns: &[ArrayRef], rows: usize) {
        if !self.is_open.load(Relaxed) {
            return;
        }
        // One worker at a time looks, and no other waits for it.
        let Some(mut state) = self.state.try_lock() else { return };
        let now = Instant::now();
        if state.asked.is_none_or(|asked| now.saturating_duration_since(asked) > INTEREST) {
            self.is_open.store(false, Relaxed);
            state.rows.clear();
            return;
        }
        if state.noted.is_some_and(|noted| now.saturating_duration_since(noted) < APART) {
            return;
        }
        state.noted = Some(now);
        for row in rows.saturating_sub(OF_BUFFER)..rows {
            if state.rows.len() == KEPT {
                state.rows.pop_front();
            }
            state.rows.push_back(shown(schema, columns, row));
        }
    }

    /// The last rows; from now on, and for a while, rows are looked at.
    pub(crate) fn look(&self) -> Vec<Vec<Option<String>>> {
        let mut state = self.state.lock();
        state.asked = Some(Instant::now());
        self.is_open.store(true, Relaxed);
        state.rows.iter().cloned().collect()
    }
}

fn shown(schema: &Schema, columns: &[ArrayRef], row: usize) -> Vec<Option<String>> {
    let change = columns.get(schema.fields.len()).and_then(|column| column.as_any().downcast_ref::<Int8Array>());
    let change = change.map(|kinds| Some(RowKind::of(kinds.value(row)).map_or("?", RowKind::text).to_string()));
    let value = |(column, field): (&ArrayRef, &millstream_types::Field)| {
        if column.is_null(row) {
            return None;
        }
        let mut bytes = Vec::new();
        display::write_value(&mut bytes, column.as_ref(), row, &field.data_type);
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if text.len() > MOST_BYTES {
            text.truncate(text.floor_char_boundary(MOST_BYTES));
            text.push('…');
        }
        Some(text)
    };
    change.into_iter().chain(columns.iter().zip(&schema.fields).map(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int64Array, StringViewArray};
    use millstream_types::{DataType, Field};
    use std::sync::Arc;

    #[test]
    fn the_last_rows_are_shown_while_somebody_looks() {
        let schema =
            Schema::new(vec![Field::new("n", DataType::BigInt, true), Field::new("s", DataType::STRING, true)]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter((0..1000).map(|n| (n != 999).then_some(n)))),
            Arc::new(StringViewArray::from_iter_values((0..1000).map(|n| n.to_string().repeat(200)))),
        ];
        let tap = RowTap::default();
        tap.note(&schema, &columns, 1000);
        assert!(tap.look().is_empty(), "nobody looked");
        tap.note(&schema, &columns, 1000);
        let rows = tap.look();
        assert_eq!((rows.len(), rows[0][0].as_deref(), rows[19][0].as_deref()), (20, Some("980"), None));
        assert_eq!(rows[0][1].as_ref().map(|text| text.chars().count()), Some(501));
        tap.note(&schema, &columns, 1000);
        assert_eq!(tap.look().len(), 20, "not so soon again");
    }

    #[test]
    fn changes_are_named() {
        let schema = Schema::new(vec![Field::new("n", DataType::BigInt, true)]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![7, 8])),
            Arc::new(Int8Array::from(vec![RowKind::Insert as i8, RowKind::Delete as i8])),
        ];
        assert_eq!(shown(&schema, &columns, 0), [Some("+I".into()), Some("7".into())]);
        assert_eq!(shown(&schema, &columns, 1), [Some("-D".into()), Some("8".into())]);
    }
}
