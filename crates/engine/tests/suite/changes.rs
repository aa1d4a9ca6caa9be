//! Results that change: after every beat what has been written is the query's answer for a prefix of the input, and no key has changed
//! twice. The answer for a prefix is that of batch mode, which looks at all rows together.

use crate::configurations::{self, Configuration};
use crate::{nexmark, tests_dir};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use millstream::connectors::{ColumnEncoder, Encoded, Encoder, Sink, with_kinds};
use millstream::{Collected, Diagnostic, ResultTarget, RowKind, RunMonitor, Schema, Session, code};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// Rows as text, and how often each is there.
type Bag = BTreeMap<String, i64>;

/// The rows that the changes of a query have left at the end of a beat, and the rows of each source's splits that they are of.
#[derive(Debug, Clone)]
struct Beat {
    prefix: Vec<Vec<u64>>,
    rows: Bag,
}

/// Folds changes, and checks each against what is there.
#[derive(Default)]
struct Folded {
    key: Option<Vec<usize>>,
    rows: Bag,
    /// Rows by their keys, where there are any.
    by_key: BTreeMap<Vec<String>, String>,
    /// Keys that have changed in this beat.
    changed: BTreeSet<Vec<String>>,
    /// What was taken back to be replaced.
    before: Option<Vec<String>>,
    beats: Vec<Beat>,
    /// Whether only the last beat is asked for.
    keeps_last: bool,
    /// Changes so far.
    changes: usize,
    /// The changes of this beat, and of those before.
    changing: Bag,
    log: Vec<Bag>,
}

impl Folded {
    fn change(&mut self, kind: RowKind, row: &[String]) {
        self.changes += 1;
        let text = row.join("|");
        *self.changing.entry(format!("{kind:?} {text}")).or_default() += 1;
        let Some(key) = &self.key else {
            let count = self.rows.entry(text).or_default();
            assert!(matches!(kind, RowKind::Insert | RowKind::Delete), "rows without keys come and go");
            *count += if kind.adds() { 1 } else { -1 };
            assert!(*count >= 0, "a row is taken back that is not there: {row:?}");
            return self.rows.retain(|_, count| *count > 0);
        };
        let key: Vec<String> = key.iter().map(|&column| row[column].clone()).collect();
        if kind != RowKind::UpdateAfter {
            assert!(self.changed.insert(key.clone()), "a key changes twice in a beat: {row:?}");
            assert_eq!(self.before, None, "a row is followed by what replaces it");
        }
        let known = self.by_key.get(&key).cloned();
        match kind {
            RowKind::Insert => assert_eq!(known, None, "a row is there that comes"),
            RowKind::UpdateBefore | RowKind::Delete => assert_eq!(known.as_ref(), Some(&text), "another row is there"),
            RowKind::UpdateAfter => {
                assert_eq!(self.before.take().as_ref(), Some(&key), "nothing was taken back for it")
            }
        }
        match kind {
            RowKind::Insert | RowKind::UpdateAfter => {
                assert_ne!(known.as_ref(), Some(&text), "a row is replaced by itself");
                self.by_key.insert(key, text);
            }
            RowKind::UpdateBefore => self.before = Some(key),
            RowKind::Delete => drop(self.by_key.remove(&key)),
        }
    }

    fn end_beat(&mut self, prefix: Vec<Vec<u64>>) {
        assert_eq!(self.before, None, "a row is replaced within a beat");
        self.changed.clear();
        self.log.push(std::mem::take(&mut self.changing));
        if self.keeps_last {
            return;
        }
        self.keep(prefix);
    }

    fn keep(&mut self, prefix: Vec<Vec<u64>>) {
        let rows = match self.key {
            Some(_) => self.by_key.values().fold(Bag::new(), |mut bag, row| {
                *bag.entry(row.clone()).or_default() += 1;
                bag
            }),
            None => self.rows.clone(),
        };
        self.beats.push(Beat { prefix, rows });
    }
}

/// Where the changes of a query go.
struct Folding {
    monitor: Arc<RunMonitor>,
    folded: Arc<Mutex<Folded>>,
}

struct FoldingSink {
    monitor: Arc<RunMonitor>,
    schema: Schema,
    changes: bool,
    folded: Arc<Mutex<Folded>>,
}

/// Values as text, timestamps in milliseconds as numbers.
fn cells(columns: &[ArrayRef], rows: usize) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let as_number = |column: &ArrayRef| match column.as_primitive_opt::<TimestampMillisecondType>() {
        Some(times) => Arc::new(times.reinterpret_cast::<Int64Type>()) as ArrayRef,
        None => Arc::clone(column),
    };
    let columns: Vec<ArrayRef> = columns.iter().map(as_number).collect();
    let formatters: Vec<_> = columns.iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    (0..rows).map(|row| formatters.iter().map(|f| f.value(row).to_string()).collect()).collect()
}

impl ResultTarget for Folding {
    /// Of a result that does not change: rows only come.
    fn open(&mut self, schema: &Schema) -> Result<Box<dyn Sink>, Diagnostic> {
        let (monitor, folded) = (Arc::clone(&self.monitor), Arc::clone(&self.folded));
        Ok(Box::new(FoldingSink { monitor, schema: schema.clone(), changes: false, folded }))
    }

    fn open_changing(&mut self, schema: &Schema, key: Option<&[usize]>) -> Result<Box<dyn Sink>, Diagnostic> {
        self.folded.lock().unwrap().key = key.map(<[usize]>::to_vec);
        let (monitor, folded) = (Arc::clone(&self.monitor), Arc::clone(&self.folded));
        Ok(Box::new(FoldingSink { monitor, schema: schema.clone(), changes: true, folded }))
    }
}

impl Sink for FoldingSink {
    fn encoder(&self) -> Arc<dyn Encoder> {
        Arc::new(ColumnEncoder)
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        let Encoded::Columns { columns, rows } = piece else { panic!("columns are not encoded") };
        let (shown, kinds) = match self.changes {
            true => with_kinds(&columns).unwrap(),
            false => (&columns[..], vec![RowKind::Insert; rows]),
        };
        assert_eq!(shown.len(), self.schema.fields.len());
        let mut folded = self.folded.lock().unwrap();
        let changes = kinds.into_iter().zip(cells(shown, rows));
        changes.for_each(|(kind, row)| folded.change(kind, &row));
        Ok(())
    }

    fn end_beat(&mut self) -> Result<(), Diagnostic> {
        let prefix = self.monitor.stats().map(|stats| stats.snapshot().beats.prefix).unwrap_or_default();
        self.folded.lock().unwrap().end_beat(prefix);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), Diagnostic> {
        // Beats are only told to who takes changes.
        if self.changes { Ok(()) } else { self.end_beat() }
    }
}

/// Runs a query as a stream; the rows at the end of each beat, and how many changes there were.
fn beats_of(session: &mut Session, sql: &str) -> (Vec<Beat>, usize) {
    let mut folded = folded(session, sql, false);
    (std::mem::take(&mut folded.beats), folded.changes)
}

/// Runs a query as a stream; the rows at its end.
fn rows_of(session: &mut Session, sql: &str) -> Bag {
    let mut folded = folded(session, sql, true);
    folded.keep(vec![]);
    folded.beats.remove(0).rows
}

fn folded(session: &mut Session, sql: &str, keeps_last: bool) -> Folded {
    session.set("execution.runtime-mode", "streaming").unwrap();
    session.set("sql-client.execution.result-mode", "changelog").unwrap();
    let monitor = Arc::new(RunMonitor::new());
    let folded = Arc::new(Mutex::new(Folded { keeps_last, ..Folded::default() }));
    let mut target = Folding { monitor: Arc::clone(&monitor), folded };
    let statement = &session.parse(sql).unwrap()[0];
    session.execute(statement, &mut target, &monitor).unwrap_or_else(|e| panic!("{e}\n{sql}"));
    std::mem::take(&mut *target.folded.lock().unwrap())
}

fn bag(batch: &RecordBatch) -> Bag {
    cells(batch.columns(), batch.num_rows()).into_iter().fold(Bag::new(), |mut bag, row| {
        *bag.entry(row.join("|")).or_default() += 1;
        bag
    })
}

/// The answer of batch mode.
fn answer(session: &mut Session, sql: &str) -> Bag {
    session.set("execution.runtime-mode", "batch").unwrap();
    let mut results = Collected::new();
    let statement = &session.parse(sql).unwrap()[0];
    session.execute(statement, &mut results, &RunMonitor::new()).unwrap_or_else(|e| panic!("{e}\n{sql}"));
    bag(&results.into_batch().unwrap())
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    /// Some of them, in order.
    fn some<'a>(&mut self, of: &[&'a str], least: usize) -> Vec<&'a str> {
        let some: Vec<&str> = of.iter().copied().filter(|_| self.below(2) == 0).collect();
        if some.len() >= least { some } else { of[..least].to_vec() }
    }
}

/// Two tables of rows with small numbers, NULLs, and a number of their own.
fn tables(directory: &TempDir, random: &mut Random, rows: u64) -> String {
    let mut ddl = String::new();
    for name in ["t", "u"] {
        let mut text = String::new();
        for id in 0..rows {
            let k = if random.below(8) == 0 { String::new() } else { random.below(5).to_string() };
            let g = if random.below(8) == 0 {
                String::new()
            } else {
                format!("\"{}\"", random.pick(&["a", "b", "long enough not to be inline", ""]))
            };
            let v = if random.below(6) == 0 { String::new() } else { (random.below(40) as i64 - 20).to_string() };
            let d = if random.below(6) == 0 {
                String::new()
            } else {
                random.pick(&["0.1", "-2.5", "1e300", "-1e300", "NaN", "3", "-0.3"]).into()
            };
            let dec = format!("{}.{:02}", random.below(100), random.below(100));
            writeln!(text, "{id},{k},{g},{v},{d},{dec}").unwrap();
        }
        let path = directory.path().join(format!("{name}.csv"));
        std::fs::write(&path, text).unwrap();
        writeln!(
            ddl,
            "CREATE TABLE {name} (id BIGINT NOT NULL, k INT, g STRING, v BIGINT, d DOUBLE, p DECIMAL(10, 2), \
             ts AS TO_TIMESTAMP_LTZ(id * 100, 3), WATERMARK FOR ts AS ts - INTERVAL '0.5' SECOND) WITH \
             ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv');",
            path.display()
        )
        .unwrap();
    }
    ddl
}

const PLAIN: &[&str] = &[
    "COUNT(*)",
    "COUNT(v)",
    "SUM(v)",
    "AVG(v)",
    "MIN(v)",
    "MAX(g)",
    "MIN(d)",
    "SUM(d)",
    "SUM(p)",
    "AVG(p)",
    "MAX(p)",
    "BOOL_OR(v > 5)",
    "COUNT(*) FILTER (WHERE v > 0)",
    "SUM(v) FILTER (WHERE k < 3)",
    "VAR_POP(v)",
    "COUNT(DISTINCT v)",
    "COUNT(DISTINCT g) FILTER (WHERE v < 10)",
    "SUM(DISTINCT k)",
    "MEDIAN(v)",
    "MODE(k)",
];

/// A query over the tables, with `{t}` and `{u}` for them.
fn query(random: &mut Random) -> String {
    let aggregates = |random: &mut Random| {
        let calls: Vec<&str> = (0..1 + random.below(4)).map(|_| random.pick(PLAIN)).collect();
        calls.iter().enumerate().map(|(i, call)| format!("{call} AS c{i}")).collect::<Vec<_>>().join(", ")
    };
    let condition =
        |random: &mut Random| random.pick(&["", " WHERE v > -5", " WHERE k IS NOT NULL AND g <> 'a'"]).to_string();
    let from = match random.below(3) {
        0 => "(SELECT * FROM {t} UNION ALL SELECT * FROM {u}) AS x".to_string(),
        _ => "{t} AS x".to_string(),
    };
    let keys = random.some(&["k", "g", "v"], 1).join(", ");
    match random.below(18) {
        0 => format!("SELECT {} FROM {from}{}", aggregates(random), condition(random)),
        1 => format!("SELECT DISTINCT {keys} FROM {from}{}", condition(random)),
        2 => format!(
            "SELECT {keys}, {} FROM {from}{} GROUP BY {keys} HAVING COUNT(*) > 2",
            aggregates(random),
            condition(random)
        ),
        3 => format!("SELECT k, g, GROUPING(k) AS gk, {} FROM {from} GROUP BY ROLLUP (k, g)", aggregates(random)),
        4 => {
            // Groups of groups: rows of the inner one are taken back.
            let inner = format!("SELECT k, g, SUM(v) AS v, AVG(d) AS d, SUM(p) AS p FROM {from} GROUP BY k, g");
            let outer = random.some(&["k", "g"], 0).join(", ");
            match outer.as_str() {
                "" => format!("SELECT {} FROM ({inner})", aggregates(random)),
                keys => {
                    format!("SELECT {keys}, {} FROM ({inner}){} GROUP BY {keys}", aggregates(random), condition(random))
                }
            }
        }
        5 => {
            format!("SELECT g, n / 3 AS third FROM (SELECT k, g, COUNT(*) AS n FROM {from} GROUP BY k, g) WHERE n > 1")
        }
        7 => format!("SELECT DISTINCT n, g FROM (SELECT k, g, COUNT(*) AS n FROM {from} GROUP BY k, g)"),
        8..=10 => ranking(random, &from),
        11..=15 => join(random),
        16 => {
            let (order, offset) = (random.pick(&["v, id", "v DESC, g, id", "id"]), random.below(3));
            format!("SELECT id, g FROM {{t}} AS x ORDER BY {order} LIMIT {} OFFSET {offset}", 1 + random.below(5))
        }
        6 => format!(
            "SELECT k, c0 FROM (SELECT k, MAX(v) AS c0 FROM {from} GROUP BY k) UNION ALL SELECT k, v FROM {{u}} WHERE v > 10"
        ),
        _ => format!("SELECT {keys}, {} FROM {from}{} GROUP BY {keys}", aggregates(random), condition(random)),
    }
}

/// Top-N, with and without the rank, of rows that only come and of groups. Rows that only come may be of equal order.
fn ranking(random: &mut Random, from: &str) -> String {
    let function = random.pick(&["ROW_NUMBER", "RANK", "DENSE_RANK"]);
    let range = random.pick(&["n = 1", "n <= 1", "n <= 3", "n BETWEEN 2 AND 4", "n > 2", "n > 0"]);
    let partition = random.pick(&["PARTITION BY k ", "PARTITION BY g, k ", ""]);
    let direction = random.pick(&["", " DESC", " NULLS LAST", " DESC NULLS FIRST"]);
    let shown = random.pick(&["", ", n", ", n"]);
    if random.below(2) == 0 {
        let order = random.pick(&["v", "d", "g", "p", "k"]);
        let rows = format!("SELECT *, {function}() OVER ({partition}ORDER BY {order}{direction}) AS n FROM {from}");
        return format!("SELECT id, k, g, v, d{shown} FROM ({rows}) WHERE {range}");
    }
    let groups = format!("SELECT k, g, COUNT(*) AS c, MAX(v) AS v, SUM(d) AS d FROM {from} GROUP BY k, g");
    let ties = if function == "ROW_NUMBER" { ", k, g" } else { "" };
    let order = random.pick(&["v", "d", "c", "g"]);
    let partition = partition.replace("g, k", "g");
    let rows =
        format!("SELECT *, {function}() OVER ({partition}ORDER BY {order}{direction}{ties}) AS n FROM ({groups})");
    format!("SELECT k, g, c, v{shown} FROM ({rows}) WHERE {range}")
}

/// A join whose result changes, or of which a result that changes is made.
fn join(random: &mut Random) -> String {
    let left = random.pick(&[
        "SELECT id, k, g, v FROM {t}",
        "SELECT k, g, COUNT(*) AS id, SUM(v) AS v FROM {t} GROUP BY k, g",
        "SELECT DISTINCT k, g, v, 1 AS id FROM {t}",
    ]);
    let right = random.pick(&[
        "SELECT k, MIN(g) AS g, COUNT(*) AS n, MAX(v) AS v FROM {u} GROUP BY k",
        "SELECT k, g, COUNT(*) AS n, MAX(v) AS v FROM {u} GROUP BY k, g HAVING COUNT(*) > 1",
        "SELECT k, g, n, v FROM (SELECT k, g, v, id AS n, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM {u}) WHERE r <= 2",
    ]);
    let equal =
        random.pick(&["a.k = b.k", "a.k = b.k AND a.g = b.g", "a.g = b.g", "a.k = b.k AND a.v < b.v", "a.v < b.v"]);
    match random.below(5) {
        0 => {
            let (not, residual) = (random.pick(&["", "NOT "]), random.pick(&["", " AND b.v > 0", " AND a.v < b.v"]));
            format!(
                "SELECT a.* FROM ({left}) AS a WHERE {not}EXISTS (SELECT 1 FROM ({right}) AS b WHERE a.k = b.k{residual})"
            )
        }
        1 => {
            let not = random.pick(&["", "NOT "]);
            format!("SELECT a.k, a.g FROM ({left}) AS a WHERE a.k {not}IN (SELECT k FROM ({right}) AS b)")
        }
        2 => format!(
            "SELECT a.k, COUNT(*), SUM(b.v), MAX(b.n) FROM ({left}) AS a LEFT JOIN ({right}) AS b ON {equal} GROUP BY a.k"
        ),
        3 => format!(
            "SELECT k, n, m FROM (SELECT a.k, a.n, b.n AS m, ROW_NUMBER() OVER (PARTITION BY a.k ORDER BY a.n DESC, b.n, b.id) AS r \
             FROM (SELECT k, g, id AS n FROM {{t}}) AS a JOIN (SELECT k, g, v AS n, id FROM {{u}}) AS b ON {}) WHERE r <= 2",
            random.pick(&["a.k = b.k", "a.k = b.k AND a.g = b.g"])
        ),
        _ => {
            let kind = random.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
            format!("SELECT a.*, b.* FROM ({left}) AS a {kind} ({right}) AS b ON {equal}")
        }
    }
}

/// A query over prefixes of the tables.
fn over(query: &str, t: &str, u: &str) -> String {
    query.replace("{t}", t).replace("{u}", u)
}

#[test]
fn after_every_beat_the_result_is_that_of_a_prefix() {
    let (mut random, rows) = (Random(std::env::var("MILLSTREAM_SEED").map_or(7, |seed| seed.parse().unwrap())), 60);
    let configurations = configurations::all();
    let plain = Configuration::new("plain", &[("pipeline.tier", "interpreted"), ("parallelism.default", "1")]);
    let cases = std::env::var("MILLSTREAM_CASES").map_or(40, |cases| cases.parse().unwrap());
    for case in 0..cases {
        let directory = TempDir::new().unwrap();
        let (ddl, query) = (tables(&directory, &mut random, rows), query(&mut random));
        let configuration = &configurations[random.below(configurations.len() as u64) as usize];
        let (mut streamed, mut batch) = (configuration.session(), plain.session());
        for session in [&mut streamed, &mut batch] {
            for statement in &session.parse(&ddl).unwrap() {
                session.execute(statement, &mut Collected::new(), &RunMonitor::new()).unwrap();
            }
        }
        streamed.set("pipeline.beat-rows", random.pick(&["1", "7", "20", "0"])).unwrap();
        streamed.set("pipeline.beat", random.pick(&["arrival", "arrival", "arrival", "100 ms", "1 s"])).unwrap();
        streamed.set("table.exec.mini-batch.allow-latency", random.pick(&["1 h", "0 ms", "1 ms"])).unwrap();
        let (beats, _) = beats_of(&mut streamed, &over(&query, "t", "u"));
        let context = format!("case {case}, {}: {query}", configuration.name);
        let last = beats.len() - 1;
        for (number, beat) in beats.iter().enumerate() {
            let read = |source: usize| beat.prefix.get(source).map_or(0, |splits| splits.iter().sum::<u64>());
            // The end of the input ends the last beat.
            let [t, u] = [0, 1].map(|source| if number == last { rows } else { read(source) });
            // A query of the second table alone would have it as its first source: there is none.
            let prefix = |table: &str, rows: u64| format!("(SELECT * FROM {table} WHERE id < {rows})");
            let expected = answer(&mut batch, &over(&query, &prefix("t", t), &prefix("u", u)));
            assert_eq!(beat.rows, expected, "{context}\nbeat {number} of {last}, prefix {:?}", beat.prefix);
        }
    }
}

/// Nexmark's queries whose results change.
const UPDATING: [&str; 7] = ["q4", "q9", "q15", "q16", "q17", "q18", "q19"];

/// When beats end: rows of a split, how long rows wait, and the clock.
const BEATS: [(&str, &str, &str); 6] = [
    ("1", "1 h", "arrival"),
    ("7", "1 h", "arrival"),
    ("0", "50 ms", "arrival"),
    ("0", "1 h", "arrival"),
    ("0", "0 ms", "1 s"),
    ("0", "0 ms", "end"),
];

#[test]
fn what_nexmarks_changes_come_to_is_what_flink_answers() {
    let all = configurations::all();
    let mut failures = Vec::new();
    let (data, mut run) = (tests_dir().join("nexmark"), 0);
    for (number_of_layout, layout) in ["ddl_combined.sql", "ddl_flat.sql"].into_iter().enumerate() {
        let ddl = std::fs::read_to_string(data.join(layout)).unwrap().replace("${DATA}", &data.to_string_lossy());
        for (number_of_query, query) in UPDATING.into_iter().enumerate() {
            let sql = std::fs::read_to_string(data.join(format!("queries/{query}.sql"))).unwrap();
            // The columns of these results have no commas and no NULLs.
            let expected: Bag =
                nexmark::expected(query).into_iter().map(|(row, n)| (row.replace(',', "|"), n as i64)).collect();
            for (number, (rows, latency, clock)) in BEATS.into_iter().enumerate() {
                // Each query meets a third of the kinds of beats in each layout here, and all of them where `MILLSTREAM_ALL_BEATS` is set
                // (`make beats`). 20,000 beats take a while: those are once here.
                let is_short = rows == "1" && !(query == "q17" && layout == "ddl_flat.sql");
                let is_other = rows != "1" && (number_of_layout + number_of_query + number) % 3 != 0;
                if (is_short || is_other) && std::env::var_os("MILLSTREAM_ALL_BEATS").is_none() {
                    continue;
                }
                // Each kind of beat meets other configurations with every query and layout.
                let configuration = &all[run * 7 % all.len()];
                run += 1;
                let mut session = configuration.session();
                if configuration.get("pipeline.buffer-rows").is_some_and(|rows| rows == "1") {
                    session.set("pipeline.buffer-rows", "7").unwrap();
                }
                session.set("pipeline.beat-rows", rows).unwrap();
                session.set("table.exec.mini-batch.allow-latency", latency).unwrap();
                session.set("pipeline.beat", clock).unwrap();
                session.run(&ddl).unwrap();
                if rows_of(&mut session, &sql) != expected {
                    failures.push(format!(
                        "{query} under {}, beats of {rows} rows, {latency} or {clock}",
                        configuration.name
                    ));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Rows of a split: the number of the split, a time that goes forth and back, a key and a value.
fn split_of_times(split: u64, rows: u64) -> Vec<(i64, u64, i64)> {
    let mut random = Random(split + 1);
    let row = |id: u64| {
        let time = (id * (20 + split * 7)) as i64 - random.below(400) as i64;
        (time, random.below(6), random.below(50) as i64)
    };
    (0..rows).map(row).collect()
}

/// How many rows of each split come before the end of each beat of event time, but for the last, which ends with the input.
fn prefixes(splits: &[Vec<(i64, u64, i64)>], delay: i64, length: i64) -> Vec<Vec<u64>> {
    let (mut taken, mut watermarks) = (vec![0; splits.len()], vec![i64::MIN; splits.len()]);
    let (mut all, mut end) = (Vec::new(), i64::MIN + 1);
    loop {
        for (split, rows) in splits.iter().enumerate() {
            while taken[split] < rows.len() && watermarks[split] < end {
                watermarks[split] = watermarks[split].max(rows[taken[split]].0 - delay);
                taken[split] += 1;
            }
        }
        let at_end = (0..splits.len()).filter(|&split| watermarks[split] >= end);
        // One whose last row has reached the end has not ended before the beat has.
        let Some(lowest) = at_end.map(|split| watermarks[split]).min() else { return all };
        if end > i64::MIN + 1 {
            all.push(taken.iter().map(|&rows| rows as u64).collect());
        }
        end = (lowest.div_euclid(length) + 1) * length;
    }
}

/// Queries of every operator whose results change.
const CHANGING: [&str; 9] = [
    "SELECT k, COUNT(*), SUM(v), MIN(v), COUNT(DISTINCT v) FROM t GROUP BY k",
    "SELECT COUNT(*), MAX(ts) FROM t",
    "SELECT DISTINCT n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k)",
    "SELECT n, COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) GROUP BY n",
    "SELECT k, v, r FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, ts) AS r FROM t) WHERE r <= 3",
    "SELECT k, ts, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS r FROM t) WHERE r = 1",
    "SELECT a.k, a.n, b.m FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS a LEFT JOIN (SELECT v, COUNT(*) AS m FROM t GROUP BY v) AS b ON a.k = b.v",
    "SELECT v, s FROM (SELECT v, SUM(k) AS s FROM t GROUP BY v) ORDER BY s DESC, v LIMIT 5",
    "SELECT n, COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND)) \
     GROUP BY k, window_start, window_end) GROUP BY n",
];

#[test]
fn with_beats_of_event_time_the_changes_of_each_beat_are_the_same_in_every_run() {
    let directory = TempDir::new().unwrap();
    let splits: Vec<_> = (0..3).map(|split| split_of_times(split, 300)).collect();
    for (number, rows) in splits.iter().enumerate() {
        let lines = rows.iter().map(|(time, k, v)| format!("{time},{k},{v}\n"));
        std::fs::write(directory.path().join(format!("{number}.csv")), lines.collect::<String>()).unwrap();
    }
    let ddl = format!(
        "CREATE TABLE t (ms BIGINT, k BIGINT, v BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts - INTERVAL '0.3' SECOND) WITH \
         ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv');",
        directory.path().display()
    );
    let expected = prefixes(&splits, 300, 1000);
    assert!(expected.len() > 5, "{expected:?}");
    for query in CHANGING {
        let mut first = None;
        for configuration in configurations::all() {
            let mut session = configuration.session();
            session.set("pipeline.beat", "1 s").unwrap();
            session.run(&ddl).unwrap();
            let Folded { log, beats, .. } = folded(&mut session, query, false);
            let context = format!("{query} under {}", configuration.name);
            let prefixes: Vec<Vec<u64>> = beats.iter().filter_map(|beat| beat.prefix.first().cloned()).collect();
            // The end of the input is told by who writes, with the prefix of the last beat before.
            assert_eq!(prefixes[..expected.len().min(prefixes.len())], expected[..], "{context}");
            assert_eq!(log.len(), expected.len() + 1, "{context}");
            assert!(log.iter().filter(|changes| !changes.is_empty()).count() > 3, "{context}");
            match &first {
                None => first = Some(log),
                Some(first) => assert_eq!(*first, log, "{context}"),
            }
        }
    }
}

#[test]
fn beats_that_the_input_cannot_have_are_refused() {
    let mut session = Session::new(Default::default());
    session
        .run(
            "CREATE TABLE timeless (k BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
             CREATE TABLE endless (k BIGINT, ts AS PROCTIME()) WITH ('connector' = 'datagen', 'rows-per-second' = '1');
             SET 'execution.runtime-mode' = 'streaming'; SET 'sql-client.execution.result-mode' = 'changelog';",
        )
        .unwrap();
    let mut refused = |beat: &str, table: &str| {
        session.set("pipeline.beat", beat).unwrap();
        let explained = session.run(&format!("EXPLAIN SELECT k, COUNT(*) FROM {table} GROUP BY k"));
        let error = explained.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.is_empty() || error.contains("SET 'pipeline.beat' = 'arrival'"), "{error}");
        error.contains("pipeline.beat")
    };
    assert!(refused("1 s", "timeless") && refused("1 s", "endless") && refused("end", "endless"));
    assert!(!refused("arrival", "timeless") && !refused("end", "timeless") && !refused("arrival", "endless"));
    for wrong in ["0 s", "now", "-1 s", "0.1 ms"] {
        let error = session.set("pipeline.beat", wrong).unwrap_err().to_string();
        assert!(error.contains("pipeline.beat") && error.contains("1"), "{error}");
    }
}

#[test]
fn changes_are_written_to_files_and_read_again() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("log");
    let table = |name: &str, options: &str| {
        format!(
            "CREATE TABLE {name} (k BIGINT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = '{}', \
             'format' = 'debezium-json'{options});",
            path.display()
        )
    };
    let mut session = Session::new(Default::default());
    // Several files of a few changes each.
    let ddl = "SET 'execution.runtime-mode' = 'streaming'; SET 'pipeline.beat-rows' = '10';
        CREATE TABLE ids (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '0',
            'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '2009');";
    session.run(ddl).unwrap();
    session.run(&table("log", ", 'sink.rolling-policy.file-size' = '10 kb'")).unwrap();
    session
        .run("INSERT INTO log SELECT id % 20, COUNT(*) FROM ids GROUP BY id % 20 HAVING MOD(COUNT(*), 3) <> 0")
        .unwrap();
    let files = std::fs::read_dir(&path).unwrap().count();
    assert!(files > 10, "{files} files");
    let expected: Bag = (0..20)
        .map(|k| (k, (1..=2009).filter(|id| id % 20 == k).count()))
        .filter(|(_, n)| n % 3 != 0)
        .map(|(k, n)| (format!("{k}|{n}"), 1))
        .collect();
    let mut batch = Session::new(Default::default());
    batch.run(&table("t", "")).unwrap();
    assert_eq!(answer(&mut batch, "SELECT * FROM t"), expected);
    for rows in ["1", "100", "0"] {
        let mut streamed = Session::new(Default::default());
        streamed.set("pipeline.beat-rows", rows).unwrap();
        streamed.run(&table("t", "")).unwrap();
        assert_eq!(rows_of(&mut streamed, "SELECT * FROM t"), expected, "beats of {rows} rows");
    }
    // Other formats cannot say that a row is gone.
    session.run(&format!(
        "CREATE TABLE plain (k BIGINT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json')",
        directory.path().join("plain").display()
    )).unwrap();
    let error = session.run("INSERT INTO plain SELECT id % 20, COUNT(*) FROM ids GROUP BY id % 20").unwrap_err();
    assert!(error.to_string().contains("debezium-json"), "{error}");
}

#[test]
fn a_bad_line_of_changes_is_found() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("log.json");
    let good = r#"{"before":null,"after":{"k":1,"n":1},"op":"c"}"#;
    std::fs::write(&path, format!("{good}\n\n{good}\n{{\"op\":\"t\"}}\n{good}\n")).unwrap();
    let run = |options: &str, key: &str| {
        let mut session = Session::new(Default::default());
        session.run(&format!(
            "CREATE TABLE t (k BIGINT, n BIGINT{key}) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'debezium-json'{options})",
            path.display()
        )).unwrap();
        let mut results = Collected::new();
        let statement = &session.parse("SELECT * FROM t").unwrap()[0];
        session.execute(statement, &mut results, &RunMonitor::new()).map(|_| bag(&results.into_batch().unwrap()))
    };
    let key = ", PRIMARY KEY (k) NOT ENFORCED";
    for key in [key, ""] {
        let error = run("", key).unwrap_err().to_string();
        assert!(error.contains("log.json") && error.contains("4") && error.contains("truncation"), "{error}");
    }
    let skipping = ", 'debezium-json.ignore-parse-errors' = 'true'";
    assert_eq!(run(skipping, key).unwrap(), Bag::from([("1|1".into(), 1)]));
    assert_eq!(run(skipping, "").unwrap(), Bag::from([("1|1".into(), 3)]));
}

/// What an INSERT into a table with the primary key `k` leaves in it, in beats of some rows.
fn inserted(query: &str, beat_rows: &str) -> Result<Bag, Diagnostic> {
    let directory = TempDir::new().unwrap();
    let ddl = format!(
        "CREATE TABLE log (k BIGINT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = '{}', \
         'format' = 'debezium-json');
         CREATE TABLE ids (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '0',
            'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '30');
         CREATE TABLE plain (k BIGINT, v BIGINT) WITH ('connector' = 'blackhole');",
        directory.path().join("log.json").display()
    );
    let mut session = Session::new(Default::default());
    session.set("pipeline.beat-rows", beat_rows).unwrap();
    session.set("table.exec.mini-batch.allow-latency", "1 h").unwrap();
    session.set("execution.runtime-mode", "streaming").unwrap();
    session.run(&ddl).unwrap();
    session.run(query)?;
    Ok(answer(&mut session, "SELECT * FROM log"))
}

#[test]
fn of_rows_with_one_primary_key_that_counts_which_on_conflict_says() {
    let of = |rows: &[&str]| -> Bag { rows.iter().map(|row| (row.to_string(), 1)).collect() };
    // Counts of 1 to 10 for the groups of 0 to 4, of which one that has 4 rows is not there.
    let groups = "SELECT g % 2, n * 10 + g FROM (SELECT id % 5 AS g, COUNT(*) AS n FROM ids GROUP BY id % 5 HAVING COUNT(*) <> 4)";
    for rows in ["1", "7", "0"] {
        let insert = |query: &str| inserted(&format!("INSERT INTO log {query}"), rows);
        let appended = "SELECT id % 3, id FROM ids";
        assert_eq!(insert(&format!("{appended} ON CONFLICT DO NOTHING")).unwrap(), of(&["0|3", "1|1", "2|2"]));
        assert_eq!(insert(&format!("{appended} ON CONFLICT DO DEDUPLICATE")).unwrap(), of(&["0|30", "1|28", "2|29"]));
        let error = insert(&format!("{appended} ON CONFLICT DO ERROR")).unwrap_err();
        assert!(error.code == code::DUPLICATE_KEY && error.message.contains("KEY ("), "{error}");
        let unique = insert("SELECT id + 100, id FROM ids WHERE id < 4 ON CONFLICT DO ERROR").unwrap();
        assert_eq!(unique, of(&["101|1", "102|2", "103|3"]));
        // Of rows that are taken back those with the least values, and the greatest.
        assert_eq!(insert(&format!("{groups} ON CONFLICT DO NOTHING")).unwrap(), of(&["0|60", "1|61"]));
        assert_eq!(insert(&format!("{groups} ON CONFLICT DO DEDUPLICATE")).unwrap(), of(&["0|64", "1|63"]));
        assert_eq!(insert(&format!("{groups} ON CONFLICT DO ERROR")).unwrap_err().code, code::DUPLICATE_KEY);
        // What is there in between does not conflict where no beat ends: each group is another key in the end.
        let moving = "SELECT n % 7 + g * 10, g FROM (SELECT id % 5 AS g, COUNT(*) AS n FROM ids GROUP BY id % 5)";
        let expected = of(&["6|0", "16|1", "26|2", "36|3", "46|4"]);
        assert_eq!(insert(&format!("{moving} ON CONFLICT DO ERROR")).unwrap(), expected);
        // A key that tells rows apart needs nothing.
        let told = "SELECT id % 5, COUNT(*) FROM ids GROUP BY id % 5 ON CONFLICT DO NOTHING";
        assert_eq!(insert(told).unwrap(), of(&["0|6", "1|6", "2|6", "3|6", "4|6"]));
        let error = insert(groups).unwrap_err();
        assert!(error.code == code::KEY_MISMATCH && error.to_string().contains("ON CONFLICT DO"), "{error}");
    }
    let refused = |query: &str| inserted(query, "0").unwrap_err();
    let error = refused("INSERT INTO plain SELECT id, id FROM ids ON CONFLICT DO NOTHING");
    assert!(error.code == code::INVALID_TABLE && error.message.contains("PRIMARY KEY"), "{error}");
    let error = refused("INSERT INTO log SELECT id, id FROM ids ON CONFLICT DO UPDATE");
    assert!(error.code == code::SYNTAX && error.message.contains("DEDUPLICATE"), "{error}");
}

#[test]
fn changes_come_and_go_over_connections() {
    let reader = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    // A port that was free a moment ago.
    let free = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let job = format!(
        "SET 'execution.runtime-mode' = 'streaming';
         CREATE TABLE t (k INT, v INT, PRIMARY KEY (k) NOT ENFORCED)
            WITH ('connector' = 'socket', 'mode' = 'server', 'port' = '{free}', 'format' = 'debezium-json');
         CREATE TABLE o (n BIGINT, s BIGINT) WITH ('connector' = 'socket', 'port' = '{}', 'format' = 'debezium-json');
         INSERT INTO o SELECT COUNT(*), SUM(v) FROM t;",
        reader.local_addr().unwrap().port()
    );
    let running = std::thread::spawn(move || Session::new(Default::default()).run(&job).map(drop));
    let mut lines = BufReader::new(reader.accept().unwrap().0).lines();
    let mut writer = loop {
        match TcpStream::connect(("127.0.0.1", free)) {
            Ok(writer) => break writer,
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let mut shown = serde_json::Value::Null;
    for (change, expected) in [
        (r#"{"before":null,"after":{"k":1,"v":10},"op":"c"}"#, (1, 10)),
        (r#"{"before":null,"after":{"k":2,"v":20},"op":"c"}"#, (2, 30)),
        (r#"{"before":{"k":1},"after":{"k":1,"v":15},"op":"u"}"#, (2, 35)),
        (r#"{"before":{"k":2},"after":null,"op":"d"}"#, (1, 15)),
    ] {
        std::io::Write::write_all(&mut writer, format!("{change}\n").as_bytes()).unwrap();
        // A beat without rows may come first.
        loop {
            let written: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            assert_eq!(written["before"], shown, "what is taken back is there");
            shown = written["after"].clone();
            if shown == serde_json::json!({ "n": expected.0, "s": expected.1 }) {
                break;
            }
        }
    }
    drop(writer);
    running.join().unwrap().unwrap();
    assert!(lines.next().is_none());
}
