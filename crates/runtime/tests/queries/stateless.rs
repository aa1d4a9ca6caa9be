//! Pipelines from a source straight to a sink: order, limits, statement sets, constant rows, statistics.

use crate::support::*;
use millstream_plan::expr::{CompareOp, Expr, ExprKind};
use millstream_plan::pipeline::*;
use millstream_runtime::*;
use millstream_types::{DataType, Value};
use std::sync::Arc;

/// Rows with their number as key.
fn numbered(from: i64, rows: i64) -> Vec<Row> {
    (from..from + rows).map(|i| (Some(i), i, None)).collect()
}

fn keys(rows: &[String]) -> Vec<i64> {
    rows.iter().map(|r| r.split(',').nth(1).unwrap().parse().unwrap()).collect()
}

#[test]
fn rows_come_in_the_order_of_their_split() {
    for workers in [1, 2, 8] {
        for buffer_rows in [1, 7, 0] {
            let splits = [numbered(0, 1000), numbered(10_000, 700), vec![], numbered(20_000, 1)];
            let source = MemorySource::of(&splits, 30);
            let (rows, stats) = run_to_end(copy_plan(None), source, config(workers, buffer_rows));
            let keys = keys(&rows);
            assert_eq!(keys.len(), 1701);
            for split in &splits {
                let of_split: Vec<i64> = keys.iter().copied().filter(|k| split.iter().any(|row| row.1 == *k)).collect();
                assert!(of_split.is_sorted());
                assert_eq!(of_split.len(), split.len());
            }
            assert_eq!((stats.rows_in, stats.rows_out, stats.bytes_in), (1701, 1701, (34 + 24 + 1) * 10));
        }
    }
}

#[test]
fn many_more_splits_than_readers_are_all_read() {
    let splits: Vec<Vec<Row>> = (0..100).map(|i| numbered(i * 10, 10)).collect();
    let few = RunConfig { readers: 2, chunks_in_flight: 2, ..config(2, 1) };
    let (rows, _) = run_to_end(copy_plan(None), MemorySource::of(&splits, 3), few);
    let mut keys = keys(&rows);
    keys.sort_unstable();
    assert_eq!(keys, (0..1000).collect::<Vec<i64>>());
}

#[test]
fn a_limit_gives_exactly_the_first_rows_and_ends_an_endless_query() {
    for limit in [0, 1, 100, 101] {
        let gate = Arc::new(Gate::default());
        let mut steps: Vec<Step> = numbered(0, 200).chunks(9).map(|c| Step::Rows(c.to_vec())).collect();
        steps.push(Step::Wait(Arc::clone(&gate)));
        let source = MemorySource { splits: vec![steps], bounded: false };
        let (rows, stats) = run_to_end(copy_plan(Some(limit)), source, config(3, 4));
        assert_eq!(keys(&rows), (0..limit as i64).collect::<Vec<i64>>());
        assert_eq!(stats.rows_out, limit);
        gate.open();
    }
}

/// `key >= bound`
fn at_least(bound: i64) -> Operator {
    let bound = Expr::literal(Value::Int(bound), DataType::BigInt);
    let kind = ExprKind::Compare(CompareOp::GreaterEqual, Box::new(key_column()), Box::new(bound));
    Operator::Filter(Expr::new(kind, DataType::Boolean, false))
}

#[test]
fn a_statement_set_reads_its_source_once_and_limits_each_sink() {
    let mut plan = copy_plan(Some(5));
    plan.pipelines.push(Pipeline {
        operators: vec![at_least(900)],
        end: PipelineEnd::Sink(1),
        ..plan.pipelines[0].clone()
    });
    plan.sinks.push(sink_plan(source_schema(), None));
    let sinks = [MemorySink::default(), MemorySink::default()];
    let written = [0, 1].map(|i: usize| Arc::clone(&sinks[i].written));
    let source = connector(MemorySource::of(&[numbered(0, 1000)], 10));
    let few = RunConfig { chunks_in_flight: 2, ..config(2, 3) };
    let (result, stats) = run_within(input(plan, vec![source], sinks.into()), few, CancelToken::new());
    result.unwrap();
    assert_eq!(keys(&written[0].rows()), [0, 1, 2, 3, 4]);
    assert_eq!(keys(&written[1].rows()), (900..1000).collect::<Vec<i64>>());
    assert_eq!(stats.rows_in, 1000);
    assert_eq!(stats.pipelines[1].rows_in, 1000);
    assert_eq!(stats.pipelines[1].rows_out, 100);
}

#[test]
fn constant_rows_are_a_source() {
    let rows = numbered(0, 25);
    let sink = MemorySink::default();
    let written = Arc::clone(&sink.written);
    let constant = SourceRows::Constant { columns: columns(&rows), rows: rows.len() };
    let (result, stats) =
        run_within(input(copy_plan(None), vec![constant], vec![sink]), config(2, 4), CancelToken::new());
    result.unwrap();
    assert_eq!(keys(&written.rows()), (0..25).collect::<Vec<i64>>());
    assert_eq!(stats.rows_in, 25);
}

#[test]
fn a_source_without_splits_ends_at_once() {
    let (rows, _) = run_to_end(copy_plan(None), MemorySource::of(&[], 1), config(2, 0));
    assert!(rows.is_empty());
    let (rows, _) = run_to_end(chained_plan(10, 0, 30), MemorySource::of(&[], 1), config(2, 0));
    assert!(rows.is_empty());
}

#[test]
fn written_rows_are_flushed_while_the_source_is_silent() {
    let gate = Arc::new(Gate::default());
    let steps = vec![Step::Rows(numbered(0, 3)), Step::Wait(Arc::clone(&gate))];
    let sink = MemorySink::default();
    let written = Arc::clone(&sink.written);
    let watcher = std::thread::spawn(move || {
        while *written.flushes.lock().unwrap() == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        gate.open();
        written.rows().len()
    });
    let source = connector(MemorySource { splits: vec![steps], bounded: true });
    let (result, _) = run_within(input(copy_plan(None), vec![source], vec![sink]), config(1, 0), CancelToken::new());
    result.unwrap();
    assert_eq!(watcher.join().unwrap(), 3);
}
