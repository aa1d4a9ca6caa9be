//! Nexmark: the queries that the engine supports, from memory and from files.

pub(crate) mod data;

use crate::suite::{Across, Benchmark, Case, Failure, Prepared, Runs, Suite, discard, first_checked, session};
use data::{Combined, Events, Format};
use millstream::Session;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "nexmark",
    title: "Nexmark q0 to q23 as far as supported",
    data: "events of the nexmark generator (1 person : 3 auctions : 46 bids, 10 a millisecond of event time): 1 M events
           that are replayed from memory as often as the query's speed asks for, with times and ids advanced, in one table
           for each kind (memory) or all kinds in one (combined, without replay); and files of 1 M events for each kind",
    query: "those of tests/nexmark/queries; q12 counts in event time. Left out: q4, q9 and q15 to q19, whose results are
            updated (beside Flink in benchmark flink), and q6, which Flink cannot run either",
    measured: "the whole query, compilation included, from rows in memory or from the opening of the files in the page cache
               to the last row of the result, which is thrown away; the first run, which is not measured, adds it up. The
               limit counts the columns that q0 to q2 name, numbers, and texts without what is behind their views, and the
               DECIMAL that q1 writes",
    runs: Runs::WithAll,
    run,
};

/// Events of a round.
const EVENTS: u64 = 1_000_000;

/// The user function of q14.
pub(crate) const COUNT_CHAR: &str = "CREATE FUNCTION count_char(text STRING, letter STRING) RETURNS BIGINT
    RETURN CHAR_LENGTH(text) - CHAR_LENGTH(REPLACE(text, letter, ''))";

/// The bounded side of q13.
pub(crate) fn side_input() -> String {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/nexmark/side_input.csv");
    format!(
        "CREATE TABLE side_input (key BIGINT, `value` STRING)
         WITH ('connector' = 'filesystem', 'path' = '{file}', 'format' = 'csv')"
    )
}

/// A query of the benchmark.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
    /// Tables that it reads.
    pub(crate) tables: &'static [&'static str],
    /// Rounds of the events that it is measured over.
    rounds: u64,
    /// Rounds that Flink does in seconds.
    pub(crate) flink_rounds: u64,
    /// Bytes of each row that it must read and write, where memory is the limit: q1 writes a DECIMAL.
    touched: Option<u64>,
}

macro_rules! queries {
    ($($name:literal $tables:expr, $rounds:literal, $flink:literal, $touched:expr;)*) => {
        &[$(Query {
            name: $name,
            sql: include_str!(concat!("../../../../../tests/nexmark/queries/", $name, ".sql")),
            tables: &$tables,
            rounds: $rounds,
            flink_rounds: $flink,
            touched: $touched,
        }),*]
    };
}

/// With tables, rounds, rounds of Flink, and bytes.
pub(crate) const QUERIES: &[Query] = queries! {
    "q0" ["bid"], 16, 4, Some(48);
    "q1" ["bid"], 16, 4, Some(48 + 16);
    "q2" ["bid"], 16, 8, Some(16);
    "q3" ["auction", "person"], 16, 16, None;
    "q5" ["bid"], 8, 2, None;
    "q7" ["bid"], 8, 1, None;
    "q8" ["auction", "person"], 16, 16, None;
    "q10" ["bid"], 8, 2, None;
    "q11" ["bid"], 4, 1, None;
    "q12et" ["bid"], 8, 4, None;
    "q13" ["bid"], 8, 2, None;
    "q14" ["bid"], 8, 2, None;
    "q20" ["bid", "auction"], 2, 1, None;
    "q21" ["bid"], 4, 2, None;
    "q22" ["bid"], 8, 2, None;
    "q23" ["bid", "auction", "person"], 2, 1, None;
};

/// Queries whose results are updated, with tables and rounds of Flink and of Millstream.
pub(crate) const UPDATING: &[Query] = queries! {
    "q4" ["auction", "bid"], 1, 1, None;
    "q9" ["auction", "bid"], 1, 1, None;
    "q15" ["bid"], 2, 2, None;
    "q16" ["bid"], 2, 2, None;
    "q17" ["bid"], 2, 2, None;
    "q18" ["bid"], 1, 1, None;
    "q19" ["bid"], 1, 1, None;
};

/// A session with what all layouts need.
pub(crate) fn prepared(threads: usize) -> Result<Session, Failure> {
    let mut session = session(threads)?;
    session.run(COUNT_CHAR)?;
    session.run(&side_input())?;
    Ok(session)
}

/// A query from memory, over the rounds that it is measured over or several times as many.
pub(super) fn one(name: &str, events: u64, times: u64, threads: usize) -> Result<Prepared, Failure> {
    let query = QUERIES.iter().find(|query| query.name == name).ok_or("no such query")?;
    let events = Events::generate(events, threads)?;
    let (mut session, rounds) = (prepared(threads)?, query.rounds * times);
    events.register(&mut session, rounds)?;
    Ok((session, query.sql.into(), events.rows(query.tables) * rounds))
}

fn run(suite: &mut Suite) -> Result<(), Failure> {
    let threads = suite.threads();
    let events = suite.rows(EVENTS);
    let generated = suite.generate("the events", || Events::generate(events, threads))?;
    for query in QUERIES {
        let mut case = Case::new(format!("memory/{}", query.name), generated.rows(query.tables) * query.rounds);
        if let Some(touched) = query.touched {
            case = case.limited_by_memory(touched, &[threads]);
        }
        let mut session = prepared(threads)?;
        generated.register(&mut session, query.rounds)?;
        suite.measure(Across::Different, vec![case.with(first_checked(threads, session, discard, query.sql))])?;
    }
    for format in [Format::Json, Format::Parquet] {
        let files = suite.generate("files", || generated.files(&suite.options.directory, format))?;
        for query in QUERIES {
            let mut session = prepared(threads)?;
            data::over_files(&files, format).iter().try_for_each(|sql| session.run(sql))?;
            let case = Case::new(format!("{}/{}", format.name(), query.name), generated.rows(query.tables));
            suite.measure(Across::Different, vec![case.with(first_checked(threads, session, discard, query.sql))])?;
        }
    }
    let combined = suite.generate("the combined events", || Combined::generate(events, threads))?;
    for query in QUERIES {
        let mut session = prepared(threads)?;
        combined.register(&mut session)?;
        let case = Case::new(format!("combined/{}", query.name), events);
        suite.measure(Across::Different, vec![case.with(first_checked(threads, session, discard, query.sql))])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{Checksum, query};

    fn result(mut session: Session, sql: &str) -> Checksum {
        query(&mut session, sql).unwrap().checksum.unwrap()
    }

    #[test]
    fn queries_give_the_same_from_memory_from_files_and_from_one_stream() {
        let folder = tempfile::tempdir().unwrap();
        let events = Events::generate(20_000, 2).unwrap();
        let combined = Combined::generate(20_000, 2).unwrap();
        let files =
            [Format::Json, Format::Parquet].map(|format| (events.files(folder.path(), format).unwrap(), format));
        for query in QUERIES {
            let mut session = prepared(2).unwrap();
            events.register(&mut session, 1).unwrap();
            let wanted = result(session, query.sql);
            assert!(wanted.rows > 0, "{}", query.name);
            let mut session = prepared(1).unwrap();
            combined.register(&mut session).unwrap();
            assert_eq!(result(session, query.sql), wanted, "{} over one stream", query.name);
            for (files, format) in &files {
                let mut session = prepared(2).unwrap();
                data::over_files(files, *format).iter().try_for_each(|sql| session.run(sql)).unwrap();
                assert_eq!(result(session, query.sql), wanted, "{} over {format:?}", query.name);
            }
        }
    }

    #[test]
    fn a_round_goes_on_where_the_one_before_ended() {
        let events = Events::generate(20_000, 1).unwrap();
        let bids = |rounds| {
            let mut session = prepared(1).unwrap();
            events.register(&mut session, rounds).unwrap();
            result(
                session,
                "SELECT bidder, COUNT(*) FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '1' SECOND))
                             GROUP BY bidder, window_start, window_end",
            )
            .rows
        };
        // Ids of other rounds are others, so no group is shared.
        assert_eq!(bids(3), 3 * bids(1));
    }
}
