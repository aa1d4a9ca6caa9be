//! Windowed aggregations over slices: rows update entries by key, and the trigger puts out the windows that are complete.

use super::windows::overlap_constants;
use crate::components::{ComponentOutput, ComponentUpdate, components_text, output_fields};
use crate::explain::shown::{Shown, condition, list};
use crate::expr::Expr;
use crate::shape::meaning::{parameters, type_text};
use crate::shape::{ComponentShape, StateShape};
use crate::window::{Slicing, Timeline, WindowAssigner};
use millstream_abi::{Accumulator, Combination, ShorterWindows};
use millstream_types::{DataType, Field, Schema};

/// A windowed aggregation: the state between two pipelines.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregation {
    /// Windows.
    pub assigner: WindowAssigner,
    /// What their times are.
    pub timeline: Timeline,
    /// Key columns.
    pub keys: Vec<Field>,
    /// Components in the order of the entry layout.
    pub components: Vec<Accumulator>,
    /// What is shown of them.
    pub outputs: Vec<ComponentOutput>,
    /// What was asked for: [`crate::aggregate::AggregateCall::outline`] of each call.
    pub calls: Vec<String>,
    /// Components that count only a shorter window with the same end.
    pub shorter: Option<ShorterWindows>,
    /// How the values of overlapping windows are made from their slices.
    pub combination: Combination,
}

impl Aggregation {
    /// Columns of a trigger's buffers: the keys, the outputs, then `window_start` and `window_end` as TIMESTAMP(3), unless
    /// all time is one window. With [`WindowAssigner::Attached`] the last key is the `window_start`, a TIMESTAMP(3), and
    /// `window_start` is not repeated: only `window_end` follows the outputs.
    pub fn output_schema(&self) -> Schema {
        let mut fields = self.keys.clone();
        fields.extend(output_fields(&self.outputs));
        if self.assigner == WindowAssigner::Attached {
            fields.push(Field::new("window_end", DataType::Timestamp(3), false));
        } else if self.assigner.has_window() {
            fields.push(Field::new("window_start", DataType::Timestamp(3), false));
            fields.push(Field::new("window_end", DataType::Timestamp(3), false));
        }
        Schema::new(fields)
    }

    /// What EXPLAIN says of it. `merge`: how its tables are merged. `updates`: what rows do to its components.
    pub(crate) fn text(&self, merge: &str, updates: &[ComponentUpdate]) -> String {
        let keys: Vec<String> = self.keys.iter().map(|k| format!("{} {}", k.name, k.data_type)).collect();
        let window = self.assigner.text("time") + &self.timeline.text();
        let components = components_text(&self.components, updates);
        let combination = match self.assigner {
            WindowAssigner::Overlap(overlap) => {
                format!(", combine {} over slices of {} ms", how(self.combination), overlap.slicing().size_ms)
            }
            _ => String::new(),
        };
        let shorter = self.shorter.as_ref().map_or(String::new(), |shorter| {
            format!(", of components {} the last {} ms", shorter_text(shorter), shorter.size_ms)
        });
        format!("window {window}, keys [{}], {components}{shorter}, merge {merge}{combination}", keys.join(", "))
    }

    /// What it keeps, without where its rows come from.
    pub(crate) fn state(&self) -> StateShape {
        let component =
            |accumulator: &Accumulator| ComponentShape { accumulator: accumulator.name(), argument: None, guard: None };
        let mut constants = window_constants(self.assigner);
        if let Some(shorter) = &self.shorter {
            constants.push(("shorter_ms", shorter.size_ms.to_string()));
            constants.push(("shorter_components", shorter_text(shorter)));
        }
        StateShape {
            operator: "windowed aggregation".into(),
            parameters: parameters(constants, self.timeline),
            keys: self.keys.iter().map(|key| type_text(&key.data_type, key.nullable)).collect(),
            components: self.components.iter().map(component).collect(),
            aggregates: self.calls.clone(),
            ..StateShape::default()
        }
    }
}

/// What EXPLAIN says of the end of a pipeline that updates aggregation `index`, over columns of `schema`.
pub(crate) fn update_text(
    index: usize,
    time: Option<&Expr>,
    keys: &[Expr],
    updates: &[ComponentUpdate],
    schema: &Schema,
) -> String {
    let time = time.map_or(String::new(), |t| format!(", time {}", Shown(t, schema)));
    let update = |u: &ComponentUpdate| {
        let argument = u.argument.as_ref().map_or("*".to_string(), |a| Shown(a, schema).to_string());
        argument + &condition(u.guard.as_ref(), schema)
    };
    let updates: Vec<String> = updates.iter().map(update).collect();
    format!("update aggregation {index}{time}, keys {}, components [{}]", list(keys, schema), updates.join(", "))
}

/// The numbers of the components of shorter windows.
fn shorter_text(shorter: &ShorterWindows) -> String {
    let numbers = shorter.components.iter().enumerate().filter(|(_, is_shorter)| **is_shorter);
    format!("{:?}", numbers.map(|(number, _)| number).collect::<Vec<_>>())
}

fn how(combination: Combination) -> &'static str {
    match combination {
        Combination::Recompute => "recompute",
        Combination::Subtract => "subtract",
        Combination::TwoStacks => "two stacks",
    }
}

/// The constants of a window by their names in checkpoints.
fn window_constants(assigner: WindowAssigner) -> Vec<(&'static str, String)> {
    match assigner {
        WindowAssigner::Tumble(Slicing { size_ms, offset_ms }) => {
            vec![("window", "TUMBLE".into()), ("size_ms", size_ms.to_string()), ("offset_ms", offset_ms.to_string())]
        }
        WindowAssigner::Overlap(overlap) => overlap_constants(overlap),
        WindowAssigner::Session { gap_ms } => vec![("window", "SESSION".into()), ("gap_ms", gap_ms.to_string())],
        WindowAssigner::Count { size, slide } => {
            vec![("window", "COUNT".into()), ("size_rows", size.to_string()), ("slide_rows", slide.to_string())]
        }
        WindowAssigner::Attached => vec![("window", "of each row".into())],
        WindowAssigner::Unbounded { .. } => vec![("window", "all rows so far".into())],
        WindowAssigner::Whole => vec![("window", "whole input".into())],
    }
}
