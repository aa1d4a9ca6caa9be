//! From what is known of a program and its rows to what it should be specialised for.
//!
//! Each choice is made by a function of `decisions`; here they are asked, bounded by the settings, and put together.

use super::decisions::assumptions::assume;
use super::decisions::costs::{Caches, GUARD, VALIDITY};
use super::decisions::few_values;
use super::decisions::filters::{self, FilterCost, FilterShape as Planned};
use super::decisions::hysteresis::{COMPILED, Hysteresis, TABLES, Trust};
use super::decisions::key_range::{self, Keys};
use super::facts::Facts;
use super::signals::Profile;
use super::watch::SampleWatch;
use crate::config::{Adaptivity, When};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use millstream_abi::Phys;
use millstream_codegen::program::{FilterShape, KeyRange, Program};
use millstream_codegen::specialise::{Choices, Constant, FilterChoice, can_be_constant};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// Least sampled rows before anything is chosen.
const LEAST_ROWS: u64 = 2048;

/// What of a run matters to a choice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings {
    /// Since the start of the run.
    pub(crate) now: Duration,
    /// Workers that run the program.
    pub(crate) workers: usize,
    /// Bytes that are left of the memory budget.
    pub(crate) memory_left: u64,
    /// What a row costs as it is, in nanoseconds, if that is known.
    pub(crate) nanos_per_row: Option<f64>,
}

/// Choices, and why.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) choices: Choices,
    pub(crate) observed: String,
    pub(crate) decided: String,
    /// Whether it is not to be tried first.
    pub(crate) is_forced: bool,
}

/// What was chosen before, as far as it bears on the next choice.
#[derive(Debug)]
pub(crate) struct Choosing {
    settings: Adaptivity,
    filters: Hysteresis,
    keys: Hysteresis,
    few: Hysteresis,
    trust_columns: BTreeMap<u32, Trust>,
    trust_keys: Trust,
    caches: Caches,
}

impl Choosing {
    pub(crate) fn new(settings: &Adaptivity) -> Choosing {
        Choosing {
            settings: settings.clone(),
            filters: Hysteresis::new(COMPILED),
            keys: Hysteresis::new(TABLES),
            few: Hysteresis::new(COMPILED),
            trust_columns: BTreeMap::new(),
            trust_keys: Trust::default(),
            caches: Caches::of_machine(),
        }
    }

    /// Whether something is to be assumed whatever it costs.
    pub(crate) fn forces(&self) -> bool {
        let Adaptivity { not_null, constants, few_values, key_range, .. } = self.settings;
        [not_null, constants, few_values, key_range].contains(&When::Always)
    }

    /// What to specialise for from now on, if it is something else than `current`.
    pub(crate) fn choose(
        &self,
        program: &Program,
        facts: &Facts,
        (profile, watch): (&Profile, &SampleWatch),
        current: &Choices,
        around: Surroundings,
    ) -> Option<Chosen> {
        if profile.rows() < LEAST_ROWS {
            return None;
        }
        let mut chosen =
            Chosen { choices: current.clone(), observed: String::new(), decided: String::new(), is_forced: false };
        self.order_filters(facts, (profile, watch), around, &mut chosen);
        self.assume_columns(program, facts, profile, around.now, &mut chosen);
        self.compare_few(program, facts, profile, around.now, &mut chosen);
        self.assume_keys(facts, profile, around, &mut chosen);
        (chosen.choices != *current).then_some(chosen)
    }

    /// What a variant has come to that was chosen: nanoseconds per row without and with it.
    pub(crate) fn judged(&mut self, from: &Choices, to: &Choices, (before, after): (f64, f64), now: Duration) {
        if from.filters != to.filters {
            self.filters.changed(now);
            self.filters.judged(before, after);
        }
        if from.few != to.few {
            self.few.changed(now);
            self.few.judged(before, after);
        }
        if from.keys != to.keys {
            self.keys.changed(now);
            self.keys.judged(before, after);
        }
        if after >= before {
            let assumed = to.not_null.iter().chain(to.constants.keys());
            for input in assumed.filter(|i| !from.not_null.contains(i) && !from.constants.contains_key(i)) {
                self.trust_columns.entry(*input).or_default().broke(now);
            }
        }
    }

    /// Assumptions that did not hold are not made again soon: those about columns, or the range of keys.
    pub(crate) fn broke(&mut self, columns: &[u32], keys: bool, now: Duration) {
        for &column in columns {
            self.trust_columns.entry(column).or_default().broke(now);
        }
        if keys {
            self.trust_keys.broke(now);
        }
    }

    fn order_filters(&self, facts: &Facts, seen: (&Profile, &SampleWatch), around: Surroundings, chosen: &mut Chosen) {
        let chooses_shape = self.settings.filter_shape.is_none();
        if !(self.settings.filter_order || chooses_shape) || facts.filters.is_empty() {
            return;
        }
        let (profile, watch) = seen;
        let costs: Vec<FilterCost> = (facts.filters.iter().enumerate())
            .map(|(filter, facts)| FilterCost {
                nanos: facts.nanos.or_else(|| watch.nanos(filter)).unwrap_or(20.0),
                vectorises: facts.vectorises,
                after: if self.settings.filter_order { facts.after } else { !(!0 << filter.min(63)) },
            })
            .collect();
        let Some(plan) = filters::plan(profile.filters(), &costs) else { return };
        let used = now_used(&chosen.choices.filters, facts, &costs);
        let nanos = filters::cost_of(profile.filters(), &costs, &used);
        // What the rest of the row costs counts, too: a better order must matter.
        let rest = around.nanos_per_row.map_or(0.0, |all| (all - nanos).max(0.0));
        if !self.filters.allows(around.now, nanos + rest, plan.nanos + rest) {
            return;
        }
        let shape = |filter: usize, planned: Planned| match planned {
            _ if !chooses_shape => facts.filters[filter].shape,
            Planned::Branch => FilterShape::Branch,
            Planned::Mask => FilterShape::Mask,
            Planned::Selection => FilterShape::Selection,
        };
        let filters =
            plan.filters.iter().map(|&(filter, planned)| FilterChoice { filter, shape: shape(filter, planned) });
        let filters: Vec<FilterChoice> = filters.collect();
        if filters == chosen.choices.filters {
            return;
        }
        let mut text = Text { observed: &mut chosen.observed, decided: &mut chosen.decided };
        for (filter, FilterCost { nanos, .. }) in costs.iter().enumerate() {
            let share = profile.filters().selectivity(filter) * 100.0;
            text.observed(format_args!("filter {filter} passes {share:.1} % at {nanos:.1} ns"));
        }
        let shown = filters.iter().map(|c| format!("{} by {}", c.filter, c.shape));
        text.decided(format_args!("filters in the order {}", shown.collect::<Vec<_>>().join(", ")));
        chosen.choices.filters = filters;
    }

    fn assume_columns(&self, program: &Program, facts: &Facts, profile: &Profile, now: Duration, chosen: &mut Chosen) {
        let never = Trust::default();
        let trust = |input: &u32| self.trust_columns.get(input).unwrap_or(&never);
        let mut text = Text { observed: &mut chosen.observed, decided: &mut chosen.decided };
        // What is forced is worth anything.
        let worth = |setting: When, gain: f64| if setting == When::Always { f64::INFINITY } else { gain };
        let Adaptivity { not_null, constants, .. } = self.settings;
        for (&input, &uses) in facts.nullable.iter().filter(|_| not_null != When::Never) {
            let Some(column) = profile.columns().get(input as usize) else { continue };
            let gain = worth(not_null, VALIDITY * uses as f64);
            if !chosen.choices.not_null.contains(&input) && assume(column.rows_since_null(), gain, trust(&input), now) {
                let name = &program.inputs[input as usize].name;
                text.observed(format_args!("no NULL in {} sampled rows of {name}", column.rows_since_null()));
                text.decided(format_args!("{name} is not NULL"));
                chosen.choices.not_null.insert(input);
                chosen.is_forced |= not_null == When::Always;
            }
        }
        for (&input, saved) in facts.constants.iter().filter(|_| constants != When::Never) {
            let Some((value, rows)) = profile.columns().get(input as usize).and_then(|c| c.constant()) else {
                continue;
            };
            let Some(constant) = constant_of(value, program.inputs[input as usize].phys) else { continue };
            let is_new = !chosen.choices.constants.contains_key(&input);
            let fits = can_be_constant(program, input, &constant);
            if is_new && fits && assume(rows, worth(constants, saved - GUARD), trust(&input), now) {
                let name = &program.inputs[input as usize].name;
                text.observed(format_args!("{rows} sampled rows of {name} are alike"));
                text.decided(format_args!("{name} is constant"));
                chosen.choices.constants.insert(input, constant);
                chosen.is_forced |= constants == When::Always;
            }
        }
    }

    fn compare_few(&self, program: &Program, facts: &Facts, profile: &Profile, now: Duration, chosen: &mut Chosen) {
        let (setting, is_open) = (self.settings.few_values, self.few.is_open(now));
        if setting == When::Never || !(is_open || setting == When::Always) {
            return;
        }
        let mut text = Text { observed: &mut chosen.observed, decided: &mut chosen.decided };
        for (&input, &calls) in &facts.few {
            let Some(column) = profile.columns().get(input as usize) else { continue };
            if chosen.choices.constants.contains_key(&input) {
                continue;
            }
            let (used, seen) = (chosen.choices.few.get(&input).cloned().unwrap_or_default(), column.few_texts());
            let (name, used_count) = (&program.inputs[input as usize].name, used.len());
            match (few_values::choose(&used, seen.as_deref(), calls), seen) {
                (few_values::FewValuesChoice::UseSeen, Some(seen)) => {
                    text.observed(format_args!("{} values of {name} were seen", seen.len()));
                    text.decided(format_args!("{name} is compared with them"));
                    chosen.choices.few.insert(input, seen);
                    chosen.is_forced |= setting == When::Always;
                }
                (few_values::FewValuesChoice::GiveUp, _) => {
                    text.observed(format_args!("{name} has other values than {used_count}"));
                    text.decided(format_args!("functions of {name} are called"));
                    chosen.choices.few.remove(&input);
                    chosen.is_forced |= setting == When::Always;
                }
                _ => {}
            }
        }
    }

    fn assume_keys(&self, facts: &Facts, profile: &Profile, around: Surroundings, chosen: &mut Chosen) {
        let used = chosen.choices.keys.map(|range| Keys { first: range.first, len: range.len });
        let (Some(layout), Some((least, most)), Some(summary)) =
            (&facts.keyed, profile.keys().range(), profile.keys().summary())
        else {
            return;
        };
        let setting = self.settings.key_range;
        let Some(seen) = Keys::between(least, most).filter(|_| setting != When::Never) else { return };
        let (now, is_forced) = (around.now, setting == When::Always);
        let is_distrusted = used.is_none() && self.trust_keys.rows_needed(now, 1).is_none();
        if is_distrusted || !(is_forced || self.keys.is_open(now)) {
            return;
        }
        let rows = profile.times().rows_per_slice();
        let situation = key_range::KeyRangeCase {
            seen,
            distinct: summary.keys,
            rows_per_table: rows.map(|rows| rows * profile.filters().passing(!0) / around.workers as f64),
            stride: layout.stride.saturating_sub(layout.accumulators.first().map_or(0, |a| a.1)),
            hash_stride: layout.stride,
            tables: 2 * around.workers,
            memory_left: around.memory_left,
            caches: self.caches,
            is_forced,
        };
        let mut text = Text { observed: &mut chosen.observed, decided: &mut chosen.decided };
        let keys = summary.keys.round();
        match situation.choose(used) {
            key_range::KeyRangeChoice::Keep => return,
            key_range::KeyRangeChoice::Use(keys) => {
                text.decided(format_args!("keys are from {} to {}", keys.first, keys.last()));
                chosen.choices.keys = Some(KeyRange { first: keys.first, len: keys.len });
            }
            key_range::KeyRangeChoice::GiveUp => {
                text.decided(format_args!("keys are anything"));
                chosen.choices.keys = None;
            }
        }
        text.observed(format_args!("about {keys} keys from {least} to {most}"));
        chosen.is_forced |= is_forced;
    }
}

/// Sentences of an event.
struct Text<'a> {
    observed: &'a mut String,
    decided: &'a mut String,
}

impl Text<'_> {
    fn observed(&mut self, what: std::fmt::Arguments<'_>) {
        append(self.observed, what);
    }

    fn decided(&mut self, what: std::fmt::Arguments<'_>) {
        append(self.decided, what);
    }
}

fn append(text: &mut String, what: std::fmt::Arguments<'_>) {
    if !text.is_empty() {
        text.push_str("; ");
    }
    // Writing to a String cannot fail.
    let _ = text.write_fmt(what);
}

/// The filters as they are applied now. Without choices cheap ones are and-ed, and the last one makes a selection.
fn now_used(choices: &[FilterChoice], facts: &Facts, costs: &[FilterCost]) -> Vec<(usize, Planned)> {
    let last = facts.filters.len() - 1;
    let planned = |filter: usize, shape: FilterShape| match shape {
        FilterShape::Branch => Planned::Branch,
        FilterShape::Mask => Planned::Mask,
        FilterShape::Selection => Planned::Selection,
        FilterShape::Auto if costs[filter].vectorises && filter < last => Planned::Mask,
        FilterShape::Auto => Planned::Selection,
    };
    match choices.is_empty() {
        true => (0..=last).map(|filter| (filter, planned(filter, facts.filters[filter].shape))).collect(),
        false => choices.iter().map(|c| (c.filter, planned(c.filter, c.shape))).collect(),
    }
}

/// The one value of an array as a constant.
fn constant_of(value: &ArrayRef, phys: Phys) -> Option<Constant> {
    if value.is_null(0) {
        return None;
    }
    let data = value.to_data();
    Some(match phys {
        Phys::Bool => Constant::Bool(value.as_boolean().value(0)),
        Phys::I8 => Constant::Int(data.buffer::<i8>(0)[0].into()),
        Phys::I16 => Constant::Int(data.buffer::<i16>(0)[0].into()),
        Phys::I32 => Constant::Int(data.buffer::<i32>(0)[0].into()),
        Phys::I64 => Constant::Int(data.buffer::<i64>(0)[0].into()),
        Phys::I128 => Constant::Int(data.buffer::<i128>(0)[0]),
        Phys::Str => match value.as_string_view_opt() {
            Some(text) => Constant::Str(text.value(0).as_bytes().into()),
            None => Constant::Str(value.as_binary_view().value(0).into()),
        },
        Phys::F32 | Phys::F64 => return None,
    })
}
