//! Apache Flink: YSB and Nexmark, in a Java process that replays the same rows from memory or reads the same files.

use super::nexmark::data::{Events, Format, over_files};
use super::nexmark::{QUERIES, Query, UPDATING, prepared, side_input};
use super::ysb_stream;
use crate::suite::{Across, Benchmark, Case, Failure, Peer, Runs, Suite, System, discard, first_checked, session};
use serde_json::json;
use std::cell::RefCell;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "flink",
    title: "beside Apache Flink's SQL",
    data: "YSB: 3 M rows, replayed 8 times; Nexmark: 1 M events, replayed up to 16 times, and files of JSON lines of as many",
    query: "views per campaign and 10 s; those of benchmark nexmark, and those whose results are updated (q4, q9, q15 to q19), the same
            text for both. The latter are changelogs: Flink with mini-batches of 2 s or 50,000 rows and split distinct aggregates,
            Millstream with its default beats",
    measured: "Millstream: the whole query, compilation included. Flink: in its own process with as many slots as threads, object
               reuse, no checkpoints; from the first row that a source hands out to the end of the job, for files from the
               submission of the job. Sinks throw rows away, but for the first run, which is not measured and adds them up",
    runs: Runs::Named,
    run,
};

const EVENTS: u64 = 1_000_000;
const YSB_ROUNDS: u64 = 8;
/// Where scripts/flink.sh puts Flink and the program.
const JARS: &str = "MILLSTREAM_BENCH_FLINK";
const HEAP: &str = "-Xmx6g";
/// What Flink's scripts open to it as well.
const OPENED: [&str; 4] = ["java.util", "java.lang", "java.nio", "java.time"];

fn run(suite: &mut Suite) -> Result<(), Failure> {
    let flink = Rc::new(RefCell::new(start(suite.threads())?));
    ysb(suite, &flink)?;
    let (events, threads) = (suite.rows(EVENTS), suite.threads());
    let generated = suite.generate("the events", || Events::generate(events, threads))?;
    let files = suite.generate("files", || generated.files(&suite.options.directory, Format::Json))?;
    nexmark(suite, &flink, &generated, &files)?;
    updating(suite, &flink, &generated, &files)
}

/// The process, ready for queries.
fn start(threads: usize) -> Result<Peer, Failure> {
    let jars = std::env::var(JARS).unwrap_or_else(|_| "target/bench/flink".into());
    let mut command = Command::new("java");
    command.arg(HEAP).args(OPENED.map(|package| format!("--add-opens=java.base/{package}=ALL-UNNAMED")));
    command.args(["-cp", &format!("{jars}/*:{jars}/lib/*"), "millstream.bench.Main", &threads.to_string()]);
    let advice = format!("Flink does not start from {jars}: scripts/flink.sh builds and runs it (Java 17 and Maven)");
    Peer::start(&mut command).ok_or_else(|| advice.into())
}

/// Flink with these tables; its first run adds the rows up.
fn system(
    flink: &Rc<RefCell<Peer>>,
    threads: usize,
    settings: &[(&str, &str)],
    setup: &[String],
    query: &str,
) -> System<'static> {
    let query = query.trim().trim_end_matches(';');
    let settings: serde_json::Map<_, _> =
        settings.iter().map(|(name, value)| (name.to_string(), (*value).into())).collect();
    let request = |check| json!({ "settings": settings, "setup": setup, "query": query, "check": check }).to_string();
    let mut requests = std::iter::once(request(true)).chain(std::iter::repeat(request(false)));
    let flink = Rc::clone(flink);
    System::measured("flink", threads, move || {
        flink.borrow_mut().ask(&requests.next().expect("the last one is repeated"))
    })
}

fn ysb(suite: &mut Suite, flink: &Rc<RefCell<Peer>>) -> Result<(), Failure> {
    let threads = suite.threads();
    let views = ysb_stream::generate(suite.rows(ysb_stream::ROWS));
    std::fs::create_dir_all(&suite.options.directory)?;
    let file = suite.options.directory.join(format!("ysb-{}.json", views.rows.num_rows()));
    views.write(1, &file, Format::Json.name())?;
    let mut session = session(threads)?;
    views.register(&mut session, YSB_ROUNDS)?;
    let case = Case::new("ysb/memory", views.rows.num_rows() as u64 * YSB_ROUNDS)
        .with(first_checked(threads, session, discard, ysb_stream::QUERY))
        .with(system(flink, threads, &[], &[views.flink(&file, YSB_ROUNDS)], ysb_stream::QUERY));
    suite.measure(Across::Different, vec![case])?;
    Ok(())
}

/// The tables of a query in Flink, which replays their rows.
fn replayed(generated: &Events, files: &[PathBuf; 3], query: &Query) -> Vec<String> {
    let tables = generated.tables.iter().zip(files).filter(|(table, _)| query.tables.contains(&table.name));
    tables.map(|(table, file)| table.flink(file, query.flink_rounds)).collect()
}

fn nexmark(
    suite: &mut Suite,
    flink: &Rc<RefCell<Peer>>,
    generated: &Events,
    files: &[PathBuf; 3],
) -> Result<(), Failure> {
    let threads = suite.threads();
    for query in QUERIES {
        let rounds = query.flink_rounds;
        let mut setup = replayed(generated, files, query);
        setup.push(side_input());
        let mut session = prepared(threads)?;
        generated.register(&mut session, rounds)?;
        let case = Case::new(format!("nexmark/{}", query.name), generated.rows(query.tables) * rounds)
            .with(first_checked(threads, session, discard, query.sql))
            .with(system(flink, threads, &[], &setup, query.sql));
        suite.measure(Across::Different, vec![case])?;
    }
    for query in QUERIES {
        let mut setup = over_files(files, Format::Json);
        let mut session = prepared(threads)?;
        setup.iter().try_for_each(|sql| session.run(sql))?;
        setup.push(side_input());
        let case = Case::new(format!("nexmark files/{}", query.name), generated.rows(query.tables))
            .with(first_checked(threads, session, discard, query.sql))
            .with(system(flink, threads, &[], &setup, query.sql));
        suite.measure(Across::Different, vec![case])?;
    }
    Ok(())
}

/// Mini-batches as the authors of the benchmark set them for Flink.
const MINI_BATCHES: [(&str, &str); 4] = [
    ("table.exec.mini-batch.enabled", "true"),
    ("table.exec.mini-batch.allow-latency", "2 s"),
    ("table.exec.mini-batch.size", "50000"),
    ("table.optimizer.distinct-agg.split.enabled", "true"),
];

fn updating(
    suite: &mut Suite,
    flink: &Rc<RefCell<Peer>>,
    generated: &Events,
    files: &[PathBuf; 3],
) -> Result<(), Failure> {
    let threads = suite.threads();
    for query in UPDATING {
        let rounds = query.flink_rounds;
        let setup = replayed(generated, files, query);
        let mut session = prepared(threads)?;
        session
            .run("SET 'execution.runtime-mode' = 'streaming'; SET 'sql-client.execution.result-mode' = 'changelog'")?;
        generated.register(&mut session, rounds)?;
        let systems = [
            first_checked(threads, session, discard, query.sql),
            system(flink, threads, &MINI_BATCHES, &setup, query.sql),
        ];
        let case = Case::new(format!("nexmark updating/{}", query.name), generated.rows(query.tables) * rounds);
        // Flink reads a table by several readers, so it breaks ties in another order.
        let case = match query.name {
            "q18" | "q19" => case.with_all(systems.into_iter().map(System::counted)),
            _ => case.with_all(systems),
        };
        suite.measure(Across::Different, vec![case])?;
    }
    Ok(())
}
