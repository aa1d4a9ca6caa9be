//! The Yahoo streaming benchmark's rows as a stream that can be replayed, for systems that are not in this process.

use super::replay::{Replay, schema};
use crate::suite::Random;
use arrow_array::builder::StringViewBuilder;
use arrow_array::{Int64Array, RecordBatch, TimestampMillisecondArray};
use std::sync::Arc;

/// Of one round.
pub(crate) const ROWS: u64 = 3_000_000;
const CAMPAIGNS: u64 = 10_000;
const ROWS_PER_MS: u64 = 200;

/// Views per campaign and 10 seconds.
pub(crate) const QUERY: &str = "SELECT campaign, window_start, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE ysb, DESCRIPTOR(event_time), INTERVAL '10' SECOND))
    WHERE event_type = 'view' GROUP BY campaign, window_start, window_end";

/// Rows of which a third are views, of campaigns at random, whose time advances.
pub(crate) fn generate(rows: u64) -> Replay {
    let mut random = Random::new(5);
    let mut types = StringViewBuilder::with_capacity(rows as usize);
    let mut campaigns = Vec::with_capacity(rows as usize);
    for _ in 0..rows {
        types.append_value(["view", "click", "purchase"][random.below(3) as usize]);
        campaigns.push(random.below(CAMPAIGNS));
    }
    let times = TimestampMillisecondArray::from_iter_values((0..rows).map(|row| (row / ROWS_PER_MS) as i64));
    let columns: Vec<arrow_array::ArrayRef> =
        vec![Arc::new(types.finish()), Arc::new(Int64Array::from(campaigns)), Arc::new(times)];
    let names = &[("event_type", "STRING"), ("campaign", "BIGINT"), ("event_time", "TIMESTAMP(3)")];
    Replay {
        name: "ysb",
        columns: names,
        delay: "'0.001' SECOND",
        time: "event_time",
        shifts: vec![("event_time", rows.div_ceil(ROWS_PER_MS) as i64)],
        rows: RecordBatch::try_new(schema(names), columns).expect("the columns are those of the schema"),
    }
}
