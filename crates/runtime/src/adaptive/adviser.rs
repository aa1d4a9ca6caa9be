//! The thread that gives a running query better code: machine code for what is interpreted, and variants for its data.
//!
//! It never touches rows or tables, and no worker ever waits for it: all that it does to the query is to store a variant in a
//! slot. Programs that cannot be compiled stay interpreted; the rows are the same.

use super::Decision;
use super::adapted_program::{AdaptedProgram, Effort};
use super::chaos::Chaos;
use super::choosing::Surroundings;
use super::load::LoadWatch;
use super::policy::Dice;
use super::slice_facts::{SliceFacts, TableHints};
use crate::compile::ProgramCompiler;
use crate::config::When;
use crate::executable_plan::{Adaptable, Codes, PipelineCode};
use crate::query::Query;
use millstream_codegen::interpreter::Interpreter;
use millstream_codegen::kernel::{Kernel, Tier};
use millstream_codegen::program::Program;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a query has run when programs are compiled that it may come to need, such as those for shared tables: a short
/// query ends before it has seen enough to change its ways.
const SPARE_AFTER: Duration = Duration::from_millis(250);
/// How long a query is interpreted before programs are compiled for it whose code is not kept: LLVM takes longer than a query
/// takes that ends before.
const COMPILE_AFTER: Duration = Duration::from_millis(1);
/// A variant is compiled once a query has run this many times as long as that is expected to take, with the runs of the same program
/// before it: it has run as long as it is likely to run still, and a variant that halved the time of that would be worth the core that LLVM takes.
const PAYS_AFTER: u32 = 6;
/// Between two looks at the query while something is learned, and later.
const SOON: Duration = Duration::from_millis(5);
const LATER: Duration = Duration::from_millis(20);
/// Between two disturbances of a test.
const DISTURB_EVERY: Duration = Duration::from_micros(300);

/// See the module.
pub(crate) struct Adviser {
    /// The programs of the run.
    pub(crate) codes: Codes,
    pub(crate) compiler: Option<Arc<dyn ProgramCompiler>>,
    /// By aggregation.
    pub(crate) facts: Vec<Arc<SliceFacts>>,
}

impl Adviser {
    /// Before the first row: tables begin as those of the last run ended, or variants are switched at random, if the run is one of
    /// those.
    pub(crate) fn prepare(&self, query: &Query) {
        if query.host().config.adaptivity.measures_operators {
            // Even the first buffer may be the last one.
            self.codes.adaptable.iter().for_each(|adaptable| adaptable.code.slot.ask_for_sample());
        }
        let Some(seed) = query.host().config.adaptivity.chaos_seed else {
            self.updating(query).for_each(|(adaptable, facts)| {
                let number = adaptable.aggregation.unwrap_or_default();
                let (mut tables, known) = (facts.tables.lock(), adaptable.hints.lock().tables);
                let is_set = query.host().config.adaptivity.pre_aggregation != When::Auto;
                let set = TableHints { appends: is_set && tables.appends, ..TableHints::default() };
                // Of several programs that update the same tables the first that knows them counts.
                if *tables != set {
                    return;
                }
                *tables = TableHints { appends: if is_set { set.appends } else { known.appends }, ..known };
                if !is_set && known.appends {
                    let decision = Decision::new("tables of the last run ended so", "rows are appended from the start");
                    query.host().stats.note_event(format!("aggregation {number}"), decision);
                }
            });
            return;
        };
        for (number, code) in (0u64..).zip(self.codes.all.iter().chain(&self.codes.spare)) {
            let seed = seed.wrapping_mul(1009).wrapping_add(number);
            let kernel =
                Chaos::new(&code.lowered.program, seed, &mut |program, effort| self.kernel(program, query, effort));
            code.slot.swap(code.slot.generic(Arc::new(kernel)));
        }
    }

    /// Whether there is anything to do while the query runs.
    pub(crate) fn is_needed(&self, query: &Query) -> bool {
        let settings = &query.host().config.adaptivity;
        settings.chaos_seed.is_some() || settings.is_enabled || self.compiler.is_some()
    }

    /// Until the query is over.
    pub(crate) fn run(self, query: &Query) {
        match query.host().config.adaptivity.chaos_seed {
            Some(seed) => disturb(seed, query),
            None => self.advise(query),
        }
    }

    fn advise(self, query: &Query) {
        let started = Instant::now();
        let settings = &query.host().config.adaptivity;
        let adapts = settings.is_enabled;
        let mut load = LoadWatch::new(query);
        self.compile(&self.codes.all, query, Effort::Find);
        if self.codes.all.iter().any(|code| code.slot.current().tier() == Tier::Interpreted) {
            thread::park_timeout(COMPILE_AFTER);
            self.compile(&self.codes.all, query, Effort::Any);
        }
        let mut units = self.units(query);
        for unit in &mut units {
            let around = self.surroundings(started.elapsed(), query);
            unit.resume(settings, around, &mut |program, effort| self.kernel(program, query, effort));
        }
        let mut is_spare_left = !self.codes.spare.is_empty();
        while !query.is_over() && (adapts || is_spare_left) {
            thread::park_timeout(match units.iter().any(AdaptedProgram::is_learning) {
                _ if !adapts => SPARE_AFTER,
                true => SOON,
                false => LATER,
            });
            if is_spare_left && started.elapsed() >= SPARE_AFTER {
                self.compile(&self.codes.spare, query, Effort::Any);
                is_spare_left = false;
            }
            if !adapts {
                continue;
            }
            load.look(query, started.elapsed());
            let around = self.surroundings(started.elapsed(), query);
            for unit in &mut units {
                let slices = unit.aggregation.map(|aggregation| &*self.facts[aggregation]);
                unit.tick(around, slices, &mut |program, effort| self.kernel(program, query, effort));
                unit.tell(around.now, &query.host().stats.programs);
            }
        }
        let spent = started.elapsed();
        units.iter().for_each(|unit| unit.note_hints(settings, spent));
        self.updating(query).for_each(|(adaptable, facts)| adaptable.hints.lock().tables = *facts.tables.lock());
        self.measure(units, query);
    }

    fn surroundings<'a>(&self, now: Duration, query: &'a Query) -> Surroundings<'a> {
        Surroundings { now, nanos_per_row: None, events: &query.host().stats.events }
    }

    /// See [`Adaptivity::measures_operators`](crate::Adaptivity::measures_operators).
    fn measure(&self, mut units: Vec<AdaptedProgram>, query: &Query) {
        for unit in units.iter_mut().filter(|_| query.host().config.adaptivity.measures_operators) {
            unit.measure(&mut |program, effort| self.kernel(program, query, effort), &query.host().stats.programs);
        }
    }

    /// Programs that update tables, with what is known of those. Nothing, unless adaptivity is enabled.
    fn updating<'a>(&'a self, query: &Query) -> impl Iterator<Item = (&'a Adaptable, &'a SliceFacts)> + use<'a> {
        let adapts = query.host().config.adaptivity.is_enabled;
        let adaptable = self.codes.adaptable.iter().filter(move |_| adapts);
        adaptable.filter_map(|adaptable| Some((adaptable, &*self.facts[adaptable.aggregation?])))
    }

    /// Nothing, unless adaptivity is enabled.
    fn units(&self, query: &Query) -> Vec<AdaptedProgram> {
        let settings = &query.host().config.adaptivity;
        let adaptable = self.codes.adaptable.iter().filter(|_| settings.is_enabled);
        let unit = |adaptable: &Adaptable| AdaptedProgram::new(adaptable, settings, &query.host().config.settings);
        adaptable.filter_map(unit).collect()
    }

    /// Replaces interpreters by machine code as soon as that is ready.
    fn compile(&self, codes: &[PipelineCode], query: &Query, effort: Effort) {
        let interpreted = codes.iter().filter(|code| code.slot.current().tier() == Tier::Interpreted);
        for code in interpreted.filter(|_| self.compiler.is_some()) {
            if query.is_over() {
                return;
            }
            if let Some(kernel) = self.kernel(&code.lowered.program, query, effort) {
                code.slot.swap(code.slot.generic(kernel));
            }
        }
    }

    /// What executes a program best; `None` if it cannot be compiled, or that is not worth it.
    fn kernel(&self, program: &Program, query: &Query, effort: Effort) -> Option<Arc<dyn Kernel>> {
        let Some(compiler) = &self.compiler else {
            return Some(Arc::new(Interpreter::new(Arc::new(program.clone()))));
        };
        let compiled = if pays(effort, || compiler.expected_time(program)) {
            compiler.compile(program).ok()?
        } else {
            compiler.find(program)?
        };
        query.host().stats.note_compilation(compiled.compilation);
        Some(compiled.kernel)
    }
}

/// Whether a program may be compiled, which takes `expected` of a core.
fn pays(effort: Effort, expected: impl FnOnce() -> Duration) -> bool {
    match effort {
        Effort::Find => false,
        Effort::IfItPays(spent) => spent >= PAYS_AFTER * expected(),
        Effort::Any => true,
    }
}

/// For tests: sends workers to rest and back to work at random, until the query is over.
fn disturb(seed: u64, query: &Query) {
    let dice = Dice::new(seed);
    while !query.is_over() {
        query.scheduler().queues.set_active(1 + dice.below(query.host().config.workers as u64) as usize);
        thread::park_timeout(DISTURB_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_compiled_for_who_has_run_long_enough_to_run_on() {
        let (long, short) = (Duration::from_millis(600), Duration::from_millis(200));
        let expected = || Duration::from_millis(60);
        assert!(pays(Effort::IfItPays(long), expected) && !pays(Effort::IfItPays(short), expected));
        assert!(pays(Effort::Any, expected) && !pays(Effort::Find, expected));
    }
}
