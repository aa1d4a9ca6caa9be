//! Processing time: rows whose time is the machine's clock when they are sequenced.
//!
//! The clock of a stream never goes back, even if the machine's does. A buffer that is sequenced at *t* has rows of time
//! *t* and sees a watermark below *t*, so no row is ever late. While no rows come, the supervisor lets the watermark follow
//! the clock to the moments that operators wait for (see `timers`).

use crate::buffer::Rows;
use arrow_array::TimestampMillisecondArray;
use arrow_schema::DataType;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The clock of a stream.
#[derive(Debug)]
pub(crate) struct ProcessingTime {
    /// Of the appended column: milliseconds, with or without time zone.
    data_type: DataType,
    /// Milliseconds since the epoch.
    now: i64,
    read: fn() -> i64,
}

impl ProcessingTime {
    /// For a time column of the type.
    pub(crate) fn new(data_type: DataType) -> ProcessingTime {
        ProcessingTime { data_type, now: i64::MIN, read: machine_time }
    }

    /// Appends the time of now to the columns of a buffer that is being sequenced; the watermark after it.
    pub(crate) fn stamp(&mut self, rows: &mut Rows) -> i64 {
        let watermark = self.tick();
        let times = TimestampMillisecondArray::from_value(self.now, rows.rows);
        rows.columns.push(Arc::new(times.with_data_type(self.data_type.clone())));
        watermark
    }

    /// The watermark of now: rows of this millisecond may still come.
    pub(crate) fn tick(&mut self) -> i64 {
        self.now = self.now.max((self.read)());
        self.now.saturating_sub(1)
    }
}

/// Milliseconds since the epoch; 0 on a machine that lives before it.
pub(crate) fn machine_time() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::sequencer::{Sequenced, Sequencer, Unit};
    use arrow_array::cast::AsArray;
    use arrow_array::types::TimestampMillisecondType;
    use arrow_schema::TimeUnit;
    use std::cell::Cell;

    thread_local! {
        static TIME: Cell<i64> = const { Cell::new(0) };
    }

    #[test]
    fn rows_are_in_time_and_the_clock_never_goes_back() {
        let data_type = DataType::Timestamp(TimeUnit::Millisecond, None);
        let clock = ProcessingTime { read: || TIME.get(), ..ProcessingTime::new(data_type) };
        let mut sequencer = Sequencer::new(Some(clock), 0, None);
        let mut out = Vec::new();
        let mut note = |s: Sequenced| {
            out.push(match s {
                Sequenced::Buffer(b) => {
                    let time = b.columns[0].as_primitive::<TimestampMillisecondType>().value(0);
                    (Some(time), b.stamp.watermark)
                }
                Sequenced::Watermark(w) => (None, w),
                Sequenced::Cut(_) | Sequenced::Held | Sequenced::End(_) | Sequenced::Error(_) => (None, i64::MAX),
            });
        };
        let unit = || Unit { rows: vec![Rows { rows: 2, ..Rows::default() }], ..Unit::default() };
        TIME.set(100);
        sequencer.arrive(0, unit(), &mut note);
        TIME.set(90);
        sequencer.arrive(1, unit(), &mut note);
        TIME.set(200);
        sequencer.tick(&mut note);
        sequencer.arrive(2, unit(), &mut note);
        sequencer.arrive(
            3,
            Unit { end: Some(millstream_sync::epoch_ring::End::Complete), ..Unit::default() },
            &mut note,
        );
        TIME.set(300);
        sequencer.tick(&mut note);
        let expected =
            [(Some(100), i64::MIN), (None, 99), (Some(100), 99), (None, 199), (Some(200), 199), (None, i64::MAX)];
        assert_eq!(out, expected);
    }
}
