//! The sequencer of a stream: puts units that become ready in any order back into theirs, and stamps their buffers.
//!
//! A *unit* is what one decode task or one merge task makes: a decoded chunk of a split, or a range of the rows of a
//! fired window. Units are numbered where they are cut (by the reader, by the trigger); stamping a buffer is O(1),
//! because each brings the largest watermark of its rows along.

use crate::buffer::{Buffer, Rows, Stamp, drop_list};
use crate::ids::Generation;
use crate::schedule::beats::{BeatEnd, FIRST_WATERMARK};
use crate::source::processing_time::ProcessingTime;
use millstream_connectors::Position;
use millstream_storage::SplitState;
use millstream_sync::epoch_ring::End;
use millstream_types::Diagnostic;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// Bits of the number of a row that count those of its unit, for streams of stations: of the 40 that a row's number has
/// (`pipeline_stages`) there are 12 for the partition.
const ROWS_OF_UNIT_BITS: u32 = 28;

/// What arrives at a stream under one number.
#[derive(Debug, Default)]
pub(crate) struct Unit {
    /// Rows, in order.
    pub(crate) rows: Vec<Rows>,
    /// What the watermark before the rows is at least: a window's rows come when the windows before it are complete, also
    /// where the stream gets to know of several at once.
    pub(crate) before: Option<i64>,
    /// Where the rows of the unit stand among those of the station's other units under the same watermark: a partition. `None` for
    /// splits, whose rows are numbered through.
    pub(crate) place: Option<usize>,
    /// The stream's watermark after the rows, where it does not follow from them.
    pub(crate) watermark: Option<i64>,
    /// What the rows would have raised the watermark to, if they are not to: see [`Unit::lifts`].
    pub(crate) held: Option<i64>,
    /// Whether the watermark is now that of all rows.
    pub(crate) lifts: bool,
    /// The generation that begins after the rows and the watermark, if one does.
    pub(crate) cut: Option<Generation>,
    /// Where reading resumes behind it, for units of splits that have positions.
    pub(crate) after: Option<Position>,
    /// Whether more of the unit comes under its number: this part has rows only.
    pub(crate) continues: bool,
    /// Whether this is the last unit.
    pub(crate) end: Option<End>,
    /// What is wrong with the row after `rows`; ends the query.
    pub(crate) error: Option<Diagnostic>,
}

/// What leaves the sequencer, in order.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation for each buffer")]
pub(crate) enum Sequenced {
    /// The next buffer.
    Buffer(Buffer),
    /// The watermark has advanced.
    Watermark(i64),
    /// A generation of tables begins with the next buffer.
    Cut(Generation),
    /// The stream has ended.
    End(End),
    /// The beat has all rows of the stream that it takes.
    Held,
    /// The stream cannot continue.
    Error(Diagnostic),
}

/// Rows of a split that a beat takes. What comes behind them waits for the beat's end.
#[derive(Debug, Clone, Copy)]
enum Room {
    /// So many, of which some have not come yet.
    Rows { of_beat: u64, left: u64 },
    /// Those with a lower watermark before them.
    Before(i64),
}

impl Room {
    /// How many of some rows fit, given the watermark before them.
    fn of(self, rows: &Rows, watermark: i64) -> usize {
        match self {
            Room::Rows { left, .. } => usize::try_from(left).unwrap_or(usize::MAX),
            Room::Before(end) if watermark >= end => 0,
            Room::Before(end) => rows.times.as_ref().map_or(rows.rows, |times| times.rows_before(watermark, end)),
        }
    }
}

/// Order and watermark of one stream.
#[derive(Debug)]
pub(crate) struct Sequencer {
    next_unit: u64,
    /// Units whose predecessors are not there yet; bounded by the chunks in flight.
    waiting: BTreeMap<u64, Unit>,
    /// Whether the next part of a unit is not its first.
    is_continued: bool,
    next_buffer: u64,
    next_row: u64,
    watermark: i64,
    /// The watermark of rows that have not raised it.
    held_watermark: i64,
    generation: Generation,
    position: Option<Position>,
    /// The number of the first row of the unit.
    first_of_unit: u64,
    /// Rows that come again, as they were part of a beat before a recovery.
    again: u64,
    /// Gives rows their time, where that is the machine's.
    clock: Option<ProcessingTime>,
    /// Where beats end behind a number of rows: what still fits into this one, and the unit that did not fit as a whole.
    room: Option<Room>,
    held: Option<Unit>,
    ended: bool,
    /// Whether a unit had an error, behind which nothing comes. Otherwise another worker could bring the end, and with it that of the query,
    /// before the error has ended it.
    has_failed: bool,
}

impl Sequencer {
    /// At the start of a stream; with a clock if the time of its rows is that of their processing.
    /// `rows` have come before, in an earlier process.
    pub(crate) fn new(clock: Option<ProcessingTime>, rows: u64, position: Option<Position>) -> Sequencer {
        Sequencer {
            next_unit: 0,
            waiting: BTreeMap::new(),
            is_continued: false,
            next_buffer: 0,
            next_row: rows,
            watermark: i64::MIN,
            held_watermark: i64::MIN,
            generation: Generation::default(),
            position,
            first_of_unit: rows,
            again: 0,
            clock,
            room: None,
            held: None,
            ended: false,
            has_failed: false,
        }
    }

    /// The same for a split of which nothing comes behind `rows` rows before the beat has ended; 0: nothing is held back.
    pub(crate) fn with_beats_of(self, rows: u64) -> Sequencer {
        Sequencer { room: (rows > 0).then_some(Room::Rows { of_beat: rows, left: rows }), ..self }
    }

    /// The same for a split that is held back where its watermark reaches the end of a beat; see [`Sequencer::take_beat`].
    pub(crate) fn with_beats_of_time(self) -> Sequencer {
        Sequencer { room: Some(Room::Before(FIRST_WATERMARK)), ..self }
    }

    /// The same for a split of which the first `rows` rows behind its position are dropped: what they have changed is known.
    pub(crate) fn with_rows_again(self, rows: u64) -> Sequencer {
        Sequencer { again: rows, ..self }
    }

    /// The same for a split whose rows have not raised the watermark to this so far.
    pub(crate) fn with_held(self, watermark: Option<i64>) -> Sequencer {
        Sequencer { held_watermark: watermark.unwrap_or(i64::MIN), ..self }
    }

    /// Takes unit `number`, or the next part of it; what is in order now goes to `sink`.
    pub(crate) fn arrive(&mut self, number: u64, unit: Unit, mut sink: impl FnMut(Sequenced)) {
        if self.has_failed {
            return;
        }
        debug_assert!(number >= self.next_unit, "every unit arrives once");
        if number != self.next_unit || self.held.is_some() {
            return self.wait(number, unit);
        }
        self.next_unit += u64::from(!unit.continues);
        if self.pass(unit, &mut sink) {
            self.pass_waiting(&mut sink);
        }
    }

    /// Passes units that have waited for those before them.
    fn pass_waiting(&mut self, sink: &mut impl FnMut(Sequenced)) {
        while let Some(unit) = self.waiting.remove(&self.next_unit) {
            self.next_unit += u64::from(!unit.continues);
            if !self.pass(unit, sink) {
                return;
            }
        }
    }

    /// Passes a unit, as far as nothing is held back; whether the next one may follow.
    fn pass(&mut self, unit: Unit, sink: &mut impl FnMut(Sequenced)) -> bool {
        if let (Some(place), false) = (unit.place, self.is_continued) {
            self.next_row = (place as u64) << ROWS_OF_UNIT_BITS;
        }
        self.is_continued = unit.continues;
        let mut left = VecDeque::from(unit.rows);
        while let Some(mut rows) = left.pop_front() {
            if self.again > 0 {
                let kept = rows.split_off(usize::try_from(self.again).unwrap_or(usize::MAX));
                kept.into_iter().for_each(|kept| left.push_front(kept));
                self.again -= rows.rows as u64;
                self.next_row += rows.rows as u64;
                continue;
            }
            if let Some(room) = &mut self.room {
                let fitting = room.of(&rows, self.watermark.max(unit.before.unwrap_or(i64::MIN)));
                if fitting == 0 {
                    left.push_front(rows);
                    self.held = Some(Unit { rows: left.into(), ..unit });
                    return false;
                }
                let rest = rows.split_off(fitting);
                rest.into_iter().for_each(|rest| left.push_front(rest));
                if let Room::Rows { left, .. } = room {
                    *left -= rows.rows as u64;
                }
            }
            let brings = match &mut self.clock {
                Some(clock) => clock.stamp(&mut rows),
                None => rows.times.as_ref().map_or(i64::MIN, |t| t.max_watermark),
            };
            let stamp = Stamp {
                sequence: self.next_buffer,
                watermark: self.watermark.max(unit.before.unwrap_or(i64::MIN)),
                first_row: self.next_row,
                generation: self.generation,
            };
            self.next_buffer += 1;
            self.next_row += rows.rows as u64;
            sink(Sequenced::Buffer(Buffer::new(rows, stamp)));
            self.advance(brings, sink);
            if let Some(Room::Rows { left: 0, .. }) = self.room {
                sink(Sequenced::Held);
            }
        }
        drop_list(left.into());
        if unit.continues {
            return false;
        }
        if let Some(error) = unit.error {
            self.has_failed = true;
            sink(Sequenced::Error(error));
            return false;
        }
        self.advance(unit.watermark.unwrap_or(i64::MIN), sink);
        self.held_watermark = self.held_watermark.max(unit.held.unwrap_or(i64::MIN));
        if unit.lifts {
            self.advance(self.held_watermark, sink);
        }
        self.position = unit.after.or(self.position);
        self.first_of_unit = self.next_row;
        unit.cut.into_iter().for_each(|generation| self.cut(generation, &mut *sink));
        if let Some(end) = unit.end {
            self.ended = true;
            sink(Sequenced::End(end));
            if let Some(Room::Before(_)) = self.room {
                sink(Sequenced::Held);
            }
        }
        true
    }

    /// How far the stream has come in the beat of event time.
    pub(crate) fn beat_end(&self) -> BeatEnd {
        match self.room {
            Some(Room::Before(end)) if !self.ended => match self.watermark >= end {
                true => BeatEnd::Reached(self.watermark),
                false => BeatEnd::Awaited,
            },
            _ => BeatEnd::None,
        }
    }

    /// Whether a checkpoint here can say where reading resumes: behind a unit, or in one whose beginning has a position.
    pub(crate) fn can_resume(&self) -> bool {
        self.held.is_none() || self.position.is_some()
    }

    /// The beat of event time that is under way ends at a watermark: rows that were held back come, as far as they are of it.
    pub(crate) fn take_beat(&mut self, end: i64, sink: impl FnMut(Sequenced)) {
        if let Some(Room::Before(before)) = &mut self.room {
            *before = end;
            self.resume(sink);
        }
    }

    /// Passes the rest of a unit of which rows are held back, if a checkpoint could not say how many have come.
    pub(crate) fn end_unit(&mut self, mut sink: impl FnMut(Sequenced)) {
        if !self.can_resume()
            && let Some(held) = self.held.take()
        {
            let room = self.room.take();
            self.pass(held, &mut sink);
            self.room = room;
        }
    }

    /// Passes what was held back until the beat had ended.
    pub(crate) fn resume(&mut self, mut sink: impl FnMut(Sequenced)) {
        if self.room.is_none() || self.has_failed {
            return;
        }
        let may_follow = match self.held.take() {
            Some(held) => self.pass(held, &mut sink),
            None => true,
        };
        if may_follow {
            self.pass_waiting(&mut sink);
        }
    }

    /// Keeps a unit, or another part of it, until it is the next.
    fn wait(&mut self, number: u64, unit: Unit) {
        match self.waiting.entry(number) {
            Entry::Vacant(place) => {
                place.insert(unit);
            }
            Entry::Occupied(mut parts) => {
                let rows = std::mem::take(&mut parts.get_mut().rows);
                parts.insert(Unit { rows: rows.into_iter().chain(unit.rows).collect(), ..unit });
            }
        }
    }

    /// Raises the watermark to at least `floor` before the next buffer: a split that was silent comes after what was
    /// decided without it.
    pub(crate) fn raise(&mut self, floor: i64, mut sink: impl FnMut(Sequenced)) {
        self.advance(floor, &mut sink);
    }

    /// Has a new generation begin with the next buffer, unless there is none.
    pub(crate) fn cut(&mut self, generation: Generation, mut sink: impl FnMut(Sequenced)) {
        if !self.ended && !self.has_failed && generation > self.generation {
            self.generation = generation;
            if let Some(Room::Rows { of_beat, left }) = &mut self.room {
                *left = *of_beat;
            }
            sink(Sequenced::Cut(generation));
        }
    }

    /// How far the stream has come: of what a checkpoint says of a split, all but what it is.
    pub(crate) fn reached(&self) -> SplitState {
        let (at, line) = (self.position.map(|position| position.at), self.position.map_or(0, |position| position.line));
        let (rows, watermark, ended) = (self.next_row + self.again, self.watermark, self.ended);
        let behind = self.held.as_ref().map_or(self.again, |_| self.next_row - self.first_of_unit);
        let held = Some(self.held_watermark).filter(|held| *held > watermark);
        SplitState { at, line, rows, behind, watermark, held, ended, ..SplitState::default() }
    }

    /// Lets the watermark follow the clock, if the stream has one.
    pub(crate) fn tick(&mut self, mut sink: impl FnMut(Sequenced)) {
        if let Some(clock) = self.clock.as_mut().filter(|_| !self.ended) {
            let watermark = clock.tick();
            self.advance(watermark, &mut sink);
        }
    }

    /// Whether a unit waits for another.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty() || self.held.is_some()
    }

    /// Units taken so far, in order.
    pub(crate) fn units(&self) -> u64 {
        self.next_unit
    }

    fn advance(&mut self, watermark: i64, sink: &mut impl FnMut(Sequenced)) {
        if watermark > self.watermark {
            let ends_beat = matches!(self.room, Some(Room::Before(end)) if self.watermark < end && watermark >= end);
            self.watermark = watermark;
            sink(Sequenced::Watermark(watermark));
            if ends_beat {
                sink(Sequenced::Held);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::event_time::RowTimes;

    fn unit(rows: usize, watermark: Option<i64>) -> Unit {
        Unit { rows: vec![Rows { rows, ..Rows::default() }], watermark, ..Unit::default() }
    }

    #[test]
    fn units_come_out_in_order_with_the_watermark_before_them() {
        let mut sequencer = Sequencer::new(None, 0, None);
        let mut out = Vec::new();
        let mut take = |s: Sequenced| {
            out.push(match s {
                Sequenced::Buffer(b) => format!("{}:{}@{}", b.stamp.sequence, b.rows, b.stamp.watermark),
                Sequenced::Watermark(w) => format!("w{w}"),
                Sequenced::Cut(generation) => format!("g{}", generation.0),
                Sequenced::End(_) => "end".to_string(),
                Sequenced::Held => "held".to_string(),
                Sequenced::Error(e) => e.message,
            });
        };
        sequencer.arrive(2, Unit { end: Some(End::Complete), ..unit(3, None) }, &mut take);
        sequencer.arrive(1, unit(2, Some(4)), &mut take);
        assert!(sequencer.is_waiting());
        sequencer.arrive(0, unit(1, Some(9)), &mut take);
        let min = i64::MIN;
        assert_eq!(out, [format!("0:1@{min}"), "w9".into(), "1:2@9".into(), "2:3@9".into(), "end".into()]);
        assert_eq!(sequencer.units(), 3);
    }

    #[test]
    fn nothing_comes_behind_an_error() {
        let (mut sequencer, mut out) = (Sequencer::new(None, 0, None), Vec::new());
        let mut take = |s: Sequenced| {
            out.push(match s {
                Sequenced::Buffer(buffer) => format!("{} rows", buffer.rows),
                Sequenced::Error(error) => error.message,
                _ => "more".into(),
            });
        };
        let position = |at| Some(Position { at, line: 0 });
        sequencer.arrive(0, Unit { after: position(10), ..unit(1, None) }, &mut take);
        sequencer.arrive(2, Unit { end: Some(End::Complete), ..unit(3, None) }, &mut take);
        let failed = Unit { after: position(20), error: Some(Diagnostic::bug("bad record")), ..unit(2, Some(4)) };
        sequencer.arrive(1, failed, &mut take);
        sequencer.arrive(3, unit(5, Some(9)), &mut take);
        sequencer.cut(Generation(1), &mut take);
        assert_eq!(out, ["1 rows", "2 rows", "bad record"]);
        // A restart reads the record again.
        assert_eq!((sequencer.reached().at, sequencer.reached().ended), (Some(10), false));
    }

    #[test]
    fn a_watermark_that_is_held_comes_with_the_unit_that_lifts_it() {
        let (mut sequencer, mut out) = (Sequencer::new(None, 0, None).with_held(Some(3)), Vec::new());
        let mut take = |s: Sequenced| {
            out.push(match s {
                Sequenced::Buffer(buffer) => buffer.stamp.watermark,
                Sequenced::Watermark(watermark) => watermark,
                _ => panic!("nothing else comes"),
            });
        };
        let held = |watermark| {
            let rows = Rows { rows: 1, times: Some(RowTimes::in_order(&[watermark], 0).held()), ..Rows::default() };
            Unit { rows: vec![rows], held: Some(watermark), ..Unit::default() }
        };
        let lifting = || Unit { lifts: true, ..Unit::default() };
        sequencer.arrive(2, lifting(), &mut take);
        sequencer.arrive(1, unit(1, Some(5)), &mut take);
        sequencer.arrive(0, held(9), &mut take);
        assert_eq!((sequencer.reached().watermark, sequencer.reached().held), (9, None));
        sequencer.arrive(3, held(12), &mut take);
        assert_eq!((sequencer.reached().watermark, sequencer.reached().held), (9, Some(12)));
        sequencer.arrive(4, lifting(), &mut take);
        assert_eq!(out, [i64::MIN, i64::MIN, 5, 9, 9, 12]);
        // What an earlier process had held back is lifted, too.
        let (mut resumed, mut lifted) = (Sequencer::new(None, 1, None).with_held(Some(12)), None);
        resumed.arrive(0, lifting(), |s| lifted = if let Sequenced::Watermark(w) = s { Some(w) } else { None });
        assert_eq!(lifted, Some(12));
    }

    #[test]
    fn rows_of_stations_are_numbered_within_their_unit() {
        let (mut sequencer, mut out) = (Sequencer::new(None, 0, None), Vec::new());
        let mut arrive = |number, unit| {
            sequencer.arrive(number, unit, |s| {
                if let Sequenced::Buffer(buffer) = s {
                    let first = buffer.stamp.first_row;
                    out.push((first >> ROWS_OF_UNIT_BITS, first % (1 << ROWS_OF_UNIT_BITS)));
                }
            });
            out.clone()
        };
        let of = |place, rows, continues| Unit { place: Some(place), continues, ..unit(rows, None) };
        assert!(arrive(1, of(7, 2, true)).is_empty());
        assert!(arrive(1, of(7, 3, true)).is_empty());
        assert_eq!(arrive(0, of(5, 4, false)), [(5, 0), (7, 0), (7, 2)]);
        assert_eq!(arrive(1, of(7, 1, false)).last(), Some(&(7, 5)));
        assert_eq!(arrive(2, of(5, 1, false)).last(), Some(&(5, 0)));
    }

    #[test]
    fn the_parts_of_a_unit_come_one_after_the_other_when_it_is_its_turn() {
        let (mut sequencer, mut out) = (Sequencer::new(None, 0, None), Vec::new());
        let mut arrive = |number, unit| {
            sequencer.arrive(number, unit, |s| match s {
                Sequenced::Buffer(buffer) => out.push(buffer.rows as i64),
                Sequenced::Watermark(watermark) => out.push(-watermark),
                _ => {}
            });
            out.clone()
        };
        let part = |rows| Unit { continues: true, ..unit(rows, None) };
        assert!(arrive(1, part(1)).is_empty());
        assert!(arrive(1, part(2)).is_empty());
        assert_eq!(arrive(0, unit(3, Some(7))), [3, -7, 1, 2]);
        assert_eq!(arrive(2, unit(6, None)), [3, -7, 1, 2]);
        assert_eq!(arrive(1, part(4)), [3, -7, 1, 2, 4]);
        assert_eq!(arrive(1, Unit { watermark: Some(8), ..Unit::default() }), [3, -7, 1, 2, 4, -8, 6]);
    }

    #[test]
    fn rows_behind_a_full_beat_wait_for_its_end() {
        let mut sequencer = Sequencer::new(None, 0, None).with_beats_of(3);
        let out = std::cell::RefCell::new(Vec::new());
        let take = |s: Sequenced| {
            out.borrow_mut().push(match s {
                Sequenced::Buffer(buffer) => format!("{}+{}", buffer.stamp.first_row, buffer.rows),
                Sequenced::Cut(generation) => format!("g{}", generation.0),
                Sequenced::Held => "held".into(),
                Sequenced::End(_) => "end".into(),
                _ => "more".into(),
            });
        };
        let position = |at| Some(Position { at, line: 0 });
        sequencer.arrive(1, Unit { after: position(20), ..unit(2, None) }, take);
        sequencer.arrive(0, Unit { after: position(10), ..unit(5, None) }, take);
        assert_eq!(out.take(), ["0+3", "held"]);
        sequencer.arrive(2, Unit { end: Some(End::Complete), ..Unit::default() }, take);
        assert!(sequencer.is_waiting() && out.take().is_empty());
        sequencer.cut(Generation(1), take);
        sequencer.resume(take);
        assert_eq!(out.take(), ["g1", "3+2", "5+1", "held"]);
        assert_eq!((sequencer.reached().at, sequencer.reached().rows), (Some(10), 6), "within a unit");
        // A checkpoint says how much of a unit has come.
        sequencer.end_unit(take);
        assert_eq!((sequencer.reached().behind, out.take().len()), (1, 0));
        sequencer.cut(Generation(2), take);
        sequencer.resume(take);
        assert_eq!(out.take(), ["g2", "6+1", "end"]);
        assert_eq!((sequencer.reached().at, sequencer.reached().rows, sequencer.reached().behind), (Some(20), 7, 0));
        assert!(!sequencer.is_waiting());
    }

    #[test]
    fn a_checkpoint_within_a_unit_of_no_position_comes_behind_it() {
        let (mut sequencer, mut out) = (Sequencer::new(None, 0, None).with_beats_of(3), Vec::new());
        let after = Some(Position { at: 10, line: 0 });
        sequencer.arrive(0, Unit { after, ..unit(5, None) }, |_| {});
        assert!(!sequencer.can_resume(), "where would the unit begin?");
        sequencer.end_unit(|s| {
            if let Sequenced::Buffer(buffer) = s {
                out.push(buffer.rows);
            }
        });
        assert_eq!((out, sequencer.reached().at, sequencer.reached().rows), (vec![2], Some(10), 5));
        assert!(sequencer.can_resume());
    }

    /// A unit of rows of these times.
    fn timed(times: &[i64], at: u64) -> Unit {
        let rows = Rows { rows: times.len(), times: Some(RowTimes::in_order(times, 0)), ..Rows::default() };
        Unit { rows: vec![rows], after: Some(Position { at, line: 0 }), ..Unit::default() }
    }

    #[test]
    fn a_beat_of_event_time_ends_behind_the_row_whose_watermark_reaches_its_end() {
        let mut sequencer = Sequencer::new(None, 0, None).with_beats_of_time();
        let out = std::cell::RefCell::new(Vec::new());
        let take = |s: Sequenced| {
            out.borrow_mut().push(match s {
                Sequenced::Buffer(buffer) => format!("{}+{}", buffer.stamp.first_row, buffer.rows),
                Sequenced::Watermark(watermark) => format!("w{watermark}"),
                Sequenced::Held => "held".into(),
                Sequenced::Cut(generation) => format!("g{}", generation.0),
                Sequenced::End(_) => "end".into(),
                Sequenced::Error(error) => error.message,
            });
        };
        sequencer.arrive(0, timed(&[3, 8, 12, 9, 25, 26], 10), take);
        assert_eq!(out.take(), ["0+1", "w3", "held"], "the first watermark");
        sequencer.take_beat(10, take);
        assert_eq!(out.take(), ["1+2", "w12", "held"]);
        assert_eq!((sequencer.beat_end(), sequencer.can_resume()), (BeatEnd::Reached(12), false));
        sequencer.cut(Generation(1), take);
        sequencer.take_beat(20, take);
        assert_eq!(out.take(), ["g1", "3+2", "w25", "held"]);
        // Beats in which nothing comes are passed over by whoever knows all splits; this one is not at the end of the next.
        sequencer.take_beat(30, take);
        assert_eq!((out.take().len(), sequencer.beat_end()), (2, BeatEnd::Awaited));
        sequencer.arrive(1, timed(&[28, 31, 29], 20), take);
        assert_eq!(out.take(), ["6+2", "w31", "held"]);
        let state = sequencer.reached();
        assert_eq!((state.at, state.rows, state.behind, state.watermark), (Some(10), 8, 2, 31));
        // A job that resumes here reads the unit again, and drops what was of the beat.
        let position = Some(Position { at: 10, line: 0 });
        let mut resumed = Sequencer::new(None, 6, position).with_beats_of_time().with_rows_again(2);
        resumed.raise(31, take);
        assert_eq!((out.take(), resumed.reached().rows), (vec!["w31".into(), "held".into()], 8));
        resumed.arrive(0, timed(&[28], 15), take);
        assert_eq!((resumed.reached().behind, resumed.reached().at), (1, Some(15)));
        resumed.take_beat(40, take);
        resumed.arrive(1, timed(&[31, 29], 20), take);
        resumed.arrive(2, Unit { end: Some(End::Complete), ..Unit::default() }, take);
        assert_eq!(out.take(), ["8+1", "end", "held"]);
        assert_eq!(resumed.beat_end(), BeatEnd::None);
    }
}
