//! Statements that run in the background: their rows, and how they are ended.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use millstream::{Job, Outcome, Session, SessionConfig, code};
use std::thread;
use std::time::{Duration, Instant};

const ENDLESS: &str = "CREATE TABLE numbers (id BIGINT) WITH ('connector'='datagen', 'fields.id.kind'='sequence',
    'fields.id.start'='0', 'fields.id.end'='100000000')";

fn submit(sql: &str) -> Job {
    let mut session = Session::new(SessionConfig::default());
    session.run(ENDLESS).unwrap();
    let statement = &session.parse(sql).unwrap()[0];
    session.submit(statement).unwrap()
}

fn ids(batch: &RecordBatch) -> &[i64] {
    batch.column(0).as_primitive::<Int64Type>().values()
}

#[test]
fn rows_come_in_batches_and_end() {
    let job = submit("SELECT id FROM numbers WHERE id < 100000 LIMIT 5000");
    assert_eq!(job.schema().unwrap().fields[0].name, "id");
    let mut rows = 0;
    while let Some(batch) = job.next_batch() {
        assert!(ids(&batch).is_sorted());
        rows += batch.num_rows();
    }
    assert_eq!(rows, 5000);
    assert!(matches!(job.wait().unwrap(), Outcome::Ran(stats) if stats.rows_out == 5000));
}

#[test]
fn who_takes_slowly_slows_the_readers() {
    let job = submit("SELECT id FROM numbers");
    let first = job.next_batch().unwrap();
    assert_eq!(ids(&first)[0], 0);
    let read = || job.stats().unwrap().rows_in;
    // It comes to rest, with some batches on their way.
    let (since, mut last) = (Instant::now(), (read(), Instant::now()));
    while last.1.elapsed() < Duration::from_millis(300) {
        assert!(since.elapsed() < Duration::from_secs(30), "{} rows were read for nobody", last.0);
        thread::sleep(Duration::from_millis(20));
        if read() != last.0 {
            last = (read(), Instant::now());
        }
    }
    assert!(last.0 < 50_000_000 && !job.has_ended());
    job.cancel();
    while job.next_batch().is_some() {}
    assert_eq!(job.wait().unwrap_err().code, code::CANCELLED);
}

#[test]
fn a_job_is_stopped_cancelled_or_dropped_whoever_takes_its_rows() {
    let stopped = submit("SELECT id FROM numbers");
    stopped.next_batch().unwrap();
    stopped.stop();
    // Nobody takes the rest.
    assert_eq!(stopped.wait().unwrap_err().code, code::CANCELLED);
    let cancelled = submit("SELECT id FROM numbers");
    cancelled.cancel();
    assert_eq!(cancelled.wait().unwrap_err().code, code::CANCELLED);
    let dropped = submit("SELECT id FROM numbers");
    dropped.next_batch().unwrap();
    let monitor = dropped.monitor().stats().unwrap();
    drop(dropped);
    assert!(monitor.snapshot().rows_in < 100_000_000);
}

#[test]
fn errors_come_at_the_end() {
    let job = submit("SELECT 10 / (id - 50) FROM numbers");
    while job.next_batch().is_some() {}
    assert_eq!(job.wait().unwrap_err().code, code::DIVISION_BY_ZERO);
}
