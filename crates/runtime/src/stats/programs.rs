//! The programs of a query: their variants, what each has cost, and what is known of their rows.
//!
//! Current variants are asked when a snapshot is taken; of others, and of the rows, the adviser tells from time to time. When the run has ended, the last numbers remain and the code is let go.

use super::program_snapshot::{ColumnSnapshot, KeysSnapshot, ProfileSnapshot, ProgramSnapshot, VariantSnapshot};
use crate::adaptive::Variant;
use crate::adaptive::signals::Profile;
use crate::executable_plan::PipelineCode;
use millstream_codegen::kernel::Tier;
use millstream_codegen::program::Program;
use millstream_codegen::specialise::Choices;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Most replaced variants of a program that are kept; the oldest go first.
const KEPT: usize = 64;

impl VariantSnapshot {
    pub(crate) fn of(variant: &Variant, program: &Program, is_current: bool) -> VariantSnapshot {
        let metered = variant.meter.read();
        VariantSnapshot {
            number: variant.number,
            tier: variant.tier(),
            choices: choices_text(program, &variant.choices()),
            rows: metered.rows,
            buffers: metered.buffers,
            nanos: metered.nanos,
            nanos_per_row: (metered.rows > 0).then(|| metered.nanos as f64 / metered.rows as f64),
            cycles_per_row: None,
            is_current,
        }
    }
}

impl ProfileSnapshot {
    /// Of a program with these inputs.
    pub(crate) fn of(profile: &Profile, program: &Program) -> ProfileSnapshot {
        let keys = &profile.keys;
        let columns = program.inputs.iter().zip(&profile.columns).filter_map(|(input, column)| {
            Some(ColumnSnapshot {
                name: input.name.clone(),
                null_rate: column.null_rate()?,
                distinct: column.distinct(),
                text_bytes: column.text_bytes(),
            })
        });
        ProfileSnapshot {
            rows: profile.rows,
            filters: (0..profile.filters.len()).map(|filter| profile.filters.selectivity(filter)).collect(),
            keys: keys.summary().map(|summary| KeysSnapshot {
                distinct: summary.keys,
                heaviest: summary.heaviest,
                null_share: keys.nulls().unwrap_or(0.0),
                range: keys.range(),
            }),
            out_of_order: profile.times.out_of_order(),
            disorder_ms: profile.times.disorder_ms(),
            rows_per_slice: profile.times.rows_per_slice(),
            columns: columns.collect(),
        }
    }
}

/// The programs of a run.
#[derive(Default)]
pub(crate) struct ProgramStats(Mutex<LearnedPrograms>);

#[derive(Default)]
struct LearnedPrograms {
    /// While the run lasts; with the variant that each began with.
    codes: Vec<(PipelineCode, Arc<Variant>)>,
    learned: BTreeMap<String, Learned>,
    /// After the run.
    last: Vec<ProgramSnapshot>,
    /// After the run.
    last_used: Vec<UsedVariant>,
}

/// The variant that a program's rows go through.
#[derive(Debug, Clone)]
pub struct UsedVariant {
    /// The program.
    pub program: String,
    /// In the order in which the program's variants came up.
    pub number: u32,
    /// How it executes.
    pub tier: Tier,
    /// What it is specialised for.
    pub choices: Choices,
}

/// What the adviser tells of a program.
#[derive(Debug, Clone, Default)]
struct Learned {
    /// By number; those that ran last.
    variants: BTreeMap<u32, VariantSnapshot>,
    profile: Option<ProfileSnapshot>,
    filter_nanos: Vec<f64>,
}

impl fmt::Debug for ProgramStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.snapshot(None)).finish()
    }
}

impl ProgramStats {
    /// The run begins with these programs.
    pub(crate) fn begin(&self, codes: Vec<PipelineCode>) {
        self.0.lock().codes = codes.into_iter().map(|code| (code.clone(), code.slot.current())).collect();
    }

    /// Variants of a program that may have run since the last time.
    pub(crate) fn ran<'a>(&self, program: &Program, variants: impl Iterator<Item = &'a Arc<Variant>>) {
        let mut state = self.0.lock();
        let told = &mut state.learned.entry(program.name.clone()).or_default().variants;
        for variant in variants {
            told.insert(variant.number, VariantSnapshot::of(variant, program, false));
        }
        while told.len() > KEPT {
            told.pop_first();
        }
    }

    /// What is known of a program's rows.
    pub(crate) fn profiled(&self, program: &Program, profile: &Profile) {
        let profile = ProfileSnapshot::of(profile, program);
        self.0.lock().learned.entry(program.name.clone()).or_default().profile = Some(profile);
    }

    /// What the filters of a program cost.
    pub(crate) fn measured(&self, program: &Program, filter_nanos: Vec<f64>) {
        self.0.lock().learned.entry(program.name.clone()).or_default().filter_nanos = filter_nanos;
    }

    /// The run has ended.
    pub(crate) fn end(&self) {
        let mut state = self.0.lock();
        state.last = state.snapshot();
        state.last_used = state.used();
        state.codes.clear();
    }

    /// The variants that are in use now, or were at the end of the run, of all programs.
    pub(crate) fn used(&self) -> Vec<UsedVariant> {
        let state = self.0.lock();
        if state.codes.is_empty() { state.last_used.clone() } else { state.used() }
    }

    /// The programs of now that have processed rows, or of the end of the run, with a clock of `cycles_per_nano`.
    pub(crate) fn snapshot(&self, cycles_per_nano: Option<f64>) -> Vec<ProgramSnapshot> {
        let state = self.0.lock();
        let mut programs = if state.codes.is_empty() { state.last.clone() } else { state.snapshot() };
        for variant in programs.iter_mut().flat_map(|program| &mut program.variants) {
            variant.cycles_per_row = variant.nanos_per_row.zip(cycles_per_nano).map(|(nanos, cycles)| nanos * cycles);
        }
        programs
    }
}

impl LearnedPrograms {
    fn used(&self) -> Vec<UsedVariant> {
        let used = |(code, _): &(PipelineCode, Arc<Variant>)| {
            let current = code.slot.current();
            let program = code.lowered.program.name.clone();
            UsedVariant { program, number: current.number, tier: current.tier(), choices: current.choices() }
        };
        self.codes.iter().map(used).collect()
    }

    fn snapshot(&self) -> Vec<ProgramSnapshot> {
        let programs = self.codes.iter().map(|(code, first)| {
            let program = &code.lowered.program;
            let first = VariantSnapshot::of(first, program, false);
            let current = VariantSnapshot::of(&code.slot.current(), program, true);
            let Learned { mut variants, profile, filter_nanos } =
                self.learned.get(&program.name).cloned().unwrap_or_default();
            variants.extend([first, current].map(|variant| (variant.number, variant)));
            ProgramSnapshot {
                name: program.name.clone(),
                variants: variants.into_values().filter(|variant| variant.rows > 0 || variant.is_current).collect(),
                profile,
                filter_nanos,
            }
        });
        programs.filter(|program| program.variants.iter().any(|variant| variant.rows > 0)).collect()
    }
}

impl UsedVariant {
    /// What it is specialised for, in words, when it is a variant of this program.
    pub fn purpose(&self, program: &Program) -> String {
        choices_text(program, &self.choices)
    }
}

/// What a variant is specialised for.
fn choices_text(program: &Program, choices: &Choices) -> String {
    let name = |input: &u32| program.inputs.get(*input as usize).map_or("?", |input| input.name.as_str());
    let mut parts = Vec::new();
    if !choices.filters.is_empty() {
        let filters = choices.filters.iter().map(|c| format!("{} by {}", c.filter, c.shape));
        parts.push(format!("filters {}", filters.collect::<Vec<_>>().join(", ")));
    }
    if !choices.not_null.is_empty() {
        let names: Vec<&str> = choices.not_null.iter().map(name).collect();
        parts.push(format!("{} not NULL", names.join(", ")));
    }
    if !choices.constants.is_empty() {
        let names: Vec<&str> = choices.constants.keys().map(name).collect();
        parts.push(format!("{} constant", names.join(", ")));
    }
    for (input, values) in &choices.few {
        parts.push(format!("{} mostly one of {}", name(input), values.len()));
    }
    parts.join("; ")
}
