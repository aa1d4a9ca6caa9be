//! Whether a plan can resume from what another one has kept, and what has changed if it cannot.

use super::{InputShape, Meaning, PlanShape, SinkShape, StateShape};
use std::fmt;

/// Why a plan cannot resume from a checkpoint: which part has changed, and what of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch(pub String);

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A field of a shape that is not the same.
pub(super) struct Difference {
    field: String,
    now: String,
    kept: String,
    /// Whether it only follows from another: what is read from a state that has changed has changed, too, but has its name.
    follows: bool,
}

impl PlanShape {
    /// What has changed if this plan does not keep what `kept`, the shape of an earlier one, does: part for part, in the same order. The
    /// first cause is told.
    pub(super) fn change(&self, kept: &PlanShape) -> Option<String> {
        let mut changed = changes(&self.aggregations, &kept.aggregations);
        changed.extend(changes(&self.operators, &kept.operators));
        // The cause is told before what only follows from it.
        if let Some((_, message)) = changed.into_iter().min_by_key(|(rank, _)| *rank) {
            return Some(message);
        }
        if self.time_zone != kept.time_zone {
            return Some(format!(
                "the state was made with the time zone {}, and 'table.local-time-zone' is {} now",
                kept.time_zone, self.time_zone
            ));
        }
        if self.sources != kept.sources {
            let tables = |shape: &PlanShape| list(shape.sources.iter().map(|source| &*source.from.text));
            return Some(match self.sources.is_empty() {
                true => format!("the query read {}, and does not any more", tables(kept)),
                false => format!("the query read {}, and reads {} now", tables(kept), tables(self)),
            });
        }
        let places = 0..self.sinks.len().max(kept.sinks.len());
        places.map(|i| (self.sinks.get(i), kept.sinks.get(i))).find_map(|sinks| match sinks {
            (Some(now), Some(kept)) if now == kept => None,
            (Some(now), Some(kept)) if now.table == kept.table => {
                let (from, is_from) = (texts(&kept.from), texts(&now.from));
                Some(format!("{} read {from}, and reads {is_from} now", kept.name()))
            }
            (Some(now), Some(kept)) => Some(format!("{} stands where {} was", now.name(), kept.name())),
            (Some(now), None) => Some(format!("{} is new", now.name())),
            (None, kept) => kept.map(|kept| format!("{} is not there any more", kept.name())),
        })
    }
}

impl SinkShape {
    fn name(&self) -> String {
        match &*self.table {
            "" => "the query".into(),
            table => format!("INSERT INTO {table}"),
        }
    }
}

/// What is not the same, place for place: the one of the lowest rank is told.
fn changes(now: &[StateShape], kept: &[StateShape]) -> Vec<(u8, String)> {
    let change = |i: usize| match (now.get(i), kept.get(i)) {
        (Some(now), Some(kept)) if now == kept => None,
        (Some(now), Some(kept)) => {
            let difference = now.differences(kept).into_iter().min_by_key(|difference| difference.follows);
            // Equality decides, whether a field is told or not.
            let other =
                || Difference { field: "what it keeps".into(), now: now.name(), kept: kept.name(), follows: true };
            let name = kept.name();
            let Difference { field, now, kept, follows } = difference.unwrap_or_else(other);
            let message =
                format!("the {name} keeps other state than its checkpoint: {field} changed from {kept} to {now}");
            Some((if follows { 3 } else { 0 }, message))
        }
        (None, Some(kept)) => {
            Some((1, format!("the checkpoint has the state of the {}, which the query does not have", kept.name())))
        }
        (Some(now), None) => {
            Some((2, format!("the query has the {}, of which the checkpoint has no state", now.name())))
        }
        (None, None) => None,
    };
    (0..now.len().max(kept.len())).filter_map(change).collect()
}

fn texts(meanings: &[Meaning]) -> String {
    list(meanings.iter().map(|meaning| meaning.text.as_str()))
}

fn list<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let items: Vec<&str> = items.collect();
    if items.is_empty() { "nothing".into() } else { items.join(", ") }
}

fn optional(meaning: Option<&Meaning>) -> String {
    meaning.map_or_else(|| "nothing".into(), |meaning| meaning.text.clone())
}

/// Collects what is not the same.
struct Differences(Vec<Difference>);

impl Differences {
    fn compare<T: PartialEq + ?Sized>(&mut self, field: &str, (now, kept): (&T, &T), text: impl Fn(&T) -> String) {
        if now != kept {
            let (mut now, kept) = (text(now), text(kept));
            let follows = now == kept;
            if follows {
                now += " (another meaning)";
            }
            self.0.push(Difference { field: field.into(), now, kept, follows });
        }
    }
}

impl StateShape {
    pub(super) fn differences(&self, other: &StateShape) -> Vec<Difference> {
        let StateShape { operator, parameters, keys, components, aggregates, order, condition, inputs } = self;
        let mut found = Differences(Vec::new());
        found.compare("what it is", (operator, &other.operator), String::clone);
        let names = parameters.keys().chain(other.parameters.keys().filter(|name| !parameters.contains_key(*name)));
        for name in names {
            let values = (&parameters.get(name), &other.parameters.get(name));
            found.compare(name, values, |value| value.map_or_else(|| "nothing".into(), String::clone));
        }
        let strings = |all: &[String]| list(all.iter().map(String::as_str));
        found.compare("the types of its keys", (&keys[..], &other.keys), strings);
        found.compare("its aggregates", (&aggregates[..], &other.aggregates), strings);
        found.compare("its order", (&order[..], &other.order), strings);
        let (now, kept) = (unmatched(inputs, &other.inputs), unmatched(&other.inputs, inputs));
        if now.len() == kept.len() {
            now.iter().zip(&kept).for_each(|(now, kept)| now.compare(kept, &mut found));
        } else {
            let tables = |inputs: &[InputShape]| list(inputs.iter().map(|input| input.from.text.as_str()));
            found.compare("what it unites", (&inputs[..], &other.inputs), tables);
        }
        // Conditions and arguments are over positions: if those hold other columns now, that was said.
        found.compare("its condition", (condition, &other.condition), |c| optional(c.as_ref()));
        found.compare("what its entries hold", (&components[..], &other.components), |components| {
            list(components.iter().map(|component| component.accumulator.as_str()))
        });
        found.0
    }
}

/// Inputs that the others do not have.
fn unmatched<'a>(inputs: &'a [InputShape], others: &[InputShape]) -> Vec<&'a InputShape> {
    let mut others: Vec<&InputShape> = others.iter().collect();
    inputs
        .iter()
        .filter(|input| match others.iter().position(|other| other == input) {
            Some(at) => {
                others.remove(at);
                false
            }
            None => true,
        })
        .collect()
}

impl InputShape {
    fn compare(&self, other: &InputShape, found: &mut Differences) {
        let InputShape { port, from, watermark, steps, filters, time, late_after_ms, keys, values, types } = self;
        let texts = |meanings: &[Meaning]| texts(meanings);
        found.compare("what it reads", (from, &other.from), |from| from.text.clone());
        found.compare("its side", (port, &other.port), |port| if *port == 0 { "left".into() } else { "right".into() });
        found.compare("the watermark", (watermark, &other.watermark), |w| optional(w.as_ref()));
        found.compare("what multiplies its rows", (&steps[..], &other.steps), texts);
        let of = |input: &InputShape| input.key_values().cloned().collect::<Vec<Meaning>>();
        found.compare("its key", (&of(self)[..], &of(other)), texts);
        let (now, kept) = (without(filters, &other.filters), without(&other.filters, filters));
        found.compare("the filter before it", (&now[..], &kept), texts);
        found.compare("the time of its rows", (time, &other.time), |time| optional(time.as_ref()));
        found.compare("when its rows are late", (late_after_ms, &other.late_after_ms), |ms| format!("{ms:?}"));
        found.compare("the positions of its keys", (&keys[..], &other.keys), |keys| format!("{keys:?}"));
        found.compare("what it is given", (&values[..], &other.values), texts);
        found.compare("the types of what it is given", (&types[..], &other.types), |types| {
            list(types.iter().map(String::as_str))
        });
    }
}

/// Those that are not among the others.
fn without(meanings: &[Meaning], others: &[Meaning]) -> Vec<Meaning> {
    meanings.iter().filter(|meaning| !others.contains(meaning)).cloned().collect()
}
