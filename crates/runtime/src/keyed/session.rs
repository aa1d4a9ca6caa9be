//! Sessions: windows of a key that end where nothing comes for longer than the gap, exactly as Flink merges them.
//!
//! Rows are consumed in merged order. Before a row, the sessions of its key that were complete under the watermark before
//! it have been output and are gone. The row's own window is `[t, t + gap)`; with the open sessions of the key that it
//! overlaps or touches it becomes one. If that one is complete already, the row is late.

use super::batch::{Batch, times_of};
use super::encoding::check_count;
use super::groups::Groups;
use super::key_share::{KeyShare, of_same_operator};
use super::slots::SlotTable;
use super::state::{State, Work};
use super::store::{Doubling, timestamps};
use crate::executable_plan::OperatorCode;
use arrow_array::ArrayRef;
use millstream_plan::pipeline::{KeyedOperator, SlotAggregates};
use millstream_plan::window::Timeline;
use millstream_state::Ordinal;
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::Diagnostic;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering::Relaxed;

/// No session.
const NONE: u32 = u32::MAX;
/// In place of the session of a late row.
const LATE: u32 = u32::MAX;

/// The open sessions of a partition; each has a number, which is given out again when it is over.
pub(crate) struct Sessions {
    gap_ms: i64,
    /// Position of the event time.
    time: usize,
    pub(crate) all: Vec<Session>,
    pub(crate) free: Vec<u32>,
    /// The first session of each group.
    heads: Vec<u32>,
    /// When to look whether a session is over: with its number and how often that had been given out.
    deadlines: BinaryHeap<Reverse<(i64, u32, u32)>>,
    groups: Groups,
    doubling: Doubling,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Session {
    start: i64,
    end: i64,
    /// Place of the first row: sessions that end together are output in its order.
    first: Ordinal,
    group: u32,
    /// The next session of the group.
    next: u32,
    generation: u32,
}

/// What a batch does to sessions.
#[derive(Default)]
pub(crate) struct Assigned {
    /// The session of each row, or [`LATE`].
    pub(crate) sessions: Vec<u32>,
    /// Sessions that were begun.
    pub(crate) begun: Vec<u32>,
    /// Sessions that became part of another: (into, from).
    pub(crate) merges: Vec<(u32, u32)>,
    late: usize,
}

impl Sessions {
    /// No sessions.
    pub(crate) fn new(plan: &KeyedOperator, gap_ms: i64, code: &OperatorCode) -> Result<Sessions, Diagnostic> {
        Ok(Sessions {
            gap_ms,
            time: plan.inputs[0].time.unwrap_or(0),
            all: Vec::new(),
            free: Vec::new(),
            heads: Vec::new(),
            deadlines: BinaryHeap::new(),
            groups: Groups::new(plan, code)?,
            doubling: Doubling::default(),
        })
    }

    /// The numbers of the open sessions of each group.
    fn chains(&self) -> impl Iterator<Item = Vec<u32>> + use<'_> {
        self.heads.iter().map(|&head| {
            let open = |&number: &u32| number != NONE;
            std::iter::successors(Some(head).filter(open), |&n| Some(self.all[n as usize].next).filter(open)).collect()
        })
    }

    /// The numbers of all open sessions: in their order [`Sessions::restore`] renumbers them.
    pub(crate) fn open(&self) -> impl Iterator<Item = u32> + use<'_> {
        self.chains().flatten()
    }

    /// Writes the open sessions.
    pub(crate) fn save(&self, out: &mut ByteWriter) {
        self.groups.table.save_from(0, out);
        for chain in self.chains() {
            out.length(chain.len());
            for session in chain.into_iter().map(|number| &self.all[number as usize]) {
                out.i64(session.start);
                out.i64(session.end);
                session.first.save(out);
            }
        }
    }

    /// Has the sessions that [`Sessions::save`] has written; there are none so far.
    pub(crate) fn restore(&mut self, from: &mut ByteReader<'_>) -> Result<(), Damaged> {
        self.groups.restore(from)?;
        for group in 0..self.groups.table.len() as u32 {
            let (first, count) = (self.all.len(), from.count(16 + Ordinal::ENCODED_BYTES)?);
            self.heads.push(if count > 0 { first as u32 } else { NONE });
            for number in first..first + count {
                let (start, end, ordinal) = (from.i64()?, from.i64()?, Ordinal::restore(from)?);
                if start > end || end == i64::MIN {
                    return Err(Damaged("a session ends before it begins".into()));
                }
                let next = if number + 1 < first + count { number as u32 + 1 } else { NONE };
                self.all.push(Session { start, end, first: ordinal, group, next, generation: 0 });
                self.deadlines.push(Reverse((end - 1, number as u32, 0)));
            }
        }
        self.doubling.done(self.groups.table.len());
        Ok(())
    }

    /// Takes over the open sessions of a share from others; which ones, by their numbers there: in this order they have the next numbers.
    pub(crate) fn absorb(&mut self, other: &Sessions, share: &KeyShare<'_>) -> Result<Vec<u32>, Damaged> {
        let (first, known) = (self.all.len(), self.groups.table.len() as u32);
        let taken = self.groups.absorb(&other.groups, share)?;
        let chains: Vec<Vec<u32>> = other.chains().collect();
        let mut sessions = Vec::new();
        for (group, before) in (known..).zip(taken) {
            let chain = &chains[before as usize];
            let number = |place: usize| if place < chain.len() { (self.all.len() + place) as u32 } else { NONE };
            self.heads.push(number(0));
            let moved = chain.iter().enumerate().map(|(place, &session)| {
                let next = if place + 1 < chain.len() { number(place + 1) } else { NONE };
                Session { group, next, generation: 0, ..other.all[session as usize] }
            });
            let moved: Vec<Session> = moved.collect();
            self.all.extend(moved);
            sessions.extend_from_slice(chain);
        }
        let deadline = |(number, session): (usize, &Session)| Reverse((session.end - 1, number as u32, 0));
        self.deadlines.extend(self.all.iter().enumerate().skip(first).map(deadline));
        self.doubling.done(self.groups.table.len());
        Ok(sessions)
    }

    /// Finds or begins the session of each row; late rows are counted and left out of the batch.
    pub(crate) fn assign(&mut self, batch: &mut Batch, work: &mut Work<'_>) -> Result<Assigned, Diagnostic> {
        let rows = batch.rows();
        let mut assigned = Assigned { sessions: Vec::with_capacity(rows), ..Assigned::default() };
        if rows == 0 {
            return Ok(assigned);
        }
        let times = times_of(&batch.columns[self.time])?;
        let groups = self.groups.assign(0, &batch.columns, rows, work)?;
        self.heads.resize(self.groups.table.len(), NONE);
        let (mut before, mut reached) = (i64::MIN, work.timeline.reached(i64::MIN));
        for ((&time, &ordinal), &group) in times.iter().zip(&batch.ordinals).zip(&groups) {
            if ordinal.watermark != before {
                (before, reached) = (ordinal.watermark, work.timeline.reached(ordinal.watermark));
            }
            let session = self.assign_row((time, reached), ordinal, group as u32, &mut assigned);
            assigned.sessions.push(session);
        }
        if assigned.late > 0 {
            work.stats.note_late(assigned.late as u64, || "a session window".into());
            let kept = (0..rows).filter(|&i| assigned.sessions[i] != LATE).map(|i| i as u32).collect();
            *batch = batch.pick(kept)?;
            assigned.sessions.retain(|&s| s != LATE);
        }
        Ok(assigned)
    }

    /// The session of a row before which a time was reached.
    #[inline]
    fn assign_row(
        &mut self,
        (time, reached): (i64, i64),
        ordinal: Ordinal,
        group: u32,
        assigned: &mut Assigned,
    ) -> u32 {
        let end = time.saturating_add(self.gap_ms);
        let (mut into, mut before, mut current) = (NONE, NONE, self.heads[group as usize]);
        while current != NONE {
            let session = self.all[current as usize];
            let is_over = session.end - 1 <= reached;
            let meets = !is_over && session.start <= end && time <= session.end;
            if meets && into == NONE {
                into = current;
                let s = &mut self.all[current as usize];
                (s.start, s.end, s.first) = (s.start.min(time), s.end.max(end), s.first.min(ordinal));
            }
            if is_over || (meets && into != current) {
                // It leaves the group: to be output, or as part of the other.
                match before {
                    NONE => self.heads[group as usize] = session.next,
                    _ => self.all[before as usize].next = session.next,
                }
                if meets {
                    let s = &mut self.all[into as usize];
                    s.start = s.start.min(session.start);
                    s.end = s.end.max(session.end);
                    s.first = s.first.min(session.first);
                    assigned.merges.push((into, current));
                }
            } else {
                before = current;
            }
            current = session.next;
        }
        if into != NONE {
            return into;
        }
        if end - 1 <= reached {
            assigned.late += 1;
            return LATE;
        }
        let number = self.free.pop().unwrap_or(self.all.len() as u32);
        let next = std::mem::replace(&mut self.heads[group as usize], number);
        let mut session = Session { start: time, end, first: ordinal, group, next, generation: 0 };
        match self.all.get_mut(number as usize) {
            Some(place) => {
                session.generation = place.generation;
                *place = session;
            }
            None => self.all.push(session),
        }
        self.deadlines.push(Reverse((end - 1, number, session.generation)));
        assigned.begun.push(number);
        number
    }

    /// Sessions that the watermark completes, in order of their end. Each has to be freed.
    pub(crate) fn complete(&mut self, watermark: i64) -> Vec<u32> {
        let mut complete = Vec::new();
        while let Some(Reverse((deadline, number, generation))) = self.deadlines.peek().copied() {
            if deadline > watermark {
                break;
            }
            self.deadlines.pop();
            let session = self.all[number as usize];
            if session.generation != generation {
                continue;
            }
            if session.end - 1 > watermark {
                self.deadlines.push(Reverse((session.end - 1, number, generation)));
                continue;
            }
            self.unlink(number, session);
            complete.push(number);
        }
        complete.sort_unstable_by_key(|&n| (self.all[n as usize].end, self.all[n as usize].first));
        complete
    }

    /// Takes a session out of those of its group, if it is among them.
    fn unlink(&mut self, number: u32, session: Session) {
        let head = &mut self.heads[session.group as usize];
        if *head == number {
            *head = session.next;
            return;
        }
        let mut current = *head;
        while current != NONE {
            let next = self.all[current as usize].next;
            if next == number {
                self.all[current as usize].next = session.next;
            }
            current = next;
        }
    }

    /// Makes the number of a session that is over free for another.
    pub(crate) fn free(&mut self, number: u32) {
        let generation = &mut self.all[number as usize].generation;
        *generation = generation.wrapping_add(1);
        self.free.push(number);
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.groups.table.bytes()
            + self.all.capacity() * size_of::<Session>()
            + (self.free.capacity() + self.heads.capacity()) * size_of::<u32>()
            + self.deadlines.capacity() * size_of::<Reverse<(i64, u32, u32)>>()
    }

    /// Columns of start and end.
    pub(crate) fn bounds(&self, numbers: &[u32]) -> [ArrayRef; 2] {
        let of =
            |bound: fn(&Session) -> i64| timestamps(numbers.iter().map(|&n| bound(&self.all[n as usize])).collect());
        [of(|s| s.start), of(|s| s.end)]
    }

    /// The watermarks that sessions are put out behind, as for [`Work::emit_behind`].
    pub(crate) fn watermarks(&self, numbers: &[u32], timeline: Timeline) -> Vec<i64> {
        let behind = |&n: &u32| timeline.watermark_at(self.all[n as usize].end - 1).saturating_sub(1);
        numbers.iter().map(behind).collect()
    }

    /// Forgets keys without open sessions, when there are many.
    pub(crate) fn forget(&mut self, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        if !self.doubling.is_due(self.groups.table.len(), work.is_tight) {
            return Ok(());
        }
        let kept: Vec<u64> = (0..self.heads.len() as u64).filter(|&g| self.heads[g as usize] != NONE).collect();
        self.groups.keep(&kept, work)?;
        self.heads = kept.iter().map(|&g| self.heads[g as usize]).collect();
        for (group, &head) in self.heads.iter().enumerate() {
            let mut current = head;
            while current != NONE {
                let session = &mut self.all[current as usize];
                session.group = group as u32;
                current = session.next;
            }
        }
        self.doubling.done(kept.len());
        Ok(())
    }

    /// When to look whether a session is over, at the earliest.
    pub(crate) fn due(&self) -> i64 {
        self.deadlines.peek().map_or(i64::MAX, |Reverse((deadline, ..))| *deadline)
    }
}

/// Aggregates of sessions.
pub(crate) struct SessionAggregate {
    sessions: Sessions,
    table: SlotTable,
    /// The slot of each session.
    slots: Vec<i64>,
}

impl SessionAggregate {
    /// No sessions.
    pub(crate) fn new(
        plan: &KeyedOperator,
        gap_ms: i64,
        aggregates: &SlotAggregates,
        code: &OperatorCode,
    ) -> Result<SessionAggregate, Diagnostic> {
        let (sessions, table) = (Sessions::new(plan, gap_ms, code)?, SlotTable::new(aggregates, code)?);
        Ok(SessionAggregate { sessions, table, slots: Vec::new() })
    }
}

impl State for SessionAggregate {
    fn advance(&mut self, inputs: Vec<Batch>, watermark: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        for mut batch in inputs {
            let assigned = self.sessions.assign(&mut batch, work)?;
            self.slots.resize(self.sessions.all.len(), 0);
            for &session in &assigned.begun {
                self.slots[session as usize] = self.table.slots.allocate();
            }
            let slots = assigned.sessions.iter().map(|&s| self.slots[s as usize]).collect();
            self.table.update(&batch.columns, slots, (&batch.ordinals, &[]), work)?;
            for &(into, from) in &assigned.merges {
                self.table.slots.merge_into(self.slots[into as usize], self.slots[from as usize]);
                self.table.slots.remove(self.slots[from as usize]);
            }
            assigned.merges.iter().for_each(|&(_, from)| self.sessions.free(from));
        }
        let complete = self.sessions.complete(watermark);
        work.stats.windows_fired.fetch_add(complete.len() as u64, Relaxed);
        for part in complete.chunks(work.most_rows) {
            let groups: Vec<u64> = part.iter().map(|&n| self.sessions.all[n as usize].group.into()).collect();
            let slots: Vec<i64> = part.iter().map(|&n| self.slots[n as usize]).collect();
            let mut columns = self.sessions.groups.columns(&groups);
            columns.extend(self.table.columns(&slots));
            columns.extend(self.sessions.bounds(part));
            work.emit_behind(columns, self.sessions.watermarks(part, work.timeline));
            slots.into_iter().for_each(|slot| self.table.slots.remove(slot));
        }
        complete.into_iter().for_each(|session| self.sessions.free(session));
        self.sessions.forget(work)
    }

    fn due(&self) -> i64 {
        self.sessions.due()
    }

    fn bytes(&mut self) -> usize {
        self.sessions.bytes() + self.table.bytes() + self.slots.capacity() * size_of::<i64>()
    }

    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.sessions.save(out);
        self.table.slots.save(out);
        out.i64s(&self.sessions.open().map(|session| self.slots[session as usize]).collect::<Vec<_>>());
        Ok(())
    }

    fn restore(&mut self, from: &mut ByteReader<'_>, _now_ms: i64) -> Result<(), Diagnostic> {
        self.sessions.restore(from)?;
        self.table.restore(from)?;
        self.slots = from.i64s()?;
        check_count("slots of sessions", self.slots.len(), self.sessions.all.len())?;
        Ok(self.table.check_owned(self.slots.iter().copied())?)
    }

    fn absorb(&mut self, other: &mut dyn State, share: &mut KeyShare<'_>) -> Result<(), Diagnostic> {
        let other = of_same_operator::<SessionAggregate>(other)?;
        let sessions = self.sessions.absorb(&other.sessions, share)?;
        let slots: Vec<i64> = sessions.iter().map(|&session| other.slots[session as usize]).collect();
        let numbers = self.table.absorb(&other.table, &slots)?;
        self.slots.extend(slots.iter().map(|slot| numbers[slot]));
        Ok(())
    }
}
