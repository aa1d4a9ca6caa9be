//! Session windows of many keys.

use crate::suite::{
    Across, Benchmark, Case, Checksum, Columns, Failure, Kind, OutputRows, Random, Runs, Suite, System, query, session,
};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "sessions",
    title: "session windows of many keys",
    data: "5 M rows in memory: k (100,000 values at random), v, ts (50 rows a millisecond, in order), so that a key comes every 2 s
           on average and a session has a dozen rows",
    query: "rows and sum by key and session with a gap of 5 s",
    measured: "the whole query, compilation included, its rows added up; by hand a slot for every key, each thread for the
               keys of its own",
    runs: Runs::Always,
    run,
};

const ROWS: u64 = 5_000_000;
const ROWS_PER_MS: u64 = 50;
const KEYS: u64 = 100_000;
const GAP_MS: i64 = 5000;

/// Runs the query and the loop by hand.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let (rows, threads) = (suite.rows(ROWS), suite.threads());
    let mut random = Random::new(3);
    let mut columns = Columns::default();
    (0..rows).for_each(|row| columns.push(random.below(KEYS), random.below(1000), (row / ROWS_PER_MS) as i64));
    let mut session = session(threads)?;
    // 2 ms behind, so that a session is still open when the row comes that touches it.
    columns.register(&mut session, "t", 2)?;
    let sql = "SELECT k, window_start, COUNT(*), SUM(v)
               FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND))
               GROUP BY k, window_start, window_end";
    let case = Case::new("gap of 5 s", rows)
        .with(System::measured("millstream", threads, move || query(&mut session, sql)))
        .with(System::new("columnar", threads, || Ok(by_hand(&columns, threads))));
    suite.measure(Across::Different, vec![case])?;
    Ok(())
}

/// The open session of a key.
#[derive(Clone, Copy, Default)]
struct Open {
    start: i64,
    last: i64,
    rows: i64,
    total: i64,
}

fn by_hand(columns: &Columns, threads: usize) -> Checksum {
    let part = |thread: i64| {
        let mut open = vec![Open::default(); KEYS as usize];
        let mut sessions = OutputRows::new([Kind::Integer; 4]);
        let mut close = |key: i64, s: &Open| sessions.push([key, s.start, s.rows, s.total]);
        for (key, value, time) in columns.rows().filter(|row| row.0 % threads as i64 == thread) {
            let session = &mut open[key as usize];
            // Times do not go back in this data; sessions that touch are one.
            if session.rows > 0 && time > session.last + GAP_MS {
                close(key, session);
                *session = Open::default();
            }
            if session.rows == 0 {
                session.start = time;
            }
            session.last = time;
            session.rows += 1;
            session.total += value;
        }
        for (key, session) in open.iter().enumerate().filter(|(_, s)| s.rows > 0) {
            close(key as i64, session);
        }
        sessions.finish()
    };
    std::thread::scope(|scope| {
        let part = &part;
        let handles: Vec<_> = (0..threads as i64).map(|thread| scope.spawn(move || part(thread))).collect();
        let parts = handles.into_iter().map(|h| h.join().expect("a loop does not panic"));
        parts.fold(Checksum::default(), Checksum::and)
    })
}
