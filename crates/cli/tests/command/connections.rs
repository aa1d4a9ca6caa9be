//! Queries that read and write network connections.

use crate::support::millstream;
use crate::{ended, interrupt, run, text};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// A table of ids over a connection to or at a local port.
fn socket_table(port: u16, options: &str) -> String {
    format!(
        "CREATE TABLE t (id BIGINT, name STRING) WITH ('connector' = 'socket', 'hostname' = '127.0.0.1', \
         'port' = '{port}'{options});"
    )
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// Connects as soon as someone listens.
fn connect(port: u16) -> TcpStream {
    let since = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return stream,
            Err(e) => assert!(since.elapsed() < Duration::from_secs(20), "{e}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn rows_come_and_go_over_connections() {
    let folder = tempfile::tempdir().unwrap();
    // One process serves Arrow, another reads it and sends JSON to two producers' sum.
    let port = free_port();
    let serve = format!(
        "CREATE TABLE s (id BIGINT, name STRING) WITH ('connector' = 'socket', 'mode' = 'server', 'port' = '{port}', \
         'format' = 'arrow'); INSERT INTO s SELECT 7, 'a name that is rather long'"
    );
    let server = millstream(folder.path()).args(["run", "-e", &serve]).spawn().unwrap();
    let table = socket_table(port, ", 'format' = 'arrow'");
    let sql = format!("{table} SELECT id + 1 AS id, name FROM t");
    let output = millstream(folder.path()).args(["run", "-e", &sql]).output().unwrap();
    assert_eq!(
        text(&output.stdout),
        "{\"id\":8,\"name\":\"a name that is rather long\"}\n",
        "{}",
        text(&output.stderr)
    );
    assert_eq!(ended(server), (Some(0), String::new()));

    let port = free_port();
    let table = socket_table(port, ", 'mode' = 'server', 'scan.connections' = '2', 'format' = 'csv'");
    let sql = format!("{table} SELECT id, name FROM t");
    let child = millstream(folder.path()).args(["run", "-e", &sql]).spawn().unwrap();
    let mut producers = [connect(port), connect(port)];
    producers[0].write_all(b"1,x\n").unwrap();
    producers[1].write_all(b"2,y").unwrap();
    drop(producers);
    let output = child.wait_with_output().unwrap();
    let mut rows: Vec<String> = text(&output.stdout).lines().map(str::to_string).collect();
    rows.sort();
    assert_eq!(rows, ["{\"id\":1,\"name\":\"x\"}", "{\"id\":2,\"name\":\"y\"}"]);
}

#[test]
fn an_open_connection_keeps_no_query() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let table = socket_table(listener.local_addr().unwrap().port(), ", 'format' = 'json'");
    let run = |sql: &str| millstream(folder.path()).args(["run", "-e", &format!("{table} {sql}")]).spawn().unwrap();
    let peer = |text: &[u8]| {
        let mut peer = listener.accept().unwrap().0;
        peer.write_all(text).unwrap();
        peer
    };
    // A query that has what it wants, one that fails, and one that is interrupted.
    let child = run("SELECT id FROM t LIMIT 2");
    let _open = peer(b"{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n");
    assert_eq!(ended(child), (Some(0), String::new()));

    let child = run("SELECT 1 / id AS r FROM t");
    let _open = peer(b"{\"id\":0}\n");
    let (code, errors) = ended(child);
    assert!(code == Some(1) && errors.contains("MS3002"), "{errors}");

    let mut child = run("SELECT id FROM t");
    let _open = peer(b"{\"id\":1}\n");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "{\"id\":1}\n", "a row is there while its connection is open");
    interrupt(&child);
    let (code, errors) = ended(child);
    assert!(code == Some(130) && errors.contains("MS3007"), "{errors}");

    let server = socket_table(free_port(), ", 'format' = 'json', 'mode' = 'server'");
    let child = millstream(folder.path()).args(["run", "-e", &format!("{server} SELECT id FROM t")]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    interrupt(&child);
    assert_eq!(ended(child).0, Some(130), "nobody has connected");
}

#[test]
fn broken_connections_are_told() {
    let refused = run(&[
        "run",
        "-e",
        &format!("{} SELECT id FROM t", socket_table(free_port(), ", 'format' = 'json', 'connect.timeout' = '0 s'")),
    ]);
    let errors = text(&refused.stderr);
    assert!(refused.status.code() == Some(1) && errors.contains("MS5001") && errors.contains("'port'"), "{errors}");

    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (format, bytes, message) in [
        ("json", &b"{\"id\":1}\n{\"id\":2,"[..], "line 2"),
        ("arrow", b"\xff\xff\xff\xff\x20\0\0\0half", "in the middle of a message"),
        ("arrow", b"{\"id\":1}\n", "no Arrow stream"),
    ] {
        let table = socket_table(listener.local_addr().unwrap().port(), &format!(", 'format' = '{format}'"));
        let sql = format!("{table} SELECT id FROM t");
        let child = millstream(folder.path()).args(["run", "-e", &sql]).spawn().unwrap();
        listener.accept().unwrap().0.write_all(bytes).unwrap();
        let (code, errors) = ended(child);
        assert!(code == Some(1) && errors.contains(message) && errors.contains("= help: "), "{errors}");
    }
}
