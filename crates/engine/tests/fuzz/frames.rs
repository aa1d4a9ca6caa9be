//! Records that come over a connection: damaged, in pieces of any length, and cut off anywhere.

use crate::files::Samples;
use crate::{Random, session};
use millstream::Session;
use std::io::Write;
use std::net::TcpListener;
use std::thread::JoinHandle;

/// Sends bytes to whoever connects; the port, and what ends when all is sent.
fn serve(bytes: Vec<u8>, pieces: Vec<usize>) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        let mut rest = &bytes[..];
        for piece in pieces {
            let (now, later) = rest.split_at(piece.min(rest.len()));
            // Whoever has seen enough goes away.
            if stream.write_all(now).is_err() {
                return;
            }
            rest = later;
        }
        let _ = stream.write_all(rest);
    });
    (port, server)
}

/// A damaged stream of some format: what it is, a query that reads it, its session, and the sender.
pub(crate) fn damaged(samples: &Samples, random: &mut Random) -> (String, String, Session, JoinHandle<()>) {
    let (format, bytes, options) = samples.damaged_stream(random);
    let pieces = (0..random.below(20)).map(|_| 1 + random.below(300)).collect();
    let what = format!("{format} over a connection, {} bytes", bytes.len());
    let (port, server) = serve(bytes, pieces);
    let sql = format!(
        "CREATE TABLE t ({}) WITH ('connector' = 'socket', 'hostname' = '127.0.0.1', 'port' = '{port}', 'format' = '{format}'{options}); \
         SELECT {} FROM t;",
        crate::files::COLUMNS,
        random.pick(&["*", "id, s", "id, r.y, n"])
    );
    (what, sql, session(&[("parallelism.default", "2")]), server)
}
