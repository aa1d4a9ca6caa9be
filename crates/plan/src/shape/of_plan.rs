//! From a plan to what it keeps.

use super::meaning::{Digest, Digester, Known, field_of, of_expr, parameters, shown, type_text};
use super::{ComponentShape, InputShape, Meaning, PlanShape, SHAPE_VERSION, SinkShape, SourceShape, StateShape};
use crate::expansion::Brought;
use crate::explain::shown::Shown;
use crate::expr::Expr;
use crate::logical::Table;
use crate::operators::filter::conjuncts;
use crate::pipeline::*;
use millstream_abi::Accumulator;
use millstream_types::{DataType, Field, Schema};

impl PlanShape {
    /// Of a plan.
    pub fn of(plan: &QueryPlan) -> PlanShape {
        let mut walk = Walk {
            plan,
            aggregations: plan.aggregations.iter().map(Aggregation::state).collect(),
            inputs: vec![Vec::new(); plan.operators.len()],
            sorts: vec![Vec::new(); plan.sorts.len()],
            lookups: vec![Vec::new(); plan.lookups.len()],
            sinks: vec![Vec::new(); plan.sinks.len()],
            written: vec![Vec::new(); plan.sinks.len()],
        };
        // Every input of a part comes before the pipelines that read its output.
        plan.pipelines.iter().for_each(|pipeline| walk.pipeline(pipeline));
        let operators = (0..plan.operators.len()).map(|operator| walk.operator(operator)).collect();
        let Walk { aggregations, sinks, written, .. } = walk;
        let last = plan.sources.iter().map(|source| source.phase).max().unwrap_or(0);
        let source = |source: &SourcePlan| SourceShape {
            from: of_source(source).shown(source.name()),
            is_looked_up: source.phase < last,
        };
        let sink = |((sink, from), mut written): ((&SinkPlan, Vec<Meaning>), Vec<Digest>)| {
            written.sort_unstable();
            SinkShape {
                table: sink.table.as_ref().map_or_else(String::new, |table| table.name.clone()),
                from,
                rows: Digester::new("rows").digests(written).end().shown("").is,
            }
        };
        PlanShape {
            version: SHAPE_VERSION,
            time_zone: plan.time_zone.to_string(),
            sources: plan.sources.iter().map(source).collect(),
            aggregations,
            operators,
            sinks: plan.sinks.iter().zip(sinks).zip(written).map(sink).collect(),
        }
    }
}

/// What has been seen of a plan.
struct Walk<'a> {
    plan: &'a QueryPlan,
    aggregations: Vec<StateShape>,
    /// What comes to each keyed operator.
    inputs: Vec<Vec<InputShape>>,
    /// What comes to each sort.
    sorts: Vec<Vec<InputShape>>,
    /// What each lookup table is made of.
    lookups: Vec<Vec<Digest>>,
    sinks: Vec<Vec<Meaning>>,
    /// What the pipelines that end in each sink write.
    written: Vec<Vec<Digest>>,
}

/// The rows of a pipeline, as far as it has been followed.
struct Rows {
    schema: Schema,
    columns: Vec<Known>,
    input: InputShape,
}

impl Walk<'_> {
    fn pipeline(&mut self, pipeline: &Pipeline) {
        let mut rows = self.input(pipeline);
        for operator in &pipeline.operators {
            match operator {
                Operator::Filter(predicate) => rows.filter(predicate),
                Operator::Project(columns) => rows.project(columns),
                Operator::FlatMap(flat_map) => self.flat_map(flat_map, &mut rows),
            }
        }
        let Rows { schema, columns, mut input } = rows;
        input.filters.sort_by(|a, b| a.is.cmp(&b.is));
        input.filters.dedup();
        match &pipeline.end {
            PipelineEnd::Sink(sink) => {
                input.take_columns(&schema, &columns);
                self.written[*sink].push(of_input(&input));
                add(&mut self.sinks[*sink], input.from, |from| from.is.clone());
            }
            PipelineEnd::Sort { sort } => {
                input.take_columns(&schema, &columns);
                add(&mut self.sorts[*sort], input, sorted_by);
            }
            PipelineEnd::Build { lookup } => {
                input.take_columns(&schema, &columns);
                self.lookups[*lookup].push(of_input(&input));
                self.lookups[*lookup].sort_unstable();
            }
            PipelineEnd::Exchange { operator, port } => {
                input.take_columns(&schema, &columns);
                let KeyedOperator { kind, inputs, .. } = &self.plan.operators[*operator];
                let KeyedInput { keys, time, reach_ms, .. } = &inputs[*port];
                if kind.takes_arrivals() {
                    // It knows no time; a table has a watermark in the plan if some other part needs one.
                    input.watermark = None;
                }
                (input.port, input.late_after_ms) = (*port, *reach_ms);
                input.keys.clone_from(keys);
                input.time = time.and_then(|time| input.values.get(time).cloned());
                add(&mut self.inputs[*operator], input, sorted_by);
            }
            PipelineEnd::Aggregate { aggregation, time, keys, updates } => {
                input.time = time.as_ref().map(|time| shown(time, &columns, &schema));
                input.keys = (0..keys.len()).collect();
                keys.iter().for_each(|key| input.take(key, &columns, &schema));
                for ComponentUpdate { argument, guard } in updates {
                    for value in [argument, guard] {
                        input.take(value.as_ref().unwrap_or(&Expr::boolean(true)), &columns, &schema);
                    }
                }
                add(&mut self.aggregations[*aggregation].inputs, input, sorted_by);
            }
        }
    }

    /// What a pipeline begins with.
    fn input(&self, pipeline: &Pipeline) -> Rows {
        let mut schema = pipeline.schema.clone();
        let (columns, input) = match pipeline.input {
            PipelineInput::Source(source) => {
                let source = &self.plan.sources[source];
                let (from, watermark) = (of_source(source).shown(source.name()), watermark(source));
                let columns = known_columns(source, schema.fields.len());
                (columns, InputShape { from, watermark, ..InputShape::default() })
            }
            PipelineInput::Aggregation(aggregation) => {
                let Aggregation { keys, outputs, .. } = &self.plan.aggregations[aggregation];
                output(&self.aggregations[aggregation], (keys.len(), true), outputs, &mut schema)
            }
            PipelineInput::Operator(operator) => {
                let KeyedOperator { kind, keys, inputs, .. } = &self.plan.operators[operator];
                let kind = kind.keyed();
                let outputs = kind.aggregates().map_or(&[][..], |aggregates| &aggregates.outputs);
                let first = match kind.shows_keys() {
                    true => keys.len(),
                    false => inputs.iter().map(|input| input.schema.fields.len()).sum(),
                };
                output(&self.operator(operator), (first, kind.shows_keys()), outputs, &mut schema)
            }
            PipelineInput::Sort(sort) => output(&self.sort(sort), (schema.fields.len(), false), &[], &mut schema),
        };
        Rows { schema, columns, input }
    }

    /// A sort as if it kept something. It does not: a query has no checkpoint while its rows are on their way through one.
    fn sort(&self, sort: usize) -> StateShape {
        let (inputs, sort) = (self.sorts[sort].clone(), &self.plan.sorts[sort]);
        let count = sort.count.map_or_else(|| "all".to_string(), |count| count.to_string());
        StateShape {
            operator: "sort".into(),
            parameters: [("offset".to_string(), sort.offset.to_string()), ("rows".to_string(), count)].into(),
            order: sort.order.iter().map(sort_text).collect(),
            inputs,
            ..StateShape::default()
        }
    }

    /// What a keyed operator keeps, with the inputs that have been seen. Their columns have the names of what comes in.
    fn operator(&self, operator: usize) -> StateShape {
        let (operator, inputs) = (&self.plan.operators[operator], self.inputs[operator].clone());
        let mut fields = Vec::new();
        for (port, input) in operator.inputs.iter().enumerate() {
            let first = inputs.iter().find(|shape| shape.port == port);
            fields.extend(input.schema.fields.iter().enumerate().map(|(i, field)| {
                let name = first.and_then(|shape| shape.values.get(i)).map_or(&field.name, |value| &value.text);
                Field::new(name, field.data_type.clone(), field.nullable)
            }));
        }
        let both = Schema::new(fields);
        let over_positions = |expr: &Expr| shown(expr, &[], &both);
        let kind = operator.kind.keyed();
        let (name, mut constants) = kind.state();
        let by = |by: &Vec<usize>| by.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        constants.extend(operator.partitioned_by.as_ref().map(|keys| ("partitioned_by_keys", by(keys))));
        let (components, aggregates) = kind.aggregates().map_or_else(Default::default, |aggregates| {
            let component = |(accumulator, update): (&Accumulator, &ComponentUpdate)| ComponentShape {
                accumulator: accumulator.name(),
                argument: update.argument.as_ref().map(over_positions),
                guard: update.guard.as_ref().map(over_positions),
            };
            let components = aggregates.components.iter().zip(&aggregates.updates).map(component);
            (components.collect(), aggregates.calls.clone())
        });
        StateShape {
            operator: name.into(),
            parameters: parameters(constants, operator.timeline),
            keys: operator.keys.iter().map(|key| type_text(&key.data_type, key.nullable)).collect(),
            components,
            aggregates,
            order: kind.order().iter().map(sort_text).collect(),
            condition: kind.residual().map(over_positions),
            inputs,
        }
    }

    fn flat_map(&self, flat_map: &FlatMap, rows: &mut Rows) {
        let brought = Brought { columns: &rows.columns, lookups: &self.plan.lookups, made_of: &self.lookups };
        let (name, digester) = flat_map.expansion().step(&brought);
        let arguments = flat_map.arguments();
        let step = digester.digests(arguments.iter().map(|argument| of_expr(argument, &rows.columns))).end();
        let arguments: Vec<String> = arguments.iter().map(|a| Shown(a, &rows.schema).to_string()).collect();
        rows.input.steps.push(step.shown(format_args!("{name} {}", arguments.join(", "))));
        let appended = flat_map.appended(&self.plan.lookups);
        let column = |i: usize| Known::Value(Digester::new("appended").digest(step).number(i as i64).end());
        rows.columns.extend((0..appended.len()).map(column));
        rows.schema.fields.extend(appended);
    }
}

impl Rows {
    /// Each condition by itself: how they are joined, and their order, mean nothing.
    fn filter(&mut self, predicate: &Expr) {
        let conditions =
            conjuncts(predicate).into_iter().map(|condition| shown(condition, &self.columns, &self.schema));
        self.input.filters.extend(conditions);
    }

    fn project(&mut self, columns: &[Expr]) {
        let shown: Vec<(Digest, String)> = columns
            .iter()
            .map(|e| {
                let digest = of_expr(e, &self.columns);
                (digest, digest.shown(Shown(e, &self.schema)).text)
            })
            .collect();
        let field = |((_, name), e): (&(Digest, String), &Expr)| Field::new(name, e.data_type.clone(), e.nullable);
        self.schema = Schema::new(shown.iter().zip(columns).map(field).collect());
        self.columns = shown.into_iter().map(|(digest, _)| Known::Value(digest)).collect();
    }
}

impl InputShape {
    fn take(&mut self, value: &Expr, columns: &[Known], schema: &Schema) {
        self.values.push(shown(value, columns, schema));
        self.types.push(type_text(&value.data_type, value.nullable));
    }

    /// All columns.
    fn take_columns(&mut self, schema: &Schema, columns: &[Known]) {
        for (field, known) in schema.fields.iter().zip(columns) {
            self.values.push(known.of_type(&field.data_type).shown(&field.name));
            self.types.push(type_text(&field.data_type, field.nullable));
        }
    }
}

/// Puts an item where its key belongs.
fn add<T>(list: &mut Vec<T>, item: T, key: impl Fn(&T) -> String) {
    let wanted = key(&item);
    let at = list.partition_point(|other| key(other) <= wanted);
    list.insert(at, item);
}

fn sorted_by(input: &InputShape) -> String {
    format!("{:08} {}", input.port, of_input(input).shown("").is)
}

fn of_source(source: &SourcePlan) -> Digest {
    match &source.scan {
        ScanKind::Table(table) => Digester::new("table").text(&table.name).end(),
        ScanKind::Values(rows) => {
            let row = |row: &Vec<Expr>| Digester::new("row").digests(row.iter().map(|e| of_expr(e, &[]))).end();
            Digester::new("values").digests(rows.iter().map(row)).end()
        }
    }
}

/// The columns of a source's buffers; behind the last one stands the event time, where that is computed.
fn known_columns(source: &SourcePlan, width: usize) -> Vec<Known> {
    // Once: of constant rows it is of all of them.
    let of_source = of_source(source);
    let begun = |what: &str| Digester::new(what).digest(of_source);
    let column = |(i, column): (usize, &SourceColumn)| {
        Known::Column(match (&column.origin, &source.scan) {
            (ColumnOrigin::Path(path), ScanKind::Table(table)) => of_path(begun("column"), table, path),
            (ColumnOrigin::Path(_), ScanKind::Values(_)) => begun("constant").number(i as i64).end(),
            (ColumnOrigin::Metadata(key), _) => begun("metadata").text(key).end(),
        })
    };
    let mut columns: Vec<Known> = source.columns.iter().enumerate().map(column).collect();
    if let Some(watermark) = source.watermark.as_ref().filter(|_| columns.len() < width) {
        columns.push(Known::Value(of_expr(&watermark.time, &columns)));
    }
    columns
}

/// A column of a table by its name, then fields by theirs.
fn of_path(begun: Digester, table: &Table, path: &[usize]) -> Digest {
    let Some((first, fields)) = path.split_first() else { return begun.end() };
    let Some(column) = table.columns.get(*first) else { return begun.number(*first as i64).end() };
    let whole = (begun.text(&column.field.name).end(), column.field.data_type.clone());
    let (digest, _) = fields.iter().fold(whole, |(row, data_type), &field| {
        let inner = match &data_type {
            DataType::Row(fields) => fields.get(field).map_or(DataType::Null, |field| field.data_type.clone()),
            other => other.clone(),
        };
        (field_of(row, &data_type, field), inner)
    });
    digest
}

fn watermark(source: &SourcePlan) -> Option<Meaning> {
    let watermark = source.watermark.as_ref()?;
    let schema = source.output_schema();
    let time = Shown(&watermark.time, &schema);
    let columns = known_columns(source, source.columns.len());
    let digester = Digester::new("watermark").digest(of_expr(&watermark.time, &columns));
    Some(match &watermark.rule {
        WatermarkRule::Delay(ms) => digester.number(*ms).end().shown(format_args!("{time}, {ms} ms behind")),
        WatermarkRule::Expression(e) => {
            digester.digest(of_expr(e, &columns)).end().shown(format_args!("{time}, watermark {}", Shown(e, &schema)))
        }
        WatermarkRule::ProcessingTime => digester.text("processing time").end().shown("processing time"),
    })
}

/// What the columns of a state's output mean, and where they are from. Before `first` are the keys, or all columns that
/// were brought, with the names of what came in; then comes what shows accumulators.
fn output(
    state: &StateShape,
    (first, shows_keys): (usize, bool),
    outputs: &[ComponentOutput],
    schema: &mut Schema,
) -> (Vec<Known>, InputShape) {
    let ports = (0..2).filter_map(|port| state.inputs.iter().find(|input| input.port == port));
    let brought: Vec<&Meaning> = match shows_keys {
        true => ports.flat_map(InputShape::key_values).collect(),
        false => ports.flat_map(|input| &input.values).collect(),
    };
    for (field, meaning) in schema.fields.iter_mut().zip(brought) {
        field.name.clone_from(&meaning.text);
    }
    let digest = of_state(state);
    // The meaning of a column that shows an accumulator: which one it shows, and how.
    let column = |i: usize| {
        let column = Digester::new("output").digest(digest);
        Known::Value(match i.checked_sub(first).map(|i| outputs.get(i).ok_or_else(|| i - outputs.len())) {
            Some(Ok(output)) => column.number(output.component as i64).text(&output.finish.name()).end(),
            // Columns before the outputs are counted from the first one, those behind them from the last.
            Some(Err(behind)) => column.text("behind").number(behind as i64).end(),
            None => column.text("before").number(i as i64).end(),
        })
    };
    let columns = (0..schema.fields.len()).map(column).collect();
    (columns, InputShape { from: digest.shown(state.name()), ..InputShape::default() })
}

fn sort_text(column: &SortColumn) -> String {
    let direction = if column.descending { "DESC" } else { "ASC" };
    let nulls = if column.nulls_first { "FIRST" } else { "LAST" };
    format!("column {} {direction} NULLS {nulls}", column.column)
}

/// What a state means to those that read its output.
fn of_state(state: &StateShape) -> Digest {
    let StateShape { operator, parameters, keys, components, aggregates, order, condition, inputs } = state;
    let texts = |digester: Digester, texts: &[String]| {
        let counted = digester.number(texts.len() as i64);
        texts.iter().fold(counted, |digester, text| digester.text(text))
    };
    let digester = Digester::new("state").text(operator).number(parameters.len() as i64);
    let digester = parameters.iter().fold(digester, |d, (name, value)| d.text(name).text(value));
    let digester = texts(digester, keys);
    let digester = components.iter().fold(digester.number(components.len() as i64), |digester, component| {
        let digester = meanings(digester.text(&component.accumulator), &component.argument);
        meanings(digester, &component.guard)
    });
    let digester = meanings(texts(texts(digester, aggregates), order), condition);
    digester.digests(inputs.iter().map(of_input)).end()
}

fn of_input(input: &InputShape) -> Digest {
    let InputShape { port, from, watermark, steps, filters, time, late_after_ms, keys, values, types } = input;
    let digester = meanings(Digester::new("input").number(*port as i64), [from]);
    let digester = meanings(meanings(meanings(digester, watermark), steps), filters);
    let late = late_after_ms.map_or_else(|| "none".to_string(), |ms| ms.to_string());
    let digester = keys
        .iter()
        .fold(meanings(digester, time).text(&late).number(keys.len() as i64), |d, &key| d.number(key as i64));
    types.iter().fold(meanings(digester, values), |digester, text| digester.text(text)).end()
}

fn meanings<'a>(digester: Digester, meanings: impl IntoIterator<Item = &'a Meaning>) -> Digester {
    let all: Vec<&Meaning> = meanings.into_iter().collect();
    let counted = digester.number(all.len() as i64);
    all.into_iter().fold(counted, |digester, meaning| digester.text(&meaning.is))
}
