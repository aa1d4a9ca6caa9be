//! The thread that gives a running query better code: machine code for what is interpreted, and variants for its data.
//!
//! It never touches rows or tables, and no worker ever waits for it: all that it does to the query is to store a variant in a
//! slot. Programs that cannot be compiled stay interpreted; the rows are the same.

use super::adapted_program::AdaptedProgram;
use super::chaos::Chaos;
use super::choosing::Surroundings;
use super::load::LoadWatch;
use super::policy::Dice;
use super::slice_facts::SliceFacts;
use crate::compile::ProgramCompiler;
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
    /// Before the first row: variants that are switched at random, if the run is one of those.
    pub(crate) fn prepare(&self, query: &Query) {
        if query.host().config.adaptivity.measures_operators {
            // Even the first buffer may be the last one.
            self.codes.adaptable.iter().for_each(|adaptable| adaptable.code.slot.ask_for_sample());
        }
        let Some(seed) = query.host().config.adaptivity.chaos_seed else { return };
        for (number, code) in (0u64..).zip(self.codes.all.iter().chain(&self.codes.spare)) {
            let seed = seed.wrapping_mul(1009).wrapping_add(number);
            let kernel = Chaos::new(&code.lowered.program, seed, &mut |program| self.kernel(program, query));
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
        let adapts = query.host().config.adaptivity.is_enabled;
        let mut load = LoadWatch::new(query);
        self.compile(&self.codes.all, query);
        let mut units = self.units(query);
        let mut is_spare_left = !self.codes.spare.is_empty();
        while !query.is_over() && (adapts || is_spare_left) {
            thread::park_timeout(match units.iter().any(AdaptedProgram::is_learning) {
                _ if !adapts => SPARE_AFTER,
                true => SOON,
                false => LATER,
            });
            if is_spare_left && started.elapsed() >= SPARE_AFTER {
                self.compile(&self.codes.spare, query);
                is_spare_left = false;
            }
            if !adapts {
                continue;
            }
            load.look(query, started.elapsed());
            let memory = &query.host().flow.budget;
            let around = Surroundings {
                now: started.elapsed(),
                workers: query.host().config.workers,
                memory_left: memory.limit().saturating_sub(memory.used()),
                nanos_per_row: None,
                events: &query.host().stats.events,
            };
            for unit in &mut units {
                let slices = unit.aggregation.map(|aggregation| &*self.facts[aggregation]);
                unit.tick(around, slices, &mut |program| self.kernel(program, query));
                unit.tell(around.now, &query.host().stats.programs);
            }
        }
        self.measure(units, query);
    }

    /// See [`Adaptivity::measures_operators`](crate::Adaptivity::measures_operators).
    fn measure(&self, mut units: Vec<AdaptedProgram>, query: &Query) {
        for unit in units.iter_mut().filter(|_| query.host().config.adaptivity.measures_operators) {
            unit.measure(&mut |program| self.kernel(program, query), &query.host().stats.programs);
        }
    }

    /// Nothing, unless adaptivity is enabled.
    fn units(&self, query: &Query) -> Vec<AdaptedProgram> {
        let settings = &query.host().config.adaptivity;
        let adaptable = self.codes.adaptable.iter().filter(|_| settings.is_enabled);
        let unit = |adaptable: &Adaptable| AdaptedProgram::new(adaptable, settings, &query.host().config.settings);
        adaptable.filter_map(unit).collect()
    }

    /// Replaces interpreters by machine code as soon as that is ready.
    fn compile(&self, codes: &[PipelineCode], query: &Query) {
        let interpreted = codes.iter().filter(|code| code.slot.current().tier() == Tier::Interpreted);
        for code in interpreted.filter(|_| self.compiler.is_some()) {
            if query.is_over() {
                return;
            }
            if let Some(kernel) = self.kernel(&code.lowered.program, query) {
                code.slot.swap(code.slot.generic(kernel));
            }
        }
    }

    /// What executes a program best; `None` if it cannot be compiled.
    fn kernel(&self, program: &Program, query: &Query) -> Option<Arc<dyn Kernel>> {
        match &self.compiler {
            None => Some(Arc::new(Interpreter::new(Arc::new(program.clone())))),
            Some(compiler) => {
                let compiled = compiler.compile(program).ok()?;
                query.host().stats.note_compilation(compiled.compilation);
                Some(compiled.kernel)
            }
        }
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
