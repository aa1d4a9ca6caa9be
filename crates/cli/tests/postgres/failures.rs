//! A server that goes away and comes back, and one that does not.

use crate::server::{Database, Server};
use crate::spans::{Job, TABLES};
use arrow_array::{ArrayRef, Int64Array, StringViewArray};
use millstream::code;
use millstream::connectors::open_sink;
use std::sync::Arc;

fn own_database() -> Database {
    let mut database = Server::new().database("own");
    database.execute(TABLES);
    database
}

/// Starts the server while another thread tries to reach it.
fn start_soon(server: &Arc<Server>) -> std::thread::JoinHandle<()> {
    let server = server.clone();
    std::thread::spawn(move || server.start())
}

#[test]
fn a_server_that_restarts_is_waited_for() {
    let mut database = own_database();
    let mut job = Job::new(&database, "keyed", true);
    let mut sink = job.begin().unwrap();
    job.write_span(&mut sink, 1);
    let mut commit = Job::cut(&mut sink, 1);
    job.manifest = Job::restored(1, commit.prepare().unwrap());
    database.server.stop();
    // Writing continues meanwhile.
    job.write_span(&mut sink, 2);
    let started = start_soon(&database.server);
    commit.commit().unwrap();
    started.join().unwrap();
    database.reconnect();
    let rows = database.number("SELECT COUNT(*) FROM keyed");
    assert!(rows > 0);
    // The sink that was restored, too; and at its start the server need not be there yet.
    let mut commit = Job::cut(&mut sink, 2);
    job.manifest = Job::restored(2, commit.prepare().unwrap());
    drop((sink, commit));
    database.server.stop();
    let started = start_soon(&database.server);
    drop(job.begin().unwrap());
    started.join().unwrap();
    database.reconnect();
    assert!(database.number("SELECT COUNT(*) FROM keyed") > rows);
}

#[test]
fn batches_are_written_after_a_restart() {
    let mut database = own_database();
    let mut sink = open_sink(&Job::new(&database, "plain", false).request).unwrap();
    let encoder = sink.encoder();
    let columns = |id: i64| -> Vec<ArrayRef> {
        vec![Arc::new(Int64Array::from(vec![id])), Arc::new(StringViewArray::from_iter_values(["a"]))]
    };
    for id in 0..3 {
        sink.write(encoder.encode(&columns(id), 1).unwrap()).unwrap();
        sink.flush().unwrap();
        database.server.stop();
        database.server.start();
    }
    sink.write(encoder.encode(&columns(3), 1).unwrap()).unwrap();
    sink.finish().unwrap();
    database.reconnect();
    assert_eq!(database.rows("id", "FROM plain ORDER BY id"), ["0", "1", "2", "3"]);
}

#[test]
fn a_server_that_stays_away_fails_the_query_which_can_be_recovered() {
    let mut database = own_database();
    let mut job = Job::new(&database, "plain", false);
    job.request.options.set("connection.max-retry-timeout", "1ms");
    job.request.options.set("sink.max-retries", "1");
    let mut sink = job.begin().unwrap();
    job.write_span(&mut sink, 1);
    let mut commit = Job::cut(&mut sink, 1);
    job.manifest = Job::restored(1, commit.prepare().unwrap());
    database.server.stop();
    let error = commit.commit().unwrap_err();
    assert_eq!(error.code, code::CONNECTION_FAILED, "{error}");
    assert!(error.advice.as_ref().unwrap().contains("connection.max-retry-timeout"), "{error}");
    drop(sink);
    assert_eq!(job.begin().err().unwrap().code, code::CONNECTION_FAILED);
    database.server.start();
    drop(job.begin().unwrap());
    database.reconnect();
    assert_eq!(database.number("SELECT COUNT(*) FROM plain"), 100);
}
