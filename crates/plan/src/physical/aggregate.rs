//! Windowed aggregations: over shared slices where windows are cut out of time, as keyed operators where they are not.

use super::Planner;
use super::branch::Branch;
use super::expressions::{columns_from, columns_of, is_below, is_column, is_window_time, same_computation};
use super::payload::Payload;
use crate::aggregate::{AggregateCall, Components};
use crate::expr::{Expr, ExprKind};
use crate::logical::{Rel, Window};
use crate::pipeline::*;
use crate::window::{Overlap, Timeline, WindowAssigner};
use millstream_abi::ShorterWindows;
use millstream_types::{DataType, Diagnostic, Field, Schema, Value, code};

/// One branch of the input of an aggregation, with its expressions over the columns after the branch's operators.
struct Input {
    branch: Branch,
    time: Option<Expr>,
    start: Option<Expr>,
}

impl Planner {
    /// The branch of an aggregation's results.
    pub(super) fn aggregate(&mut self, rel: &Rel) -> Result<Branch, Diagnostic> {
        let Rel::Aggregate { input, window, keys, aggregates } = rel else {
            return Err(Diagnostic::bug("not an aggregation"));
        };
        let attached = usize::from(window.assigner == WindowAssigner::Attached);
        if keys.len() + attached > millstream_abi::EntryLayout::MAX_KEYS {
            return Err(Diagnostic::new(code::UNSUPPORTED, "more than 64 grouping columns")
                .advise("combine some of them into one key, for instance with CONCAT_WS"));
        }
        match (window.assigner, &window.time) {
            (WindowAssigner::Session { .. } | WindowAssigner::Count { .. }, Some(time)) => {
                self.slot_aggregate(input, window.assigner, (time, window.timeline), keys, aggregates)
            }
            (WindowAssigner::Unbounded { ttl_ms }, _) => {
                let ttl_ms = ttl_ms.map_or(self.ttl_ms, |ms| Some(ms).filter(|&ms| ms > 0));
                self.group(input, keys, aggregates, ttl_ms)
            }
            _ => match windows_of_keys(input, window, keys, aggregates) {
                Some(Direct { input, assigner, time, timeline, keys, aggregates }) => {
                    self.slot_aggregate(input, assigner, (time, timeline), &keys, &aggregates)
                }
                None => self.slice_aggregate(input, window, keys, aggregates),
            },
        }
    }

    fn slice_aggregate(
        &mut self,
        input: &Rel,
        window: &Window,
        keys: &[(Expr, String)],
        aggregates: &[(AggregateCall, String)],
    ) -> Result<Branch, Diagnostic> {
        let mut inputs: Vec<Input> = Vec::new();
        for mut branch in self.branches(input)? {
            branch.settle();
            if let Some(time) = &window.time {
                self.use_time(&mut branch, Some(time));
            }
            let over = |e: &Expr| e.clone().substitute(&branch.columns);
            let (time, start) = (window.time.as_ref().map(over), window.start.as_ref().map(over));
            inputs.push(Input { branch, time, start });
        }
        let mut assigner = window.assigner;
        if let Some(windows) = take_windows_over(&mut inputs, window, keys, aggregates) {
            assigner = WindowAssigner::Overlap(windows);
        }
        let is_attached = assigner == WindowAssigner::Attached;
        let mut fields: Vec<Field> = keys.iter().map(|(e, name)| e.field(name)).collect();
        let mut columns = columns_of(&Schema::new(fields.clone()));
        if is_attached {
            fields.push(Field::new("window_start", DataType::Timestamp(3), false));
        }
        let first = fields.len();
        let (components, results) = Components::of(aggregates, first);
        columns.extend(results);
        let aggregation = self.aggregations.len();
        for Input { branch, time, start } in inputs {
            if let Some(time) = &time {
                self.route_late(&branch, super::late_rows::of_slices(assigner, time, window.timeline));
            }
            self.end(branch, |below| {
                let over = |e: &Expr| e.clone().substitute(&below);
                let update = |u: &ComponentUpdate| ComponentUpdate {
                    argument: u.argument.as_ref().map(over),
                    guard: u.guard.as_ref().map(over).and_then(guard_of_branch),
                };
                let start = start.filter(|_| is_attached).map(|s| s.cast_to(DataType::Timestamp(3)));
                let end = PipelineEnd::Aggregate {
                    aggregation,
                    time,
                    keys: keys.iter().map(|(e, _)| over(e)).chain(start).collect(),
                    updates: components.list.iter().map(|c| update(&c.1)).collect(),
                };
                (None, end)
            });
        }
        let bounds = first + components.outputs.len();
        if let Some(time) = &window.time {
            columns.extend(match is_attached {
                // The start of an attached window is a key.
                true => {
                    let start = Expr::column(first - 1, DataType::Timestamp(3), false);
                    window_with_start(start, bounds, &time.data_type)
                }
                false => window_columns(bounds, &time.data_type),
            });
        }
        let kinds: Vec<_> = components.list.iter().map(|c| c.0).collect();
        let shorter = components.shorter();
        let combination = match assigner {
            WindowAssigner::Overlap(windows) => {
                let longest = match windows {
                    Overlap::Hop { size_ms, .. } | Overlap::Cumulate { size_ms, .. } => size_ms,
                };
                let of_whole = ShorterWindows::others(shorter.as_ref(), kinds.iter().copied());
                Combination::choose(of_whole, longest / windows.slicing().size_ms)
            }
            _ => Combination::Recompute,
        };
        self.aggregations.push(Aggregation {
            assigner,
            timeline: window.timeline,
            keys: fields,
            components: kinds,
            outputs: components.outputs,
            calls: components.calls,
            shorter,
            combination,
        });
        Ok(Branch::new(PipelineInput::Aggregation(aggregation), columns))
    }

    /// Sessions and count windows of `keys`, over `input`.
    fn slot_aggregate(
        &mut self,
        input: &Rel,
        assigner: WindowAssigner,
        (time, timeline): (&Expr, Timeline),
        keys: &[(Expr, String)],
        aggregates: &[(AggregateCall, String)],
    ) -> Result<Branch, Diagnostic> {
        let mut payload = Payload::new(vec![], keys.iter().map(|(e, _)| e), Some(time));
        let (components, results) = Components::of(aggregates, keys.len());
        let slots = payload.slots(components);
        let key_fields: Vec<Field> = keys.iter().map(|(e, name)| e.field(name)).collect();
        let mut columns = columns_from(0, &key_fields);
        columns.extend(results);
        columns.extend(window_columns(keys.len() + slots.outputs.len(), &time.data_type));
        let kind = windows_by_key(assigner, Some(slots))?;
        self.keyed(input, kind, timeline, &payload, key_fields, columns)
    }

    /// Rows with their sessions or count windows.
    pub(super) fn windowed_rows(&mut self, rel: &Rel) -> Result<Branch, Diagnostic> {
        let Rel::Windowed { input, assigner, time, timeline, partition } = rel else {
            return Err(Diagnostic::bug("not a window table function"));
        };
        let schema = input.schema();
        let payload = Payload::new(columns_of(&schema), partition, Some(time));
        let mut columns = columns_of(&schema);
        columns.extend(window_columns(payload.columns().len(), &time.data_type));
        let kind = windows_by_key(*assigner, None)?;
        self.keyed(input, kind, *timeline, &payload, payload.key_fields(), columns)
    }
}

/// The operator that makes sessions or count windows.
fn windows_by_key(assigner: WindowAssigner, aggregates: Option<SlotAggregates>) -> Result<KeyedKind, Diagnostic> {
    match assigner {
        WindowAssigner::Session { gap_ms } => Ok(KeyedKind::Sessions(Sessions { gap_ms, aggregates })),
        WindowAssigner::Count { size, slide } => Ok(KeyedKind::CountWindows(CountWindows { size, slide, aggregates })),
        _ => Err(Diagnostic::bug("only sessions and count windows are made by key")),
    }
}

/// An aggregation by session or count window whose groups are exactly those whose windows they are.
struct Direct<'a> {
    input: &'a Rel,
    assigner: WindowAssigner,
    time: &'a Expr,
    timeline: Timeline,
    keys: Vec<(Expr, String)>,
    aggregates: Vec<(AggregateCall, String)>,
}

/// Looks through the projections below an aggregation for the window table function whose windows it groups by.
fn windows_of_keys<'a>(
    input: &'a Rel,
    window: &Window,
    keys: &[(Expr, String)],
    aggregates: &[(AggregateCall, String)],
) -> Option<Direct<'a>> {
    if window.assigner != WindowAssigner::Attached {
        return None;
    }
    let mut below = input;
    let mut columns = columns_of(&input.schema());
    while let Rel::Project { input, columns: projected } = below {
        let projected: Vec<Expr> = projected.iter().map(|(e, _)| e.clone()).collect();
        columns = columns.into_iter().map(|e| e.substitute(&projected)).collect();
        below = input;
    }
    let Rel::Windowed { input, assigner, time, timeline, partition } = below else { return None };
    if !matches!(assigner, WindowAssigner::Session { .. } | WindowAssigner::Count { .. }) {
        return None;
    }
    let width = input.schema().fields.len();
    let over = |e: &Expr| e.clone().substitute(&columns);
    let keys: Vec<(Expr, String)> = keys.iter().map(|(e, name)| (over(e), name.clone())).collect();
    let mut aggregates = aggregates.to_vec();
    for (call, _) in &mut aggregates {
        call.expressions_mut().for_each(|e| *e = over(e));
    }
    let is_bound = |e: &Option<Expr>, column: usize| e.as_ref().is_some_and(|e| is_column(&over(e), column));
    let are_below = keys.iter().all(|(e, _)| is_below(e, width))
        && aggregates.iter().flat_map(|(call, _)| call.expressions()).all(|e| is_below(e, width));
    let same = |a: &Expr, b: &Expr| same_computation(a, b);
    let keys_are_partition = partition.iter().all(|p| keys.iter().any(|(k, _)| same(p, k)))
        && keys.iter().all(|(k, _)| partition.iter().any(|p| same(p, k)));
    let fits = is_bound(&window.start, width)
        && window.time.as_ref().is_some_and(|e| is_window_time(&over(e), width))
        && keys_are_partition
        && are_below;
    fits.then_some(Direct { input, assigner: *assigner, time, timeline: *timeline, keys, aggregates })
}

/// A guard without what always holds in a branch; one that never holds is FALSE.
fn guard_of_branch(guard: Expr) -> Option<Expr> {
    let is = |e: &Expr, value: bool| e.kind == ExprKind::Literal(Value::Boolean(value));
    match guard.kind {
        _ if is(&guard, true) => None,
        ExprKind::And(conditions) => {
            if conditions.iter().any(|e| is(e, false)) {
                return Some(Expr::boolean(false));
            }
            let mut left: Vec<Expr> = conditions.into_iter().filter(|e| !is(e, true)).collect();
            match left.len() {
                0 | 1 => left.pop(),
                _ => Some(Expr::all(left)),
            }
        }
        kind => Some(Expr { kind, ..guard }),
    }
}

/// When every branch ends in the same expansion into overlapping windows, and nothing but the aggregation uses the
/// windows, the aggregation shares slices instead: the expansions are removed.
fn take_windows_over(
    inputs: &mut [Input],
    window: &Window,
    keys: &[(Expr, String)],
    aggregates: &[(AggregateCall, String)],
) -> Option<Overlap> {
    if window.assigner != WindowAssigner::Attached {
        return None;
    }
    let mut found = None;
    let mut places = Vec::new();
    for input in inputs.iter() {
        let operators = &input.branch.operators;
        let place = operators.iter().rposition(|o| matches!(o, Operator::FlatMap(_)))?;
        let (Some(Operator::Project(below)), Operator::FlatMap(FlatMap::Windows(Windows { windows, .. }))) =
            (operators.get(place.checked_sub(1)?), &operators[place])
        else {
            return None;
        };
        let width = below.len();
        let over = |e: &Expr| e.clone().substitute(&input.branch.columns);
        let values = keys.iter().map(|(e, _)| e).chain(aggregates.iter().flat_map(|(call, _)| call.expressions()));
        let only_filters = operators[place + 1..]
            .iter()
            .all(|o| matches!(o, Operator::Filter(predicate) if is_below(predicate, width)));
        let fits = only_filters
            && values.into_iter().all(|e| is_below(&over(e), width))
            && input.start.as_ref().is_some_and(|e| is_column(e, width))
            && input.time.as_ref().is_some_and(|e| is_window_time(e, width))
            && *found.get_or_insert(*windows) == *windows;
        if !fits {
            return None;
        }
        places.push(place);
    }
    for (input, place) in inputs.iter_mut().zip(places) {
        if let Operator::FlatMap(FlatMap::Windows(Windows { time, .. })) = input.branch.operators.remove(place) {
            input.time = Some(time);
        }
    }
    found
}

/// `window_start`, `window_end` and `window_time` over an output whose two window columns begin at `first`.
fn window_columns(first: usize, time_type: &DataType) -> [Expr; 3] {
    // The bounds of count windows over TIMESTAMP_LTZ are instants, which are shown in local time.
    window_with_start(Expr::column(first, time_type.clone(), false), first + 1, time_type)
}

/// The same of windows that start there and end at column `end`.
fn window_with_start(start: Expr, end: usize, time_type: &DataType) -> [Expr; 3] {
    let end = Expr::column(end, time_type.clone(), false);
    let time = end.clone().plus_ms(-1);
    [start.cast_to(DataType::Timestamp(3)), end.cast_to(DataType::Timestamp(3)), time]
}
