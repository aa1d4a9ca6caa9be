//! What decoders leave out: columns that are only needed behind filters, of the rows that no pipeline lets through.
//!
//! The filters at the head of the pipelines are run over the columns that they look at; the decoder fills in the others where
//! one of them passes. The pipelines filter again, so what the others hold elsewhere does not matter: of columns that are
//! left out the event time makes nothing, and no program looks at them before its filters. Variants that assume something
//! of a whole column hold as well as before, since rows that are left out have the values of rows that are not
//! (`millstream_connectors`); so do samples, which show what variants will meet.
//!
//! Whether that pays is found out by doing both: every now and then some chunks are decoded in either way, by turns, and the
//! cheaper way is kept for the next ones ([`skipping::choose`]). Times are those of whole chunks with everything that a way
//! costs, so the model needs no constants.

use crate::adaptive::decisions::skipping;
use crate::adaptive::{Decision, Policy};
use crate::config::{Adaptivity, When};
use crate::executable_plan::HeadCode;
use crate::stats::QueryStats;
use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use millstream_codegen::execute::{Flow, emit};
use millstream_connectors::{Chunk, Decoded, Decoder, HeadFilter};
use millstream_functions::FunctionContext;
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::time::Instant;

/// Chunks that are decoded in each way before one is chosen.
const TRIED: usize = 5;
/// Chunks between two trials while columns are left out. Those that are decoded whole meanwhile may break what variants
/// assume, who give up at one buffer of fifty.
const SKIPPED: u64 = 64 * TRIED as u64;
/// Chunks between two trials while all is decoded, doubled by each trial in a row that changed nothing.
const DECODED: u64 = 12 * TRIED as u64;
/// Most doublings.
const MOST_DOUBLINGS: u32 = 4;
/// A change of the share of rows that survive after which it is tried again at once.
const OTHER_SHARE: f64 = 0.15;

/// See the module.
pub(crate) struct Skipping {
    source: usize,
    /// Its columns are decoded of every row.
    pub(crate) head: HeadCode,
    /// Who decides about the next chunk; where nobody does, it is decoded for survivors only.
    policy: Policy,
    trials: Mutex<Trials>,
}

impl Skipping {
    /// Of a source of the plan.
    pub(crate) fn new(source: usize, head: HeadCode, settings: &Adaptivity) -> Skipping {
        let policy = Policy::new(settings.decode_skipping != When::Always, settings);
        Skipping { source, head, policy, trials: Mutex::default() }
    }

    /// Decodes a chunk, leaving out what is not needed when that is worth it.
    pub(crate) fn decode(
        &self,
        decoder: &dyn Decoder,
        chunk: Chunk,
        functions: &mut FunctionContext,
        stats: &QueryStats,
    ) -> Decoded {
        let skips = match &self.policy {
            Policy::Fixed => true,
            Policy::Chosen => self.trials.lock().next(),
            Policy::Random(dice) => dice.below(2) == 0,
        };
        let started = Instant::now();
        let mut filter = Filter { head: &self.head, functions, surviving: None };
        let decoded = if skips { decoder.decode_survivors(chunk, &mut filter) } else { decoder.decode(chunk) };
        if self.policy.is_chosen() && decoded.rows > 0 && decoded.error.is_none() {
            let nanos = started.elapsed().as_nanos() as f64 / decoded.rows as f64;
            let decision = self.trials.lock().note(skips, nanos, filter.surviving);
            if let Some(decision) = decision {
                stats.note_event(format!("source {}", self.source), decision);
            }
        }
        decoded
    }
}

/// The filters of all pipelines.
struct Filter<'a> {
    head: &'a HeadCode,
    functions: &'a mut FunctionContext,
    /// The share of rows that survive, once that was asked.
    surviving: Option<f64>,
}

impl HeadFilter for Filter<'_> {
    fn columns(&self) -> &[usize] {
        &self.head.columns
    }

    fn survivors(&mut self, columns: &[ArrayRef], rows: usize) -> Result<BooleanBuffer, Diagnostic> {
        let mut survivors = BooleanBufferBuilder::new(rows);
        survivors.append_n(rows, false);
        for condition in &self.head.conditions {
            let place = |column: &usize| self.head.columns.binary_search(column).ok();
            let inputs = condition.columns.iter().map(|column| Some(columns.get(place(column)?)?.clone()));
            let inputs: Option<Vec<ArrayRef>> = inputs.collect();
            let inputs = inputs.ok_or_else(|| Diagnostic::bug("a decoder did not give a filter its columns"))?;
            let (lowered, functions, mut failed) = (&condition.code.lowered, &mut *self.functions, None);
            let passed = condition.code.slot.load().run(rows, |kernel| {
                emit(lowered, kernel, &inputs, rows, &[i64::MIN], functions, &mut |error| {
                    failed = Some(error.diagnostic);
                    Flow::Stop
                })
            })?;
            failed.map_or(Ok(()), Err)?;
            passed.selection.iter().for_each(|row| survivors.set_bit(row as usize, true));
        }
        let survivors = survivors.finish();
        self.surviving = Some(survivors.count_set_bits() as f64 / rows.max(1) as f64);
        Ok(survivors)
    }
}

/// What both ways cost, and which is used.
#[derive(Debug, Default)]
struct Trials {
    skips: bool,
    /// Chunks until the next trial; 0 during one.
    left: u64,
    /// Chunks that a trial has begun.
    begun: u64,
    /// What chunks of the trial have cost, in nanoseconds per row, decoded whole and for survivors only.
    costs: [Vec<f64>; 2],
    /// The share of rows that survived in the latter.
    shares: Vec<f64>,
    /// That of the last trial.
    share: f64,
    /// Trials in a row that changed nothing.
    futile: u32,
}

impl Trials {
    /// Whether the next chunk is decoded for survivors only.
    fn next(&mut self) -> bool {
        if self.left == 0 {
            self.begun += 1;
            return self.begun.is_multiple_of(2);
        }
        self.left -= 1;
        if self.left == 0 {
            self.begin();
        }
        self.skips
    }

    /// A chunk was decoded like that, at `nanos` nanoseconds per row; `surviving` is `None` where nothing was left out.
    fn note(&mut self, skipped: bool, nanos: f64, surviving: Option<f64>) -> Option<Decision> {
        if self.left > 0 {
            let is_other = surviving.is_some_and(|share| (share - self.share).abs() > OTHER_SHARE);
            if self.skips && is_other {
                self.begin();
            }
            return None;
        }
        match surviving {
            None if skipped => {
                // There is nothing to leave out of such chunks, so that there is nothing to compare.
                self.left = DECODED << MOST_DOUBLINGS;
                return None;
            }
            None => {}
            Some(share) => self.shares.push(share),
        }
        self.costs[usize::from(skipped)].push(nanos);
        if self.costs.iter().any(|costs| costs.len() < TRIED) {
            return None;
        }
        let [whole, picked] = [0, 1].map(|way| median(&mut self.costs[way]));
        self.share = self.shares.iter().sum::<f64>() / self.shares.len().max(1) as f64;
        let skips = skipping::choose(self.skips, whole, picked);
        let is_new = std::mem::replace(&mut self.skips, skips) != skips;
        self.futile = if is_new { 0 } else { (self.futile + 1).min(MOST_DOUBLINGS) };
        self.left = if skips { SKIPPED } else { DECODED << self.futile };
        is_new.then(|| self.decision(whole, picked))
    }

    fn decision(&self, whole: f64, picked: f64) -> Decision {
        let observed = format!(
            "{:.1} % of rows pass the first filters; a row costs {whole:.1} ns when all columns are decoded, {picked:.1} ns \
             when those behind the filters are decoded for such rows only",
            self.share * 100.0
        );
        let decided = match self.skips {
            true => "columns behind the first filters are decoded for rows that pass",
            false => "all columns are decoded",
        };
        Decision::new(observed, decided)
    }

    fn begin(&mut self) {
        (self.left, self.begun) = (0, 0);
        self.costs.iter_mut().for_each(Vec::clear);
        self.shares.clear();
    }
}

/// The one in the middle: a worker that was interrupted says nothing about decoding.
fn median(costs: &mut [f64]) -> f64 {
    costs.sort_unstable_by(f64::total_cmp);
    costs[costs.len() / 2]
}

#[cfg(test)]
mod tests;
