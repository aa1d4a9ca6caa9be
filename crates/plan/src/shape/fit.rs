//! Whether a plan can go on from what another one has kept, and what of that belongs to which of its parts.

use super::{InputShape, Meaning, PlanShape, SHAPE_VERSION, SinkShape, SourceShape, StateShape};
use std::fmt;

/// For each part of a plan, the place of its state in a checkpoint; `None`: it begins without state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fit {
    /// Of sources.
    pub sources: Vec<Option<usize>>,
    /// Of windowed aggregations.
    pub aggregations: Vec<Option<usize>>,
    /// Of keyed operators.
    pub operators: Vec<Option<usize>>,
    /// Of sinks.
    pub sinks: Vec<Option<usize>>,
}

/// Why a plan cannot go on from a checkpoint: which part has changed, and what of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch(pub String);

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A field of a shape that is not the same.
struct Difference {
    field: String,
    now: String,
    kept: String,
    /// Whether it only follows from another: what is read from a state that has changed has changed, too, but has its name.
    follows: bool,
}

impl PlanShape {
    /// Finds a place for everything in `kept`, the shape of an earlier plan. Parts of this plan that it does not have begin
    /// without state; they can only belong to INSERTs that it does not have.
    ///
    /// # Errors
    /// When something was kept that this plan does not keep.
    pub fn fit(&self, kept: &PlanShape) -> Result<Fit, Mismatch> {
        if kept.version != SHAPE_VERSION {
            let message = format!(
                "the state is described in version {} of its description; this build reads version {SHAPE_VERSION}",
                kept.version
            );
            return Err(Mismatch(message));
        }
        let aggregations = places(&self.aggregations, &kept.aggregations, PartialEq::eq);
        let operators = places(&self.operators, &kept.operators, PartialEq::eq);
        let mut changed: Vec<Change> = changes(&aggregations, &self.aggregations, &kept.aggregations);
        changed.extend(changes(&operators, &self.operators, &kept.operators));
        // The cause is told.
        changed.sort_by_key(|change| change.difference.as_ref().is_none_or(|difference| difference.follows));
        if let Some(change) = changed.first() {
            return Err(Mismatch(change.to_string()));
        }
        let same_table =
            |now: &SourceShape, kept: &SourceShape| (&now.table, now.is_looked_up) == (&kept.table, kept.is_looked_up);
        Ok(Fit {
            sources: places(&self.sources, &kept.sources, same_table).of_now,
            aggregations: aggregations.of_now,
            operators: operators.of_now,
            sinks: sinks(&self.sinks, &kept.sinks)?,
        })
    }
}

/// Which parts belong together.
struct Places {
    /// For each part now: its place among those that were kept.
    of_now: Vec<Option<usize>>,
    /// Those that were kept and have no part now.
    left: Vec<usize>,
}

/// Those that are the same in all, in order, then those that are the same as far as `fits` says.
fn places<T: PartialEq>(now: &[T], kept: &[T], fits: impl Fn(&T, &T) -> bool) -> Places {
    let mut left: Vec<usize> = (0..kept.len()).collect();
    let mut of_now = vec![None; now.len()];
    let same = |now: &T, kept: &T| now == kept;
    for fits in [&same as &dyn Fn(&T, &T) -> bool, &fits] {
        for (place, now) in of_now.iter_mut().zip(now).filter(|(place, _)| place.is_none()) {
            if let Some(at) = left.iter().position(|&at| fits(now, &kept[at])) {
                *place = Some(left.remove(at));
            }
        }
    }
    Places { of_now, left }
}

/// A state that this plan does not keep as it was.
struct Change {
    name: String,
    /// `None`: there is nothing like it.
    difference: Option<Difference>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { name, difference } = self;
        match difference {
            None => write!(f, "the checkpoint has the state of the {name}, which the query does not have"),
            Some(Difference { field, now, kept, .. }) => {
                write!(f, "the {name} keeps other state than its checkpoint: {field} changed from {kept} to {now}")
            }
        }
    }
}

/// Each state that has no place, beside the one that is most like it.
fn changes(places: &Places, now: &[StateShape], kept: &[StateShape]) -> Vec<Change> {
    let mut new: Vec<usize> = (0..now.len()).filter(|&i| places.of_now[i].is_none()).collect();
    let change = |&at: &usize| {
        let candidates = new.iter().enumerate().filter(|(_, i)| now[**i].operator == kept[at].operator);
        let differences = candidates.map(|(place, &i)| (place, now[i].differences(&kept[at])));
        let nearest = differences.min_by_key(|(_, differences)| differences.len());
        let difference = nearest.and_then(|(place, differences)| {
            new.remove(place);
            differences.into_iter().min_by_key(|difference| difference.follows)
        });
        Change { name: kept[at].name(), difference }
    };
    places.left.iter().map(change).collect()
}

fn sinks(now: &[SinkShape], kept: &[SinkShape]) -> Result<Vec<Option<usize>>, Mismatch> {
    let Places { of_now, left } = places(now, kept, |_, _| false);
    let Some(&at) = left.first() else { return Ok(of_now) };
    let table = match kept[at].table.as_str() {
        "" => "the query".to_string(),
        table => format!("INSERT INTO {table}"),
    };
    let new = now.iter().zip(&of_now).find(|(now, place)| place.is_none() && now.table == kept[at].table);
    Err(Mismatch(match new {
        Some((now, _)) => {
            format!("{table} read {}, and reads {} now", texts(&kept[at].from), texts(&now.from))
        }
        None => format!("{table} is not among the inserts any more, and its last rows may not be committed"),
    }))
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
    fn differences(&self, other: &StateShape) -> Vec<Difference> {
        let StateShape { operator: _, parameters, keys, components, aggregates, order, condition, inputs } = self;
        let mut found = Differences(Vec::new());
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
        let InputShape { port, from, watermark, steps, filters, time, keys, values, types } = self;
        let texts = |meanings: &[Meaning]| texts(meanings);
        found.compare("what it reads", (from, &other.from), |from| from.text.clone());
        found.compare("its side", (port, &other.port), |port| if *port == 0 { "left".into() } else { "right".into() });
        found.compare("the watermark", (watermark, &other.watermark), |w| optional(w.as_ref()));
        found.compare("what multiplies its rows", (&steps[..], &other.steps), texts);
        let of = |input: &InputShape| {
            input.keys.iter().filter_map(|&key| input.values.get(key).cloned()).collect::<Vec<Meaning>>()
        };
        found.compare("its key", (&of(self)[..], &of(other)), texts);
        let (now, kept) = (without(filters, &other.filters), without(&other.filters, filters));
        found.compare("the filter before it", (&now[..], &kept), texts);
        found.compare("the time of its windows", (time, &other.time), |time| optional(time.as_ref()));
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
