//! Flow control (backpressure): when a reader may bring its next chunk.
//!
//! A chunk is *in flight* from when its reader hands it over until the last buffer made of it has been put into tables
//! or written to sinks: its [`Permit`] travels with the rows. Readers ask for a permit *after* reading, so that a
//! reader that waits for its connector holds none, and no number of silent splits can starve the others. Rows that
//! triggers and keyed operators output have permits too, which are never waited for, so that they count as well.
//!
//! A reader waits
//! 1. for a permit, whose number is limited, in all and for each split. A reader that is the only one waits until half of them
//!    are free: to be woken for each costs more than to read the chunk;
//! 2. while what is in flight is more than a quarter of what state leaves of the memory budget, or more than [`WEIGHT`]
//!    for each permit: a sink that does not write, and windows that put out more than is consumed, stop the input;
//! 3. over 80 % of the budget, unless its split is one of those with the lowest watermark among the splits that advance
//!    windows together. Splits ahead of it wait, because only the watermark of the slowest completes windows and frees
//!    their memory. While state is being spilled (see `durable::spilling`) all splits wait there, and what is in flight counts
//!    as what it may grow to. Of queries that may spill only a sixteenth of what state leaves is in flight.
//!
//! A worker that reads a split by itself never waits ([`Flow::try_acquire`]). By the first rule its split is kept until there is room; by the
//! others a thread reads it from then on, which waits as above.
//!
//! If state alone exceeds the budget, nothing is being spilled or in flight, and no worker has anything to do, only the
//! slowest splits can make it fit. They continue with one chunk at a time. When that has made the state grow by a fifth
//! of the budget, the query ends with an error. (At the first such moment the state may be too large because of what
//! was in flight of splits that were ahead; that is no reason to give up.) A query that may spill first looks once more
//! whether anything can be spilled: what the spilling thread found nothing in a moment ago may have become tables
//! since.
//!
//! What a few chunks become has no such bound: a row can be a million after a join or UNNEST. So the query also ends at
//! once when its state is far over the budget: twice, and [`OVERRUN`] more, or near to what the machine or container has.
//!
//! # Why nobody waits forever
//!
//! What rules 1 and 2 wait for comes without further input. A chunk that is decoded waits only for chunks of its split
//! that were read before it and have their permits already. Buffers wait for nothing. Triggers and the jobs of keyed
//! operators wait at most for output that is not consumed, and the next of each stream never does (see `parking`);
//! their numbers are given when they are ready to run. A piece of output waits for those before
//! it in its lane, which are made of such buffers, and for its sink. Rows that an operator keeps until a watermark are
//! state: they hold no permit. So by and by all of them are given back, except while a sink stands still, and then
//! waiting is what the reader shall do. With nothing in flight both rules let everyone continue.
//!
//! Rule 3 lets at least one of the splits that are compared continue: that of the lowest watermark. Splits that do not
//! speak are not waited for: those that no thread reads yet (fewer readers than splits, or a later phase, whose readers
//! wait for this one), those that have ended, and those that are idle by their source's timeout. A split that was idle
//! and has a chunk now continues if it is behind all others. A split whose connector has nothing for it holds the
//! others back, as it holds back their windows; without an idle timeout the query waits for it within its memory.
//! Splits without event time, or whose time is that of processing, complete no window by being read before others; nor
//! do splits that no operator brings together. So these are not compared, and continue.
//!
//! Spilling ends without input. A cut needs none to pass what has been read. Frozen tables are written by a thread that
//! waits for nothing else; when it finds no more of them it says so, whatever the state is then. A merge of spilled
//! tables stops while its own output is not consumed, and that is consumed without input, too.
//!
//! Splits that stand at the end of a beat of event time hold chunks in flight until all others have come there. So with such beats each split
//! has its share of the permits to itself, and one with nothing in flight may always read a chunk: what is in flight may be larger than the
//! bound by a chunk for each split.
//!
//! The error needs a reader that asks; without one the input has ended, or is silent, and memory does not grow.

mod permit;

pub(crate) use permit::Permit;

use crate::ids::StreamId;
use crate::stats::{WaitCause, Waits};
use millstream_state::{Charge, MemoryBudget, MemoryClass, available_memory};
use millstream_types::{Diagnostic, code, memory_text};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Bytes in flight that each permit allows for.
const WEIGHT: u64 = 4 << 20;
/// Bytes of a table for each byte in flight, at worst about: a row of one number becomes an entry of 32 bytes, in a hash part
/// of which a third is in use.
const GROWTH: u64 = 12;
/// What is in flight may be 1/`SPILLABLE` of what state leaves when that can be spilled: it grows while it becomes
/// state, and may still do so when spilling has begun.
const SPILLABLE: u64 = 16;
/// What tables grow by for each byte that is consumed, before it has been seen.
const UNSEEN_GROWTH: u64 = 64;
/// Bytes that have to be consumed before it is looked at again.
const SEEN_BYTES: u64 = 64 << 10;
/// A chunk may become 1/`CHUNK_SHARE` of what state leaves.
const CHUNK_SHARE: u64 = 8;
/// Bytes over twice the budget at which the query ends without waiting for rest: what a few chunks may become.
const OVERRUN: u64 = 256 << 20;
/// Bytes of a container that a query's state must leave to what nobody counts.
const UNCOUNTED: u64 = 64 << 20;
/// Attempts to spill that have to end with too much state left before a query gives up: one that had begun before, and one that has
/// not.
const ATTEMPTS: u64 = 2;
/// How soon a reader looks again whether the workers have come to rest, when the state is larger than the budget. They
/// wake nobody when they do, and this is the only one who wants to know.
const REST: Duration = Duration::from_millis(5);

/// What is in flight of a query.
pub(crate) struct Flow {
    state: Mutex<InFlight>,
    freed: Condvar,
    limit: usize,
    limit_per_split: usize,
    /// Whether splits that are ahead hold their chunks until others have come as far.
    holds_back: bool,
    /// A reader that waits for a permit is woken when so many are left in flight.
    refill: usize,
    /// Whether state may be spilled.
    may_spill: AtomicBool,
    /// Whether it is being spilled.
    is_spilling: AtomicBool,
    /// How often it was tried, and too much was left.
    spilled_in_vain: AtomicU64,
    /// Bytes of memory that there are for the program.
    available: u64,
    /// See [`Flow::call_when_freed`].
    when_freed: OnceLock<Box<dyn Fn() + Send + Sync>>,
    pub(crate) budget: Arc<MemoryBudget>,
}

#[derive(Default)]
struct InFlight {
    /// By stream.
    splits: Vec<SplitFlow>,
    /// Chunks in flight.
    total: usize,
    /// Bytes of chunks that have been consumed.
    consumed: u64,
    growth: Growth,
    /// Readers that wait for a permit.
    queued: usize,
    /// Readers that wait for memory.
    waiting: usize,
    /// Whether a worker was refused a chunk that it tries again.
    refused: bool,
    /// What the state was when it first was larger than the budget with nothing in flight, since it was last below 80 %.
    exceeded_at: Option<u64>,
    /// How often spilling had been in vain when it was found to have grown since.
    grown_at: Option<u64>,
    /// No more waiting: the query is ending, and what was read shall be processed or dropped.
    open: bool,
}

/// How much tables grow for each byte that is consumed: more at once, less by and by.
#[derive(Default)]
struct Growth {
    by: u64,
    /// What had been consumed, and how far tables had grown, when it was looked at last.
    consumed: u64,
    grown: u64,
}

impl Growth {
    fn note(&mut self, consumed: u64, grown: u64) {
        if consumed - self.consumed < SEEN_BYTES {
            return;
        }
        let now = grown.saturating_sub(self.grown).div_ceil(consumed - self.consumed).max(1);
        self.by = if now >= self.by || self.consumed == 0 { now } else { self.by - (self.by - now).div_ceil(4) };
        (self.consumed, self.grown) = (consumed, grown);
    }
}

struct SplitFlow {
    in_flight: usize,
    /// Splits of one group are compared by their watermarks.
    group: Option<usize>,
    /// Whether someone reads it, and it is neither idle nor at its end.
    speaks: bool,
    watermark: i64,
    /// What its last chunk has weighed when it was decoded: what the next one is expected to.
    usual_bytes: usize,
}

/// Who else can free memory for a reader that waits.
pub(crate) trait Others {
    /// Whether no worker has anything to do.
    fn are_at_rest(&self) -> bool;

    /// Has state be spilled, if there is too much.
    fn spill(&self);
}

/// Why a worker may not have the next chunk of a split now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Too many chunks are in flight: [`Flow::call_when_freed`] tells when it may be tried again.
    Full,
    /// There is too little memory for it: somebody has to wait.
    Memory,
}

/// May a reader continue?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Yes,
    Wait(WaitCause),
    /// InFlight alone is too large.
    Exhausted,
}

impl Verdict {
    /// Why it is not yes.
    fn cause(self) -> Option<WaitCause> {
        match self {
            Verdict::Yes => None,
            Verdict::Wait(cause) => Some(cause),
            Verdict::Exhausted => Some(WaitCause::Memory),
        }
    }
}

impl Flow {
    /// At most `limit` chunks of splits, of which `readers` are read at a time; each can have its share, and two at
    /// least, so that it can be read while it is decoded. `groups` says for each stream with which it is compared; `holds_back`, whether
    /// those that are ahead hold their chunks until others have come as far.
    pub(crate) fn new(
        limit: usize,
        groups: Vec<Option<usize>>,
        readers: usize,
        holds_back: bool,
        budget: Arc<MemoryBudget>,
    ) -> Arc<Flow> {
        let limit_per_split = (limit / readers.max(1)).max(2);
        let limit = if holds_back { limit.max(readers * limit_per_split) } else { limit };
        let split = |group| SplitFlow { in_flight: 0, group, speaks: false, watermark: i64::MIN, usual_bytes: 0 };
        let state = InFlight {
            splits: groups.into_iter().map(split).collect(),
            growth: Growth { by: UNSEEN_GROWTH, ..Growth::default() },
            ..InFlight::default()
        };
        let limit = limit.max(2);
        let flow = Arc::new(Flow {
            state: Mutex::new(state),
            freed: Condvar::new(),
            limit,
            limit_per_split,
            holds_back,
            // Of several readers one could take all that another one waits for.
            refill: if readers > 1 { limit } else { limit / 2 },
            may_spill: AtomicBool::new(false),
            is_spilling: AtomicBool::new(false),
            spilled_in_vain: AtomicU64::new(0),
            available: available_memory(),
            when_freed: OnceLock::new(),
            budget,
        });
        let waiting = Arc::downgrade(&flow);
        flow.budget.set_waker(move || {
            if let Some(flow) = waiting.upgrade() {
                // The lock orders this after a waiter's look at the numbers.
                let _state = flow.state.lock();
                flow.freed.notify_all();
            }
        });
        flow
    }

    /// Waits for room for a chunk of a split that was read with `bytes` bytes, and notes how long. Fails when the query does not fit into its
    /// memory.
    pub(crate) fn acquire(
        self: &Arc<Flow>,
        stream: StreamId,
        bytes: u64,
        others: &dyn Others,
        waits: &Waits,
    ) -> Result<Permit, Diagnostic> {
        let mut state = self.state.lock();
        while !state.open {
            let consumed = state.consumed;
            state.growth.note(consumed, self.budget.grown());
            if state.is_full(self, stream) {
                waits.begin(WaitCause::InFlight);
                state.queued += 1;
                self.freed.wait(&mut state);
                state.queued -= 1;
            } else if self.verdict(&state, stream) == Verdict::Yes
                || self.wait_for_memory(&mut state, stream, others, waits)?
            {
                break;
            }
        }
        waits.end();
        Ok(self.admit(&mut state, stream, bytes))
    }

    /// The same for a worker, which does not wait. `refused` is called before anything can be consumed that the chunk has to wait for.
    pub(crate) fn try_acquire(
        self: &Arc<Flow>,
        stream: StreamId,
        bytes: u64,
        waits: &Waits,
        refused: impl FnOnce(Refusal),
    ) -> Result<Permit, Refusal> {
        let mut state = self.state.lock();
        let consumed = state.consumed;
        state.growth.note(consumed, self.budget.grown());
        let refusal = match state.is_full(self, stream) {
            _ if state.open => None,
            true => Some((Refusal::Full, WaitCause::InFlight)),
            false => self.verdict(&state, stream).cause().map(|cause| (Refusal::Memory, cause)),
        };
        if let Some((refusal, cause)) = refusal {
            waits.begin(cause);
            state.refused |= refusal == Refusal::Full;
            refused(refusal);
            return Err(refusal);
        }
        waits.end();
        Ok(self.admit(&mut state, stream, bytes))
    }

    /// Has something called when chunks have been consumed after [`Refusal::Full`]. Once.
    pub(crate) fn call_when_freed(&self, call: impl Fn() + Send + Sync + 'static) {
        let _ = self.when_freed.set(Box::new(call));
    }

    /// One more chunk is in flight.
    fn admit(self: &Arc<Flow>, state: &mut InFlight, stream: StreamId, bytes: u64) -> Permit {
        if state.exceeded_at.is_some() && self.budget.state() <= soft(self.budget.limit()) {
            (state.exceeded_at, state.grown_at) = (None, None);
        }
        state.total += 1;
        let split = &mut state.splits[stream.index()];
        split.in_flight += 1;
        let read_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let charge = Charge::new(&self.budget, MemoryClass::Buffers, read_bytes.max(split.usual_bytes));
        Permit { flow: Arc::clone(self), stream: Some(stream), read_bytes, charge, credit: Mutex::default() }
    }

    /// Waits until something has been given back, if there still is too much; see the protocol of the budget. Whether the
    /// reader may continue although there is too much.
    fn wait_for_memory(
        &self,
        state: &mut MutexGuard<'_, InFlight>,
        stream: StreamId,
        others: &dyn Others,
        waits: &Waits,
    ) -> Result<bool, Diagnostic> {
        state.waiting += 1;
        self.budget.watch(true);
        if self.budget.used_by(MemoryClass::Other) > 0 {
            // Workers measure after tasks, of which there may be none any more.
            MutexGuard::unlocked(state, || self.budget.measure(true));
        }
        let verdict = self.verdict(state, stream);
        verdict.cause().into_iter().for_each(|cause| waits.begin(cause));
        let mut goes_on = false;
        match verdict {
            Verdict::Yes => {}
            // What nobody counts is given back without anybody being told.
            Verdict::Wait(_) if self.budget.used_by(MemoryClass::Other) > 0 => {
                self.freed.wait_for(state, REST);
            }
            Verdict::Wait(_) => self.freed.wait(state),
            Verdict::Exhausted => {
                let is_final = state.total == 0 && MutexGuard::unlocked(state, || others.are_at_rest());
                if is_final && state.total == 0 && self.verdict(state, stream) == Verdict::Exhausted {
                    goes_on = !self.has_grown(state)?;
                }
                if !goes_on {
                    MutexGuard::unlocked(state, || others.spill());
                    self.freed.wait_for(state, REST);
                }
            }
        }
        state.waiting -= 1;
        if state.waiting == 0 {
            self.budget.watch(false);
        }
        Ok(goes_on)
    }

    /// Whether what was read since the budget was exceeded has made the state larger. Fails when it has, and nothing can be
    /// spilled.
    fn has_grown(&self, state: &mut InFlight) -> Result<bool, Diagnostic> {
        let used = self.budget.state();
        let exceeded_at = *state.exceeded_at.get_or_insert(used);
        if used <= exceeded_at.saturating_add(self.budget.limit() / 5) {
            return Ok(false);
        }
        let in_vain = self.spilled_in_vain.load(Ordering::Acquire);
        let grown_at = *state.grown_at.get_or_insert(in_vain);
        match self.may_spill.load(Ordering::Relaxed) && in_vain < grown_at + ATTEMPTS {
            true => Ok(true),
            false => Err(self.exhausted()),
        }
    }

    fn verdict(&self, state: &InFlight, stream: StreamId) -> Verdict {
        if self.holds_back && state.splits[stream.index()].in_flight == 0 {
            return Verdict::Yes;
        }
        let budget = &*self.budget;
        let mut in_flight_limit = WEIGHT.saturating_mul(self.limit as u64);
        let growth = state.growth.by;
        if self.may_spill.load(Ordering::Relaxed) {
            let room = budget.limit().saturating_sub(budget.state());
            in_flight_limit = in_flight_limit.min(room / SPILLABLE.max(2 * growth));
        }
        let verdict =
            verdict(budget.limit(), budget.state(), budget.in_flight(), in_flight_limit, || state.is_slowest(stream));
        let grown = budget.state().saturating_add(GROWTH.max(growth).saturating_mul(budget.in_flight()));
        match self.is_spilling.load(Ordering::Acquire) && grown > soft(budget.limit()) {
            true => Verdict::Wait(WaitCause::Memory),
            false => verdict,
        }
    }

    /// Bytes that the next chunk of a reader should have; `usize::MAX`: as many as it likes.
    pub(crate) fn aim(&self) -> usize {
        if !self.may_spill.load(Ordering::Relaxed) {
            return usize::MAX;
        }
        let growth = self.state.lock().growth.by;
        let room = self.budget.limit().saturating_sub(self.budget.state());
        usize::try_from(room / (CHUNK_SHARE * growth)).unwrap_or(usize::MAX)
    }

    /// InFlight that there is no memory for will be spilled.
    pub(crate) fn expect_spilling(&self) {
        self.may_spill.store(true, Ordering::Relaxed);
    }

    /// It was tried to spill state, and too much is left.
    pub(crate) fn note_spilled_in_vain(&self) {
        self.spilled_in_vain.fetch_add(1, Ordering::AcqRel);
    }

    /// InFlight is being spilled from now on, or no longer.
    pub(crate) fn set_spilling(&self, spilling: bool) {
        self.is_spilling.store(spilling, Ordering::Release);
        if !spilling && self.state.lock().waiting > 0 {
            self.freed.notify_all();
        }
    }

    /// What rows weigh that no reader has brought.
    pub(crate) fn hold(self: &Arc<Flow>, bytes: usize) -> Permit {
        let charge = Charge::new(&self.budget, MemoryClass::Buffers, bytes);
        Permit { flow: Arc::clone(self), stream: None, read_bytes: 0, charge, credit: Mutex::default() }
    }

    /// A split has ended, or falls silent; or it is read from now on, or speaks again.
    pub(crate) fn set_silent(&self, stream: StreamId, silent: bool) {
        self.change(stream, |split| split.speaks = !silent);
    }

    /// A split has released a watermark.
    pub(crate) fn advance(&self, stream: StreamId, watermark: i64) {
        self.change(stream, |split| split.watermark = split.watermark.max(watermark));
    }

    fn change(&self, stream: StreamId, change: impl FnOnce(&mut SplitFlow)) {
        let mut state = self.state.lock();
        change(&mut state.splits[stream.index()]);
        if state.waiting > 0 {
            self.freed.notify_all();
        }
    }

    /// Lets every waiting reader continue, because no more is read.
    pub(crate) fn open(&self) {
        self.state.lock().open = true;
        self.freed.notify_all();
        self.when_freed.get().into_iter().for_each(|call| call());
    }

    /// Whether state is near to where sources are slowed, so that forgetting what is dead pays.
    pub(crate) fn is_tight(&self) -> bool {
        self.budget.state() > soft(self.budget.limit()) / 4 * 3
    }

    /// The error of a query that is far over its budget; asked for after every task.
    pub(crate) fn overrun(&self) -> Option<Diagnostic> {
        // Where the limit was lowered, what is above it is spilled first.
        let overrun = far_over(self.budget.highest_limit(), self.available);
        (self.budget.used() > overrun && self.budget.state() > overrun).then(|| self.exhausted())
    }

    /// The error of a query whose state does not fit.
    fn exhausted(&self) -> Diagnostic {
        let snapshot = self.budget.snapshot();
        let classes = snapshot.by_class.into_iter().filter(|&(_, bytes)| bytes > 0);
        let mut classes: Vec<(MemoryClass, u64)> = classes.collect();
        classes.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
        let held: Vec<String> =
            classes.iter().map(|(c, bytes)| format!("{} {}", c.name(), memory_text(*bytes))).collect();
        let message = format!(
            "the state of the query is larger than its memory budget of {}: it holds {}",
            memory_text(snapshot.limit),
            held.join(", ")
        );
        Diagnostic::new(code::OUT_OF_MEMORY, message).advise(
            "raise --memory (SET 'pipeline.memory'), or keep less: shorter windows, a smaller watermark delay, fewer keys, \
             or a time to live ('table.exec.state.ttl')",
        )
    }
}

/// See the module. All but the last are bytes.
fn verdict(limit: u64, state: u64, in_flight: u64, in_flight_limit: u64, is_slowest: impl FnOnce() -> bool) -> Verdict {
    let room = limit.saturating_sub(state);
    if in_flight > in_flight_limit.min(room / 4) {
        Verdict::Wait(WaitCause::Memory)
    } else if state + in_flight <= soft(limit) {
        Verdict::Yes
    } else if !is_slowest() {
        Verdict::Wait(WaitCause::Behind)
    } else if state > limit {
        Verdict::Exhausted
    } else {
        Verdict::Yes
    }
}

/// Bytes of state at which a query ends at once: before the system ends the process.
fn far_over(limit: u64, available: u64) -> u64 {
    let twice = limit.saturating_mul(2).saturating_add(OVERRUN);
    twice.min((limit / 4 * 5).max(available.saturating_sub(UNCOUNTED)))
}

/// From here on only the slowest splits are read.
fn soft(limit: u64) -> u64 {
    limit / 5 * 4
}

impl InFlight {
    /// Whether as many chunks are in flight as may be.
    fn is_full(&self, flow: &Flow, stream: StreamId) -> bool {
        self.total >= flow.limit || self.splits[stream.index()].in_flight >= flow.limit_per_split
    }

    /// Whether no split that is compared with this one is behind it. Linear in the number of splits.
    fn is_slowest(&self, stream: StreamId) -> bool {
        let split = &self.splits[stream.index()];
        let compared = |s: &&SplitFlow| s.speaks && s.group == split.group;
        split.group.is_none() || self.splits.iter().filter(compared).all(|s| s.watermark >= split.watermark)
    }
}

#[cfg(test)]
mod tests;
