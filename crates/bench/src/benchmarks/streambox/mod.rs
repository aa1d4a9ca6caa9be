//! The six programs of StreamBox (section 9), as SQL.

mod data;
mod models;

use super::replay::Replay;
use crate::suite::{Across, Benchmark, Case, Checksum, Failure, Runs, Suite, System, query, session};
use arrow_array::RecordBatch;
use data::NEEDLE;
use models::{CHANGE, TOP};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "streambox",
    title: "the six programs of StreamBox (section 9)",
    data: "in memory, generated in the stated shape: grep: lines of 1 KB, 1 of 100 with the text; words: lines of 100 bytes from
           a vocabulary of 10,000 words; join: two streams of unique 64-bit keys, half of them in both; distinct: visits of
           numbered URLs, 1 M a second; latency: 90,000 pairs of hosts, 500,000 rows a second; tweets: texts with a
           sentiment, 50,000 a second",
    query: "lines that contain a text, and words, by 30 s sliding by 1 s; interval join, ±0.5 s; COUNT(DISTINCT), and AVG by
            pair, by second; the 3 most frequent words of seconds whose mean sentiment differs from that of the second before",
    measured: "the whole query, compilation included, its rows added up; row: a simple program with maps of the standard library, one
               thread",
    runs: Runs::WithAll,
    run,
};

/// A program: its tables, how often they are replayed, SQL, and what it means.
struct Program {
    name: &'static str,
    tables: Vec<Replay>,
    rounds: u64,
    sql: String,
    model: fn(&[Vec<RecordBatch>]) -> Checksum,
}

/// All six; `scale` changes the numbers of rows.
fn programs(scale: impl Fn(u64) -> u64) -> Vec<Program> {
    let words = |table: &str| format!("SELECT word, ts FROM {table} CROSS JOIN UNNEST(SPLIT(line, ' ')) AS t (word)");
    let tumble = |table: &str| format!("TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '1' SECOND))");
    let slide =
        |table: &str| format!("TABLE(HOP(TABLE {table}, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '30' SECOND))");
    let by_window = "window_start, window_end";
    let one = |name, table, rounds, sql, model| Program { name, tables: vec![table], rounds, sql, model };
    vec![
        one(
            "grep",
            data::lines(scale(100_000), 1000, 20_000),
            4,
            format!(
                "SELECT window_start, COUNT(*) FROM {} WHERE line LIKE '%{NEEDLE}%' GROUP BY {by_window}",
                slide("lines")
            ),
            |tables| models::grep(&tables[0]),
        ),
        one(
            "words",
            data::lines(scale(200_000), 100, 20_000),
            5,
            format!(
                "CREATE TEMPORARY VIEW words AS {};
                 SELECT word, window_start, COUNT(*) FROM {} GROUP BY word, {by_window};
                 DROP TEMPORARY VIEW words",
                words("lines"),
                slide("words")
            ),
            |tables| models::word_count(&tables[0]),
        ),
        Program {
            name: "join",
            tables: [("l", false), ("r", true)]
                .map(|(name, other)| data::keys(name, scale(2_000_000), 8_000, other))
                .into(),
            rounds: 1,
            sql: "SELECT l.v, r.v FROM l JOIN r
                  ON l.k = r.k AND l.ts BETWEEN r.ts - INTERVAL '0.5' SECOND AND r.ts + INTERVAL '0.5' SECOND"
                .into(),
            model: |tables| models::join(&tables[0], &tables[1]),
        },
        one(
            "distinct",
            data::urls(scale(2_000_000), 2_000),
            4,
            format!("SELECT window_start, COUNT(DISTINCT url) FROM {} GROUP BY {by_window}", tumble("visits")),
            |tables| models::distinct(&tables[0]),
        ),
        one(
            "latency",
            data::latencies(scale(2_000_000), 4_000),
            4,
            format!(
                "SELECT source, target, window_start, AVG(micros) FROM {} GROUP BY source, target, {by_window}",
                tumble("pings")
            ),
            |tables| models::latency(&tables[0]),
        ),
        one("tweets", data::tweets(scale(500_000), 10_000), 2, tweets(&words("tweets"), tumble), |tables| {
            models::tweets(&tables[0])
        }),
    ]
}

/// Two pipelines over one stream, and their join.
fn tweets(words: &str, tumble: impl Fn(&str) -> String) -> String {
    format!(
        "CREATE TEMPORARY VIEW words AS {words};
         WITH mood AS (
             SELECT window_start, window_end, AVG(score) AS mean FROM {} GROUP BY window_start, window_end
         ), changed AS (
             SELECT now.window_start, now.window_end, now.mean - before.mean AS change
             FROM mood AS now JOIN mood AS before ON now.window_start = before.window_end
             WHERE ABS(now.mean - before.mean) >= {CHANGE}
         ), counts AS (
             SELECT word, window_start, window_end, COUNT(*) AS n FROM {} GROUP BY word, window_start, window_end
         ), frequent AS (
             SELECT window_start, window_end, word, n FROM (
                 SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, word) AS place FROM counts
             ) WHERE place <= {TOP}
         )
         SELECT f.window_start, c.change, f.word, f.n
         FROM frequent AS f JOIN changed AS c ON c.window_start = f.window_start AND c.window_end = f.window_end;
         DROP TEMPORARY VIEW words",
        tumble("tweets"),
        tumble("words")
    )
}

fn run(suite: &mut Suite) -> Result<(), Failure> {
    let counts = suite.thread_counts();
    let programs = suite.generate("the rows", || programs(|rows| suite.rows(rows)));
    for Program { name, tables, rounds, sql, model } in &programs {
        let rows = tables.iter().map(|table| table.rows.num_rows() as u64 * rounds).sum();
        let mut case = Case::new(*name, rows);
        for &threads in counts.iter().rev() {
            let mut session = session(threads)?;
            tables.iter().try_for_each(|table| table.register(&mut session, *rounds))?;
            case = case.with(System::measured("millstream", threads, move || query(&mut session, sql)));
        }
        let batches = tables.iter().map(|table| table.rounds(*rounds)).collect::<Result<Vec<_>, _>>()?;
        case = case.with(System::new("row", 1, move || Ok(model(&batches))));
        suite.measure(Across::Different, vec![case])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_give_what_their_models_say() {
        for Program { name, tables, sql, model, .. } in programs(|rows| rows / 100) {
            for rounds in [1, 3] {
                let batches: Vec<_> = tables.iter().map(|table| table.rounds(rounds).unwrap()).collect();
                let wanted = model(&batches);
                assert!(wanted.rows > 0 || rounds == 1, "{name}");
                for threads in [1, 2] {
                    let mut session = session(threads).unwrap();
                    tables.iter().for_each(|table| table.register(&mut session, rounds).unwrap());
                    let found = query(&mut session, &sql).unwrap().checksum;
                    assert_eq!(found, Some(wanted), "{name}, {rounds} rounds, {threads} threads");
                }
            }
        }
    }
}
