//! One program and its variants over the life of a query.
//!
//! ```text
//! generic ──► observed ──► specialised variant on trial ──► adopted ──► assumption breaks ──► generic …
//!                 ▲                      └── no better: dropped, and not tried again soon
//!                 └── all the while, more often after the cost per row has changed
//! ```
//!
//! A variant that only arranges or assumes differently is compared with the one before over the same data before it takes its
//! place ([`VariantSlot::try_out`]): a cost model that is wrong costs half of the buffers of a trial. A variant whose
//! assumptions break in more than a few buffers is replaced by the generic one at once.
//!
//! [`VariantSlot::try_out`]: super::variant::VariantSlot::try_out

use super::choosing::{Choosing, Chosen, Surroundings};
use super::events::{Event, EventId, EventLog};
use super::facts::Facts;
use super::signals::Profile;
use super::signals::meter::{ChangeDetector, Metered};
use super::variant::Variant;
use super::watch::Watch;
use crate::config::Adaptivity;
use crate::input::PipelineCode;
use crate::stats::ProgramStats;
use millstream_codegen::kernel::Kernel;
use millstream_codegen::program::Program;
use millstream_codegen::specialise::{Specialised, specialise};
use millstream_functions::FunctionSettings;
use std::sync::Arc;
use std::time::Duration;

/// Between two samples while something is to be learned, and later.
const SAMPLE_SOON: Duration = Duration::from_millis(10);
const SAMPLE_LATER: Duration = Duration::from_millis(60);
/// Samples that are taken soon after one another, at the start and after a change.
const BURST: u32 = 16;
/// Between two looks at what should be chosen.
const CHOOSE_EVERY: Duration = Duration::from_millis(50);
/// Between two reports of what is known.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// Buffers of each side that decide a trial, at least, and rows.
const TRIAL_BUFFERS: u64 = 8;
const TRIAL_ROWS: u64 = 64 << 10;
/// What a variant may cost on trial, relative to the one in use, to take its place.
const TRIAL_MARGIN: f64 = 0.985;
/// The same for one that changes tables, which pays at the end of windows, too.
const TABLES_MARGIN: f64 = 1.0;
/// Share of the buffers in which assumptions may break.
const MOST_BROKEN: f64 = 0.02;

/// Makes kernels of programs.
pub(crate) type MakeKernel<'a> = dyn FnMut(&Program) -> Option<Arc<dyn Kernel>> + 'a;

/// See the file's description.
pub(crate) struct Unit {
    code: PipelineCode,
    generic: Arc<Variant>,
    facts: Facts,
    watch: Watch,
    profile: Profile,
    choosing: Choosing,
    trial: Option<Trial>,
    detector: ChangeDetector,
    /// Of the current variant, when it was read last.
    last: Metered,
    deoptimisations: u64,
    nanos_per_row: Option<f64>,
    sample_at: Duration,
    choose_at: Duration,
    tell_at: Duration,
    burst: u32,
}

/// A variant that is compared with the current one.
struct Trial {
    variant: Arc<Variant>,
    chosen: Chosen,
    event: EventId,
    /// The generic variant has run before.
    tried_at_start: Metered,
    current_at_start: Metered,
}

impl Unit {
    /// Of a program that runs generic code; `None` when nothing can be chosen for it.
    pub(crate) fn new(code: &PipelineCode, settings: &Adaptivity, functions: &FunctionSettings) -> Option<Unit> {
        let facts = Facts::new(&code.lowered.program);
        if !facts.is_adaptable() {
            return None;
        }
        Some(Unit {
            code: code.clone(),
            generic: code.slot.current(),
            facts,
            watch: Watch::new(&code.lowered, functions),
            profile: Profile::default(),
            choosing: Choosing::new(settings),
            trial: None,
            detector: ChangeDetector::default(),
            last: Metered::default(),
            deoptimisations: 0,
            nanos_per_row: None,
            sample_at: Duration::ZERO,
            choose_at: Duration::ZERO,
            tell_at: Duration::ZERO,
            burst: BURST,
        })
    }

    /// Whether something is being learned that should not take long.
    pub(crate) fn is_learning(&self) -> bool {
        self.burst > 0 || self.trial.is_some()
    }

    /// Looks at what has happened since the last time, and acts on it.
    pub(crate) fn tick(&mut self, mut around: Surroundings, make: &mut MakeKernel<'_>, events: &EventLog) {
        let now = around.now;
        if let Some(sample) = self.code.slot.take_sample() {
            self.watch.observe(&sample, &mut self.profile);
        }
        if now >= self.sample_at {
            self.code.slot.ask_for_sample();
            self.sample_at = now + if self.burst > 0 { SAMPLE_SOON } else { SAMPLE_LATER };
            self.burst = self.burst.saturating_sub(1);
        }
        self.read_meter(events, now);
        around.nanos_per_row = self.nanos_per_row;
        match self.trial.take() {
            Some(trial) => self.trial = self.judge(trial, events, now),
            None if now >= self.choose_at => {
                self.choose_at = now + CHOOSE_EVERY;
                self.choose(around, make, events);
            }
            None => {}
        }
    }

    /// Tells what has run, at once while variants come and go, and from time to time what is known of the rows.
    pub(crate) fn tell(&mut self, now: Duration, programs: &ProgramStats) {
        let is_due = now >= self.tell_at;
        if !(is_due || self.is_learning()) {
            return;
        }
        let program = &self.code.lowered.program;
        let current = self.code.slot.current();
        let trial = self.trial.as_ref().map(|trial| &trial.variant);
        programs.ran(program, [&self.generic, &current].into_iter().chain(trial));
        if is_due {
            self.tell_at = now + TELL_EVERY;
            programs.profiled(program, &self.profile);
        }
    }

    /// What the current variant has cost since the last time, and how often its assumptions broke.
    fn read_meter(&mut self, events: &EventLog, now: Duration) {
        let current = self.code.slot.current();
        if current.specialised().is_none() && current.number != self.generic.number {
            // Machine code has come. What was on trial was compared with the interpreter.
            self.trial = None;
            self.adopt(Arc::clone(&current));
            self.generic = Arc::clone(&current);
        }
        let reading = current.meter.read();
        let since = reading.since(self.last);
        let Some(nanos) = since.nanos_per_row() else { return };
        self.last = reading;
        self.nanos_per_row = Some(nanos);
        if self.trial.is_none() && self.detector.note(nanos).is_some() {
            self.burst = BURST;
            self.sample_at = now;
        }
        if let Some(special) = current.specialised() {
            let broken = special.deoptimisations() - self.deoptimisations;
            self.deoptimisations = special.deoptimisations();
            if broken as f64 > MOST_BROKEN * since.buffers as f64 {
                let assumed = format!("variant {} assumes in {broken} of {} buffers", current.number, since.buffers);
                self.give_up(special, &assumed, events, now);
            }
        }
    }

    /// Goes back to generic code because assumptions do not hold.
    fn give_up(&mut self, special: &Specialised, assumed: &str, events: &EventLog, now: Duration) {
        let (columns, keys) = special.broken();
        self.choosing.broke(&columns, keys, now);
        if keys {
            // What was known of them is past.
            self.profile.forget_keys();
            self.code.slot.take_sample();
        }
        self.adopt(Arc::clone(&self.generic));
        self.trial = None;
        let what = match (columns.len(), keys) {
            (0, _) => "keys out of range".to_string(),
            _ => format!("the values of columns {columns:?}"),
        };
        events.note(Event {
            at: now,
            subject: self.code.lowered.program.name.clone(),
            observed: format!("{what} broke what {assumed}"),
            decided: format!("back to variant {}, the generic one", self.generic.number),
            gain: None,
        });
        (self.burst, self.sample_at, self.choose_at) = (BURST, now, now);
    }

    fn adopt(&mut self, variant: Arc<Variant>) {
        self.last = variant.meter.read();
        self.deoptimisations = variant.specialised().map_or(0, Specialised::deoptimisations);
        self.code.slot.swap(variant);
        self.detector.reset();
    }

    fn choose(&mut self, around: Surroundings, make: &mut MakeKernel<'_>, events: &EventLog) {
        let current = self.code.slot.current();
        let program = &self.code.lowered.program;
        let seen = (&self.profile, &self.watch);
        let Some(chosen) = self.choosing.choose(program, &self.facts, seen, &current.choices(), around) else { return };
        let (variant, name) = match chosen.choices.is_generic() {
            true => (Arc::clone(&self.generic), "the generic variant".to_string()),
            false => {
                let Some(kernel) = make(&specialise(program, &chosen.choices)) else { return };
                let generic = self.generic.kernel();
                let special = Specialised::new(program, chosen.choices.clone(), kernel, generic);
                let variant = self.code.slot.special(special);
                let name = format!("variant {}", variant.number);
                (variant, name)
            }
        };
        let event = events.note(Event {
            at: around.now,
            subject: program.name.clone(),
            observed: chosen.observed.clone(),
            decided: format!("{name} on trial: {}", chosen.decided),
            gain: None,
        });
        let (tried_at_start, current_at_start) = (variant.meter.read(), current.meter.read());
        self.code.slot.try_out(Arc::clone(&variant));
        self.trial = Some(Trial { variant, chosen, event, tried_at_start, current_at_start });
    }

    /// The trial, unless it is decided.
    fn judge(&mut self, trial: Trial, events: &EventLog, now: Duration) -> Option<Trial> {
        let current = self.code.slot.current();
        let tried = trial.variant.meter.read().since(trial.tried_at_start);
        let used = current.meter.read().since(trial.current_at_start);
        let is_enough = |m: Metered| m.buffers >= TRIAL_BUFFERS && m.rows >= TRIAL_ROWS;
        let (Some(before), Some(after)) = (used.nanos_per_row(), tried.nanos_per_row()) else { return Some(trial) };
        if !(is_enough(tried) && is_enough(used)) {
            return Some(trial);
        }
        events.judge(trial.event, before, after);
        let (from, to) = (current.choices(), &trial.chosen.choices);
        let margin = if from.keys == to.keys { TRIAL_MARGIN } else { TABLES_MARGIN };
        let is_better = after <= margin * before;
        self.choosing.judged(&from, to, (margin * before, after), now);
        let next = if is_better { Arc::clone(&trial.variant) } else { current };
        let number = trial.variant.number;
        events.note(Event {
            at: now,
            subject: self.code.lowered.program.name.clone(),
            observed: format!("variant {number} costs {after:.2} ns a row instead of {before:.2} ns"),
            decided: if is_better {
                format!("variant {number} from now on")
            } else {
                format!("variant {number} is dropped")
            },
            gain: is_better.then_some((before, after)),
        });
        self.adopt(next);
        None
    }
}

#[cfg(test)]
mod tests;
