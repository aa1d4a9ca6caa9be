//! `millstream-bench generate`: rows over TCP at a fixed rate, whatever their reader does (an open loop).
//!
//! Row *i* is due at *start + i / rate*, and that moment is its event time. When the reader stalls, the generator falls
//! behind, but the schedule stays: rows that it sends late carry the time at which they should have been sent, so that the
//! delay counts as latency of the reader. Without a rate rows come as fast as they are read, and event time advances as
//! if there were a million in a second.
//!
//! Rows are taken in turn from a pool that is made at the start; only their time is new. Everything but Arrow lies in the
//! pool as it is sent, with the time to be filled in.

mod pool;
#[cfg(not(test))]
mod process;
mod template;
#[cfg(test)]
mod thread;

pub(crate) use pool::Workload;
#[cfg(not(test))]
pub(crate) use process::Process;
#[cfg(test)]
pub(crate) use thread::Process;

use crate::suite::Failure;
use clap::Parser;
use millstream::connectors::{Encoded, Sink, SinkRequest, open_sink};
use millstream::{Options, Schema};
use pool::Pool;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::net::TcpListener;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use template::Template;

/// Most rows that are sent at once.
const BATCH: u64 = 16 << 10;
/// Rows in a second of event time, without a rate.
const EVENTS_PER_SECOND: f64 = 1e6;
/// How long the generator sleeps when nothing is due.
const TICK: Duration = Duration::from_millis(1);

/// Sends rows over TCP, each stamped with the moment at which it was to be sent, at a rate that does not depend on their
/// reader.
#[derive(Debug, Clone, Parser)]
pub(crate) struct Plan {
    /// What the rows are
    #[arg(long, value_enum)]
    pub(crate) workload: Workload,
    /// How they are written: json, csv, arrow or row
    #[arg(long, default_value = "json")]
    pub(crate) format: String,
    /// Keys: advertisements, or campaigns
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keys: u64,
    /// Rows per second; 0 for as many as are read
    #[arg(long, default_value_t = 0.0)]
    pub(crate) rate: f64,
    /// How long rows are due
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Rows in all, instead of --seconds
    #[arg(long)]
    pub(crate) rows: Option<u64>,
    /// When the first row is due, in milliseconds since 1970 [default: now]
    #[arg(long, value_name = "MS")]
    pub(crate) start: Option<i64>,
    /// Where to connect to, HOST:PORT
    #[arg(long, value_name = "ADDRESS", required_unless_present_any = ["listen", "file"])]
    pub(crate) connect: Option<String>,
    /// Where to wait for a reader, HOST:PORT
    #[arg(long, value_name = "ADDRESS", conflicts_with = "connect")]
    pub(crate) listen: Option<String>,
    /// Write a file instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["connect", "listen"])]
    pub(crate) file: Option<String>,
}

impl Plan {
    /// Options of the table that the rows are written to.
    fn options(&self) -> Result<Options, Failure> {
        let mut options = Options::new();
        options.set("format", &self.format);
        if let Some(path) = &self.file {
            options.set("connector", "filesystem");
            options.set("path", path);
            return Ok(options);
        }
        let (mode, address) = match (&self.connect, &self.listen) {
            (Some(address), _) => ("client", address),
            (None, Some(address)) => ("server", address),
            (None, None) => return Err("an address to connect to or to listen on is wanted".into()),
        };
        let (host, port) = address.rsplit_once(':').ok_or_else(|| format!("`{address}` is not HOST:PORT"))?;
        options.set("connector", "socket");
        options.set("mode", mode);
        options.set("hostname", host);
        options.set("port", port);
        Ok(options)
    }

    fn rows(&self) -> u64 {
        let rate = if self.rate > 0.0 { self.rate } else { EVENTS_PER_SECOND };
        self.rows.unwrap_or((rate * self.seconds) as u64)
    }
}

/// When rows are due.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    start_ms: i64,
    rate: f64,
    /// Whether rows wait for their time.
    paced: bool,
}

impl Schedule {
    fn new(plan: &Plan) -> Schedule {
        let paced = plan.rate > 0.0;
        let rate = if paced { plan.rate } else { EVENTS_PER_SECOND };
        Schedule { start_ms: plan.start.unwrap_or_else(|| now_ms() as i64), rate, paced }
    }

    /// Event time of a row, in milliseconds.
    fn time_ms(&self, row: u64) -> i64 {
        self.start_ms + (row as f64 * 1000.0 / self.rate) as i64
    }

    /// How many rows are due.
    fn due(&self) -> u64 {
        if self.paced { ((now_ms() - self.start_ms as f64) / 1000.0 * self.rate).max(0.0) as u64 } else { u64::MAX }
    }
}

/// Milliseconds since 1970.
fn now_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64() * 1000.0)
}

/// What was sent.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// By how much the generator was behind its schedule at most.
    pub(crate) behind_s: f64,
}

/// Runs the command: says `ready` when there is something to connect to, and in the end what was sent.
pub(crate) fn command(plan: &Plan) -> Result<(), Failure> {
    let sent = generate(plan, || {
        println!("ready");
        io::stdout().flush()
    })?;
    println!("{}", serde_json::to_string(&sent)?);
    Ok(())
}

/// Sends all rows of a plan; `ready` is called before the first is.
pub(crate) fn generate(plan: &Plan, ready: impl FnOnce() -> io::Result<()>) -> Result<Sent, Failure> {
    let schema = plan.workload.schema();
    let total = plan.rows();
    let pool = Pool::new(plan.workload, plan.keys, total);
    let source = Rows::new(plan, &pool, &schema)?;
    let request = SinkRequest {
        table: "rows".into(),
        options: plan.options()?,
        schema,
        metadata: vec![],
        primary_key: vec![],
        changes: None,
    };
    let mut sink = open_sink(&request)?;
    ready()?;
    let schedule = Schedule::new(plan);
    let mut sent = Sent::default();
    while sent.rows < total {
        let due = schedule.due().min(total);
        if due <= sent.rows {
            sleep(TICK);
            continue;
        }
        if schedule.paced {
            sent.behind_s = sent.behind_s.max((now_ms() - schedule.time_ms(sent.rows) as f64) / 1000.0);
        }
        // A batch lies in one piece in the pool.
        let rows = (due - sent.rows).min(BATCH).min(pool.rows - sent.rows % pool.rows);
        let times = (0..rows as usize).map(|i| schedule.time_ms(sent.rows + i as u64));
        let piece = source.piece(&*sink, (sent.rows % pool.rows) as usize, times)?;
        if let Encoded::Bytes { data, .. } = &piece {
            sent.bytes += data.len() as u64;
        }
        sink.write(piece)?;
        sent.rows += rows;
    }
    sink.finish()?;
    Ok(sent)
}

/// Where the bytes of rows come from.
enum Rows<'a> {
    Template(Template),
    Columns(&'a Pool),
}

impl<'a> Rows<'a> {
    fn new(plan: &Plan, pool: &'a Pool, schema: &Schema) -> Result<Rows<'a>, Failure> {
        Ok(match plan.format.as_str() {
            "arrow" => Rows::Columns(pool),
            format => Rows::Template(Template::new(format, pool, schema)?),
        })
    }

    /// The rows from `first` on in the pool, with these times.
    fn piece(
        &self,
        sink: &dyn Sink,
        first: usize,
        times: impl ExactSizeIterator<Item = i64>,
    ) -> Result<Encoded, Failure> {
        let rows = times.len();
        match self {
            Rows::Template(template) => Ok(Encoded::Bytes { data: template.fill(first, times), rows }),
            Rows::Columns(pool) => Ok(sink.encoder().encode(&pool.arrays(first, times), rows)?),
        }
    }
}

/// Ports of this machine that nobody uses now; all are held until the last is found, so that they differ.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N], Failure> {
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arguments: &[&str]) -> Plan {
        Plan::parse_from(["generate", "--workload", "ads"].iter().chain(arguments))
    }

    #[test]
    fn all_formats_say_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = |format: &str| folder.path().join(format!("a.{format}")).to_string_lossy().into_owned();
        let counts = ["json", "csv", "arrow", "row"].map(|format| {
            let file = path(format);
            let sent = generate(
                &plan(&["--format", format, "--file", &file, "--rows", "40000", "--start", "1700000000000"]),
                || Ok(()),
            );
            assert_eq!(sent.unwrap().rows, 40_000);
            let mut session = millstream::Session::new(millstream::SessionConfig::default());
            let columns = Workload::Ads.columns();
            session
                .run(&format!(
                    "CREATE TABLE t ({columns}) WITH ('connector' = 'filesystem', 'path' = '{file}', 'format' = '{format}')"
                ))
                .unwrap();
            let sql = "SELECT ad_id, user_id, cost, event_time FROM t";
            crate::suite::query(&mut session, sql).unwrap().checksum.unwrap()
        });
        assert_eq!(counts[0].rows, 40_000);
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    }

    #[test]
    fn a_schedule_does_not_wait_for_readers() {
        let slow = Schedule::new(&plan(&["--connect", "localhost:1", "--rate", "500", "--start", "1000"]));
        assert_eq!([0, 1, 500].map(|row| slow.time_ms(row)), [1000, 1002, 2000]);
        assert!(slow.due() > 1_000_000, "the start was long ago");
        let ahead = Schedule { start_ms: i64::MAX / 2, ..slow };
        assert_eq!(ahead.due(), 0);
        let unpaced = Schedule::new(&plan(&["--connect", "localhost:1"]));
        assert_eq!((unpaced.due(), unpaced.time_ms(2_000) - unpaced.start_ms), (u64::MAX, 2));
    }
}
