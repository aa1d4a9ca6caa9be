//! What windows must give, by brute force.

use super::Row;
use millstream_plan::window::Overlap;
use std::collections::BTreeMap;

/// What [`tumbling_plan`] must give: rows as the sink's text, sorted, and the number of late rows.
pub fn tumbling_model(splits: &[Vec<Row>], size_ms: i64, delay_ms: i64) -> (Vec<String>, u64) {
    let (windows, late) = windows(splits, size_ms, delay_ms);
    let mut rows: Vec<String> = windows
        .iter()
        .map(|((start, key), count)| format!("{key},{count},{key},{start},{}", start + size_ms))
        .collect();
    rows.sort();
    (rows, late)
}

/// Count by (window start, key), and the number of late rows.
pub fn windows(splits: &[Vec<Row>], size_ms: i64, delay_ms: i64) -> (BTreeMap<(i64, i64), i64>, u64) {
    let mut windows: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    let mut late = 0;
    for split in splits {
        let mut watermark = i64::MIN;
        for (time, key, _) in split {
            let Some(time) = *time else { continue };
            let start = time.div_euclid(size_ms) * size_ms;
            if start + size_ms - 1 <= watermark {
                late += 1;
            } else {
                *windows.entry((start, *key)).or_default() += 1;
            }
            watermark = watermark.max(time - delay_ms);
        }
    }
    (windows, late)
}

/// The windows (start, end) that hold a time, in order of their ends.
pub fn windows_of(overlap: Overlap, time: i64) -> Vec<(i64, i64)> {
    let mut windows: Vec<(i64, i64)> = match overlap {
        Overlap::Hop { size_ms, slide_ms, offset_ms } => {
            let last = (time - offset_ms).div_euclid(slide_ms);
            let starts = (last - size_ms / slide_ms - 1..=last).map(|k| offset_ms + k * slide_ms);
            starts.map(|start| (start, start + size_ms)).collect()
        }
        Overlap::Cumulate { size_ms, step_ms, offset_ms } => {
            let start = (time - offset_ms).div_euclid(size_ms) * size_ms + offset_ms;
            (1..=size_ms / step_ms).map(|j| (start, start + j * step_ms)).collect()
        }
    };
    windows.retain(|&(start, end)| start <= time && time < end);
    windows
}

/// Rows of each (window, key), in merged order.
pub type Contents = BTreeMap<(i64, i64, i64), Vec<Row>>;

/// Rows in the windows that are not complete before them, and the number of rows that were late for all of theirs.
pub fn overlapping(splits: &[Vec<Row>], overlap: Overlap, delay_ms: i64) -> (Contents, u64) {
    let mut contents = Contents::new();
    let mut late = 0;
    for (_, row, watermark) in merged(splits, delay_ms) {
        let Some(time) = row.0 else { continue };
        let mut windows = windows_of(overlap, time);
        let is_late = windows.last().is_some_and(|&(_, end)| end - 1 <= watermark);
        late += u64::from(is_late);
        windows.retain(|&(_, end)| end - 1 > watermark);
        for (start, end) in windows {
            contents.entry((end, start, row.1)).or_default().push(row.clone());
        }
    }
    (contents, late)
}

/// All rows with their split and the watermark before them: by that, then by split, then as they come.
pub fn merged(splits: &[Vec<Row>], delay_ms: i64) -> Vec<(usize, Row, i64)> {
    let mut rows = Vec::new();
    for (split, of_split) in splits.iter().enumerate() {
        let mut watermark = i64::MIN;
        for row in of_split {
            rows.push((split, row.clone(), watermark));
            watermark = row.0.map_or(watermark, |time| watermark.max(time - delay_ms));
        }
    }
    rows.sort_by_key(|&(split, _, watermark)| (watermark, split));
    rows
}
