//! From what is known of a program and its rows to what it should be specialised for.
//!
//! Each choice is made by a function of `decisions`; here they are asked, bounded by the settings, and put together.

use super::decisions::assumptions::{Revision, assume};
use super::decisions::costs::{GUARD, VALIDITY};
use super::decisions::few_values;
use super::decisions::filters::{self, FilterCost};
use super::decisions::hysteresis::{COMPILED, Hysteresis, Trust};
use super::events::EventLog;
use super::facts::Facts;
use super::policy::Decision;
use super::signals::Profile;
use super::watch::SampleWatch;
use crate::config::{Adaptivity, When};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use millstream_abi::Phys;
use millstream_codegen::program::{FilterShape, Program};
use millstream_codegen::specialise::{Choices, Constant, FilterChoice, can_be_constant};
use std::collections::BTreeMap;
use std::time::Duration;

/// Least sampled rows before anything is chosen.
const LEAST_ROWS: u64 = 2048;

/// What of a run matters to a choice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// Since the start of the run.
    pub(crate) now: Duration,
    /// What a row costs now, in nanoseconds, if known.
    pub(crate) nanos_per_row: Option<f64>,
    /// Where decisions are told.
    pub(crate) events: &'a EventLog,
}

/// What a choice is made by: the program, its rows, and the run.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) program: &'a Program,
    pub(crate) facts: &'a Facts,
    pub(crate) profile: &'a Profile,
    pub(crate) watch: &'a SampleWatch,
    pub(crate) around: Surroundings<'a>,
}

impl<'a> Known<'a> {
    fn name(self, input: u32) -> &'a str {
        &self.program.inputs[input as usize].name
    }
}

/// Choices, and why.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) choices: Choices,
    pub(crate) why: Decision,
    /// Whether it is not to be tried first.
    pub(crate) is_forced: bool,
}

impl Chosen {
    /// Adds why one of the choices is made, which may be forced by its setting.
    fn note(&mut self, setting: When, observed: String, decided: String) {
        for (text, what) in [(&mut self.why.observed, observed), (&mut self.why.decided, decided)] {
            if !text.is_empty() {
                text.push_str("; ");
            }
            text.push_str(&what);
        }
        self.is_forced |= setting == When::Always;
    }
}

/// What was chosen before, as far as it bears on the next choice.
#[derive(Debug)]
pub(crate) struct Choosing {
    settings: Adaptivity,
    filters: Hysteresis,
    few: Hysteresis,
    trust_columns: BTreeMap<u32, Trust>,
}

impl Choosing {
    pub(crate) fn new(settings: &Adaptivity) -> Choosing {
        Choosing {
            settings: settings.clone(),
            filters: Hysteresis::new(COMPILED),
            few: Hysteresis::new(COMPILED),
            trust_columns: BTreeMap::new(),
        }
    }

    /// Whether something is to be assumed whatever it costs.
    pub(crate) fn forces(&self) -> bool {
        let Adaptivity { not_null, constants, few_values, .. } = self.settings;
        [not_null, constants, few_values].contains(&When::Always)
    }

    /// Whether enough rows have been seen for a choice.
    pub(crate) fn knows_enough(&self, profile: &Profile) -> bool {
        profile.rows >= LEAST_ROWS
    }

    /// What to specialise for from now on, if it is something else than `current`. For who [knows enough](Choosing::knows_enough).
    pub(crate) fn choose(&self, known: Known<'_>, current: &Choices) -> Option<Chosen> {
        let mut chosen = Chosen { choices: current.clone(), why: Decision::default(), is_forced: false };
        self.order_filters(known, &mut chosen);
        self.assume_columns(known, &mut chosen);
        self.compare_few(known, &mut chosen);
        (chosen.choices != *current).then_some(chosen)
    }

    /// What a variant has come to that was chosen: nanoseconds per row without and with it.
    pub(crate) fn judged(&mut self, from: &Choices, to: &Choices, (before, after): (f64, f64), now: Duration) {
        let changed = [(&mut self.filters, from.filters != to.filters), (&mut self.few, from.few != to.few)];
        for (hysteresis, _) in changed.into_iter().filter(|(_, is_changed)| *is_changed) {
            hysteresis.judged(now, before, after);
        }
        if after >= before {
            let assumed = to.not_null.iter().chain(to.constants.keys());
            for input in assumed.filter(|i| !from.not_null.contains(i) && !from.constants.contains_key(i)) {
                self.trust_columns.entry(*input).or_default().broke(now);
            }
        }
    }

    /// Assumptions about columns that did not hold are not made again soon.
    pub(crate) fn broke(&mut self, columns: &[u32], now: Duration) {
        for &column in columns {
            self.trust_columns.entry(column).or_default().broke(now);
        }
    }

    fn order_filters(&self, known: Known<'_>, chosen: &mut Chosen) {
        let Known { facts, profile, watch, around, .. } = known;
        let chooses_shape = self.settings.filter_shape.is_none();
        if !(self.settings.filter_order || chooses_shape) || facts.filters.is_empty() {
            return;
        }
        let costs: Vec<FilterCost> = (facts.filters.iter().enumerate())
            .map(|(filter, facts)| FilterCost {
                nanos: facts.nanos.or_else(|| watch.nanos(filter)).unwrap_or(20.0),
                vectorises: facts.vectorises,
                after: if self.settings.filter_order { facts.after } else { !(!0 << filter.min(63)) },
            })
            .collect();
        let Some(mut plan) = filters::plan(&profile.filters, &costs) else { return };
        let used = now_used(&chosen.choices.filters, facts, &costs);
        let nanos = filters::cost_of(&profile.filters, &costs, &used);
        // What the rest of the row costs counts, too: a better order must matter.
        let rest = around.nanos_per_row.map_or(0.0, |all| (all - nanos).max(0.0));
        if !self.filters.allows(around.now, nanos + rest, plan.nanos + rest) {
            return;
        }
        if !chooses_shape {
            plan.filters.iter_mut().for_each(|choice| choice.shape = facts.filters[choice.filter].shape);
        }
        if plan.filters == chosen.choices.filters {
            return;
        }
        let seen = costs.iter().enumerate().map(|(filter, FilterCost { nanos, .. })| {
            let share = profile.filters.selectivity(filter) * 100.0;
            format!("filter {filter} passes {share:.1} % at {nanos:.1} ns")
        });
        let shown = plan.filters.iter().map(|c| format!("{} by {}", c.filter, c.shape));
        let decided = format!("filters in the order {}", shown.collect::<Vec<_>>().join(", "));
        chosen.note(When::Auto, seen.collect::<Vec<_>>().join("; "), decided);
        chosen.choices.filters = plan.filters;
    }

    fn assume_columns(&self, known: Known<'_>, chosen: &mut Chosen) {
        let Known { program, facts, profile, around, .. } = known;
        let never = Trust::default();
        let trust = |input: &u32| self.trust_columns.get(input).unwrap_or(&never);
        // What is forced is worth anything.
        let worth = |setting: When, gain: f64| if setting == When::Always { f64::INFINITY } else { gain };
        let Adaptivity { not_null, constants, .. } = self.settings;
        for (&input, &uses) in facts.nullable.iter().filter(|_| not_null != When::Never) {
            let Some(column) = profile.columns.get(input as usize) else { continue };
            let (rows, gain) = (column.since_null, worth(not_null, VALIDITY * uses as f64));
            if !chosen.choices.not_null.contains(&input) && assume(rows, gain, trust(&input), around.now) {
                let name = known.name(input);
                let observed = format!("no NULL in {rows} sampled rows of {name}");
                chosen.note(not_null, observed, format!("{name} is not NULL"));
                chosen.choices.not_null.insert(input);
            }
        }
        for (&input, saved) in facts.constants.iter().filter(|_| constants != When::Never) {
            let Some((value, rows)) = profile.columns.get(input as usize).and_then(|c| c.constant()) else {
                continue;
            };
            let Some(constant) = constant_of(value, program.inputs[input as usize].phys) else { continue };
            let is_new = !chosen.choices.constants.contains_key(&input);
            let fits = can_be_constant(program, input, &constant);
            if is_new && fits && assume(rows, worth(constants, saved - GUARD), trust(&input), around.now) {
                let name = known.name(input);
                let observed = format!("{rows} sampled rows of {name} are alike");
                chosen.note(constants, observed, format!("{name} is constant"));
                chosen.choices.constants.insert(input, constant);
            }
        }
    }

    fn compare_few(&self, known: Known<'_>, chosen: &mut Chosen) {
        let (setting, is_open) = (self.settings.few_values, self.few.is_open(known.around.now));
        if setting == When::Never || !(is_open || setting == When::Always) {
            return;
        }
        for (&input, &calls) in &known.facts.few {
            let Some(column) = known.profile.columns.get(input as usize) else { continue };
            if chosen.choices.constants.contains_key(&input) {
                continue;
            }
            let used = chosen.choices.few.get(&input).cloned().unwrap_or_default();
            let name = known.name(input);
            match few_values::choose(&used, column.few_texts(), calls) {
                Revision::Keep => {}
                Revision::Use(seen) => {
                    let observed = format!("{} values of {name} were seen", seen.len());
                    chosen.note(setting, observed, format!("{name} is compared with them"));
                    chosen.choices.few.insert(input, seen);
                }
                Revision::GiveUp => {
                    let observed = format!("{name} has other values than {}", used.len());
                    chosen.note(setting, observed, format!("functions of {name} are called"));
                    chosen.choices.few.remove(&input);
                }
            }
        }
    }
}

/// The filters as currently applied. Without choices cheap ones are and-ed, and the last one makes a selection.
fn now_used(choices: &[FilterChoice], facts: &Facts, costs: &[FilterCost]) -> Vec<FilterChoice> {
    let last = facts.filters.len() - 1;
    let all = (0..=last).map(|filter| FilterChoice { filter, shape: facts.filters[filter].shape });
    let mut used = if choices.is_empty() { all.collect() } else { choices.to_vec() };
    for FilterChoice { filter, shape } in used.iter_mut().filter(|choice| choice.shape == FilterShape::Auto) {
        let is_mask = costs[*filter].vectorises && *filter < last;
        *shape = if is_mask { FilterShape::Mask } else { FilterShape::Selection };
    }
    used
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
