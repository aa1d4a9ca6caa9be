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
//! assumptions break in more than a few buffers is replaced by the generic one at once. The generic one is also tried
//! when the cost of a row has changed and nothing else follows from it: it may suit the new data better.
//!
//! [`VariantSlot::try_out`]: super::variant_switch::VariantSlot::try_out

use super::choosing::{Choosing, Chosen, Known, Surroundings};
use super::decisions::hysteresis::{COMPILED, Hysteresis};
use super::events::{EventId, EventKind};
use super::facts::Facts;
use super::policy::Decision;
use super::signals::Profile;
use super::signals::meter::{Change, ChangeDetector, Metered};
use super::slice_facts::SliceFacts;
use super::variant_switch::{Sample, Variant};
use super::watch::SampleWatch;
use crate::config::Adaptivity;
use crate::executable_plan::{Adaptable, PipelineCode};
use crate::hints::ProgramHints;
use crate::stats::ProgramStats;
use millstream_codegen::interpreter::Interpreter;
use millstream_codegen::kernel::{Kernel, Tier};
use millstream_codegen::lower::Lowered;
use millstream_codegen::program::Program;
use millstream_codegen::specialise::{Choices, Specialised, specialise};
use millstream_functions::FunctionSettings;
use parking_lot::Mutex;
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
/// Share of the buffers in which assumptions may break.
const MOST_BROKEN: f64 = 0.02;

/// Makes kernels of programs; `None` where there is none, or where making one is not worth it.
pub(crate) type MakeKernel<'a> = dyn FnMut(&Program, Effort) -> Option<Arc<dyn Kernel>> + 'a;

/// What may be done for code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// It is taken from where code is kept.
    Find,
    /// It is also compiled, if that is likely to pay back for a program whose runs have taken so long together.
    IfItPays(Duration),
    /// It is compiled.
    Any,
}

/// See the module.
pub(crate) struct AdaptedProgram {
    code: PipelineCode,
    /// The aggregation whose tables it updates, if any.
    pub(crate) aggregation: Option<usize>,
    generic: Arc<Variant>,
    facts: Facts,
    watch: SampleWatch,
    profile: Profile,
    choosing: Choosing,
    trial: Option<Trial>,
    detector: ChangeDetector,
    /// A change of the cost that has not been answered.
    doubt: Option<Change>,
    doubts: Hysteresis,
    /// Of the current variant, when it was read last.
    last: Metered,
    deoptimisations: u64,
    nanos_per_row: Option<f64>,
    sample_at: Duration,
    choose_at: Duration,
    tell_at: Duration,
    burst: u32,
    /// What earlier runs have learned.
    hints: Arc<Mutex<ProgramHints>>,
    /// The last sample, if operators are to be measured at the end.
    kept: Option<Sample>,
    measures: bool,
}

/// A variant that is compared with the current one.
struct Trial {
    variant: Arc<Variant>,
    event: EventId,
    /// Whether nothing speaks for it but a change of the cost.
    is_doubt: bool,
    /// The generic variant has run before.
    tried_at_start: Metered,
    current_at_start: Metered,
}

impl AdaptedProgram {
    /// Of a program that runs generic code; `None` when nothing can be chosen for it.
    pub(crate) fn new(
        adaptable: &Adaptable,
        settings: &Adaptivity,
        functions: &FunctionSettings,
    ) -> Option<AdaptedProgram> {
        let code = &adaptable.code;
        let facts = Facts::new(&code.lowered.program);
        if !facts.is_adaptable() {
            return None;
        }
        Some(AdaptedProgram {
            code: code.clone(),
            aggregation: adaptable.aggregation,
            generic: code.slot.current(),
            facts,
            watch: SampleWatch::new(&code.lowered, functions),
            profile: Profile::default(),
            choosing: Choosing::new(settings),
            trial: None,
            detector: ChangeDetector::default(),
            doubt: None,
            doubts: Hysteresis::new(COMPILED),
            last: Metered::default(),
            deoptimisations: 0,
            nanos_per_row: None,
            sample_at: Duration::ZERO,
            choose_at: Duration::ZERO,
            tell_at: Duration::ZERO,
            burst: BURST,
            hints: Arc::clone(&adaptable.hints),
            kept: None,
            measures: settings.measures_operators,
        })
    }

    /// Whether something is being learned that should not take long.
    pub(crate) fn is_learning(&self) -> bool {
        self.burst > 0 || self.trial.is_some()
    }

    /// Looks at what has happened since the last time, and acts on it. `slices` are those of its aggregation.
    pub(crate) fn tick(
        &mut self,
        mut around: Surroundings<'_>,
        slices: Option<&SliceFacts>,
        make: &mut MakeKernel<'_>,
    ) {
        let now = around.now;
        if self.look()
            && let Some(slices) = slices
        {
            self.confer(slices);
        }
        if now >= self.sample_at {
            self.code.slot.ask_for_sample();
            self.sample_at = match self.burst {
                // Nothing can be chosen before there is enough.
                1.. if !self.choosing.knows_enough(&self.profile) => now,
                1.. => now + SAMPLE_SOON,
                0 => now + SAMPLE_LATER,
            };
            self.burst = self.burst.saturating_sub(1);
        }
        self.read_meter(around);
        around.nanos_per_row = self.nanos_per_row;
        match self.trial.take() {
            Some(trial) => self.trial = self.judge(trial, around),
            None if now >= self.choose_at && self.choosing.knows_enough(&self.profile) => {
                self.choose_at = now + CHOOSE_EVERY;
                self.choose(around, make);
            }
            None => {}
        }
    }

    /// Takes in the sample that was asked for; whether it is there.
    fn look(&mut self) -> bool {
        let Some(sample) = self.code.slot.take_sample() else { return false };
        self.watch.observe(&sample, &mut self.profile);
        self.kept = self.measures.then_some(sample);
        true
    }

    /// Tells the aggregation whose tables it updates what it knows of the keys, and learns what that knows of slices.
    fn confer(&mut self, slices: &SliceFacts) {
        if let Some(summary) = self.profile.keys.summary() {
            *slices.heavy.lock() = summary.heavy;
        }
        let rows = *slices.rows.lock();
        self.profile.times.fired = rows.or(self.profile.times.fired);
    }

    /// At the end of a query whose operators are to be measured: what each filter costs a row, as the current variant applies
    /// them.
    pub(crate) fn measure(&mut self, make: &mut MakeKernel<'_>, programs: &ProgramStats) {
        self.look();
        let Some(sample) = self.kept.take() else { return };
        let (generic, current) = (&self.code.lowered, self.code.slot.current());
        let filters = current.choices().filters;
        let order: Vec<usize> = filters.iter().map(|choice| choice.filter).collect();
        let program = specialise(&generic.program, &Choices { filters, ..Choices::default() });
        let lowered = Lowered { program, ..Lowered::clone(generic) };
        let mut kernel = |lowered: &Lowered| match current.tier() {
            Tier::Interpreted => Some(Arc::new(Interpreter::new(Arc::new(lowered.program.clone()))) as Arc<dyn Kernel>),
            _ => make(&lowered.program, Effort::Any),
        };
        let Some(costs) = self.watch.filter_costs(&lowered, &sample, &mut kernel) else { return };
        let mut by_filter = costs.clone();
        for (filter, cost) in order.into_iter().zip(costs) {
            if let Some(place) = by_filter.get_mut(filter) {
                *place = cost;
            }
        }
        programs.profiled(&generic.program, &self.profile);
        programs.measured(&generic.program, by_filter);
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
    fn read_meter(&mut self, around: Surroundings<'_>) {
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
        let change = if self.trial.is_none() { self.detector.note(nanos) } else { None };
        if change.is_some() {
            self.doubt = change;
            self.burst = BURST;
            self.sample_at = around.now;
        }
        if let Some(special) = current.specialised() {
            let broken = special.deoptimisations() - self.deoptimisations;
            self.deoptimisations = special.deoptimisations();
            if broken as f64 > MOST_BROKEN * since.buffers as f64 {
                let assumed = format!("variant {} assumes in {broken} of {} buffers", current.number, since.buffers);
                self.give_up(special, &assumed, around);
            }
        }
    }

    /// Goes back to generic code because assumptions do not hold.
    fn give_up(&mut self, special: &Specialised, assumed: &str, Surroundings { now, events, .. }: Surroundings<'_>) {
        let columns = special.broken();
        self.choosing.broke(&columns, now);
        self.adopt(Arc::clone(&self.generic));
        self.trial = None;
        let inputs = &self.code.lowered.program.inputs;
        let names: Vec<&str> = columns.iter().map(|&column| inputs[column as usize].name.as_str()).collect();
        let observed = format!("values of {} broke what {assumed}", names.join(", "));
        let decided = format!("back to variant {}, the generic one", self.generic.number);
        let name = &self.code.lowered.program.name;
        events.note(now, EventKind::Deoptimised, name, Decision { observed, decided });
        (self.burst, self.sample_at, self.choose_at) = (BURST, now, now);
    }

    fn adopt(&mut self, variant: Arc<Variant>) {
        self.last = variant.meter.read();
        self.deoptimisations = variant.specialised().map_or(0, Specialised::deoptimisations);
        self.code.slot.swap(variant);
        // The cost of the other code is learned again.
        self.detector = ChangeDetector::default();
    }

    /// A specialised variant, if its code can be had.
    fn variant(&self, choices: &Choices, effort: Effort, make: &mut MakeKernel<'_>) -> Option<Arc<Variant>> {
        let program = &self.code.lowered.program;
        let kernel = make(&specialise(program, choices), effort)?;
        let special = Specialised::new(program, choices.clone(), kernel, self.generic.kernel());
        Some(self.code.slot.special(special))
    }

    /// Begins with the variant that the last run of the program ended with, if its code is kept: it has won its trial.
    pub(crate) fn resume(&mut self, settings: &Adaptivity, around: Surroundings<'_>, make: &mut MakeKernel<'_>) {
        let Some((known, choices)) = self.hints.lock().choices.clone() else { return };
        if known != *settings || choices.is_generic() {
            return;
        }
        let Some(variant) = self.variant(&choices, Effort::Find, make) else { return };
        let decided = format!("variant {} from the start", variant.number);
        let decision = Decision::new("the last run of the program ended with this variant", decided);
        around.events.note(around.now, EventKind::Adopted, &self.code.lowered.program.name, decision);
        self.adopt(variant);
    }

    /// At the end of a run that has taken so long: notes what is in use for the next run.
    pub(crate) fn note_hints(&self, settings: &Adaptivity, spent: Duration) {
        let choices = self.code.slot.current().choices();
        let mut hints = self.hints.lock();
        hints.choices = Some((settings.clone(), choices));
        hints.spent = hints.spent.saturating_add(spent);
    }

    fn choose(&mut self, around: Surroundings<'_>, make: &mut MakeKernel<'_>) {
        let current = self.code.slot.current();
        let program = &self.code.lowered.program;
        let AdaptedProgram { facts, profile, watch, .. } = &*self;
        let chosen = self.choosing.choose(Known { program, facts, profile, watch, around }, &current.choices());
        let is_doubt = chosen.is_none();
        let Some(chosen) = chosen.or_else(|| self.doubted(&current, around.now)) else { return };
        self.doubt = None;
        let (variant, name) = match chosen.choices.is_generic() {
            true => (Arc::clone(&self.generic), "the generic variant".to_string()),
            false => {
                let effort = match chosen.is_forced {
                    true => Effort::Any,
                    false => Effort::IfItPays(self.hints.lock().spent.saturating_add(around.now)),
                };
                let Some(variant) = self.variant(&chosen.choices, effort, make) else { return };
                let name = format!("variant {}", variant.number);
                (variant, name)
            }
        };
        let Decision { observed, decided } = chosen.why;
        let (kind, decided) = match chosen.is_forced {
            true => (EventKind::Adopted, format!("{name} from now on, as it is set: {decided}")),
            false => (EventKind::Trial, format!("{name} on trial: {decided}")),
        };
        let event = around.events.note(around.now, kind, &program.name, Decision { observed, decided });
        if chosen.is_forced {
            return self.adopt(variant);
        }
        let (tried_at_start, current_at_start) = (variant.meter.read(), current.meter.read());
        self.code.slot.try_out(Arc::clone(&variant));
        self.trial = Some(Trial { variant, event, is_doubt, tried_at_start, current_at_start });
    }

    /// The generic variant, if the cost has changed under a specialised one and what was learned since speaks for no other.
    fn doubted(&self, current: &Variant, now: Duration) -> Option<Chosen> {
        let is_due = self.burst == 0 && self.doubts.is_open(now) && !self.choosing.forces();
        let is_due = is_due && current.specialised().is_some();
        let Change { from, to } = self.doubt.filter(|_| is_due)?;
        let observed = format!("a row costs {to:.2} ns instead of {from:.2} ns");
        let why = Decision::new(observed, "nothing else follows from what was seen");
        Some(Chosen { choices: Choices::default(), why, is_forced: false })
    }

    /// The trial, unless it is decided.
    fn judge(&mut self, trial: Trial, Surroundings { now, events, .. }: Surroundings<'_>) -> Option<Trial> {
        let current = self.code.slot.current();
        let tried = trial.variant.meter.read().since(trial.tried_at_start);
        let used = current.meter.read().since(trial.current_at_start);
        let is_enough = |m: Metered| m.buffers >= TRIAL_BUFFERS && m.rows >= TRIAL_ROWS;
        if !(is_enough(tried) && is_enough(used)) {
            return Some(trial);
        }
        let costs = (
            current.meter.median_since(trial.current_at_start),
            trial.variant.meter.median_since(trial.tried_at_start),
        );
        let (Some(before), Some(after)) = costs else { return Some(trial) };
        events.judge(trial.event, before, after);
        let (from, to) = (current.choices(), trial.variant.choices());
        let is_better = after <= TRIAL_MARGIN * before;
        if is_better || !trial.is_doubt {
            self.choosing.judged(&from, &to, (TRIAL_MARGIN * before, after), now);
        }
        if trial.is_doubt {
            self.doubts.judged(now, TRIAL_MARGIN * before, after);
        }
        let next = if is_better { Arc::clone(&trial.variant) } else { current };
        let number = trial.variant.number;
        let observed = format!("variant {number} costs {after:.2} ns a row instead of {before:.2} ns");
        let (kind, what) = match is_better {
            true => (EventKind::Adopted, "from now on"),
            false => (EventKind::Dropped, "is dropped"),
        };
        let decided = format!("variant {number} {what}");
        let event = events.note(now, kind, &self.code.lowered.program.name, Decision { observed, decided });
        if is_better {
            events.judge(event, before, after);
        }
        self.adopt(next);
        None
    }
}

#[cfg(test)]
mod tests;
