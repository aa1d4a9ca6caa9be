//! Nexmark's events: generated once, then replayed from memory or written to files.

use crate::benchmarks::replay::{Replay, physical};
use crate::suite::{Failure, session};
use arrow_array::RecordBatch;
use millstream::Session;
use std::path::{Path, PathBuf};

/// Persons, auctions and bids of a round of 50 events.
const ROUND: [u64; 3] = [1, 3, 46];
const EVENTS_OF_ROUND: u64 = 50;
/// Events per millisecond of event time.
const EVENTS_PER_MS: u64 = 10;
/// More than the generator's ids reach beyond those of its persons and auctions.
const ID_LEAD: u64 = 1000;

const GENERATOR: &str = "CREATE TABLE events (
    event_type INT,
    person ROW<id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING,
               `dateTime` TIMESTAMP(3), extra STRING>,
    auction ROW<id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
                `dateTime` TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING>,
    bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3),
            extra STRING>";

const PERSON: &[(&str, &str)] = &[
    ("id", "BIGINT"),
    ("name", "STRING"),
    ("emailAddress", "STRING"),
    ("creditCard", "STRING"),
    ("city", "STRING"),
    ("state", "STRING"),
    ("dateTime", "TIMESTAMP(3)"),
    ("extra", "STRING"),
];
const AUCTION: &[(&str, &str)] = &[
    ("id", "BIGINT"),
    ("itemName", "STRING"),
    ("description", "STRING"),
    ("initialBid", "BIGINT"),
    ("reserve", "BIGINT"),
    ("dateTime", "TIMESTAMP(3)"),
    ("expires", "TIMESTAMP(3)"),
    ("seller", "BIGINT"),
    ("category", "BIGINT"),
    ("extra", "STRING"),
];
const BID: &[(&str, &str)] = &[
    ("auction", "BIGINT"),
    ("bidder", "BIGINT"),
    ("price", "BIGINT"),
    ("channel", "STRING"),
    ("url", "STRING"),
    ("dateTime", "TIMESTAMP(3)"),
    ("extra", "STRING"),
];

/// The generated events, by kind.
#[derive(Debug)]
pub(crate) struct Events {
    /// Persons, auctions, bids.
    pub(crate) tables: [Replay; 3],
}

/// A format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Parquet,
}

impl Format {
    /// As `'format'` wants it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Parquet => "parquet",
        }
    }
}

impl Events {
    /// Generates at least `events` events, in whole rounds.
    pub(crate) fn generate(events: u64, threads: usize) -> Result<Events, Failure> {
        let events = events.next_multiple_of(EVENTS_OF_ROUND);
        let mut session = session(threads)?;
        session.run(&format!("{GENERATOR}) WITH ('connector' = 'nexmark', 'events.num' = '{events}')"))?;
        let mut kinds = [("person", PERSON), ("auction", AUCTION), ("bid", BID)].into_iter().enumerate();
        let span = (events / EVENTS_PER_MS) as i64;
        let rounds = events / EVENTS_OF_ROUND;
        let [people, auctions] = [0, 1].map(|kind: usize| (ROUND[kind] * rounds + ID_LEAD) as i64);
        let mut next = || -> Result<Replay, Failure> {
            let (number, (name, columns)) = kinds.next().expect("three are asked for");
            let fields = columns.iter().map(|(field, _)| format!("{name}.`{field}`")).collect::<Vec<_>>().join(", ");
            let rows = session.query(&format!("SELECT {fields} FROM events WHERE event_type = {number}"))?;
            let shifts = match name {
                "person" => vec![("dateTime", span), ("id", people)],
                "auction" => vec![("dateTime", span), ("expires", span), ("id", auctions), ("seller", people)],
                _ => vec![("dateTime", span), ("auction", auctions), ("bidder", people)],
            };
            Ok(Replay { name, columns, delay: "'4' SECOND", time: "dateTime", shifts, rows })
        };
        Ok(Events { tables: [next()?, next()?, next()?] })
    }

    /// Rows of the named tables in one round.
    pub(crate) fn rows(&self, tables: &[&str]) -> u64 {
        self.tables.iter().filter(|t| tables.contains(&t.name)).map(|t| t.rows.num_rows() as u64).sum()
    }

    /// Makes `rounds` rounds the tables of the session.
    pub(crate) fn register(&self, session: &mut Session, rounds: u64) -> Result<(), Failure> {
        self.tables.iter().try_for_each(|table| table.register(session, rounds))
    }

    /// Files of one round in a folder, written unless they are there: one for each kind.
    pub(crate) fn files(&self, folder: &Path, format: Format) -> Result<[PathBuf; 3], Failure> {
        std::fs::create_dir_all(folder)?;
        let events = self.rows(&["person", "auction", "bid"]);
        let write = |table: &Replay| {
            let path = folder.join(format!("nexmark-{events}-{}.{}", table.name, format.name()));
            if !path.is_file() {
                table.write(1, &path, format.name())?;
            }
            Ok::<_, Failure>(path)
        };
        let [person, auction, bid] = &self.tables;
        Ok([write(person)?, write(auction)?, write(bid)?])
    }
}

/// The tables over files and their views, the same for Millstream and Flink: tests/nexmark/ddl_flat.sql.
pub(crate) fn over_files(files: &[PathBuf; 3], format: Format) -> Vec<String> {
    let mut statements = Vec::new();
    for ((name, columns), file) in [("person", PERSON), ("auction", AUCTION), ("bid", BID)].into_iter().zip(files) {
        statements.push(format!(
            "CREATE TABLE {name}_file ({}, ts AS CAST(TO_TIMESTAMP_LTZ(`dateTime`, 3) AS TIMESTAMP(3)),
             WATERMARK FOR ts AS ts - INTERVAL '4' SECOND)
             WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = '{}')",
            physical(columns),
            file.display(),
            format.name()
        ));
        let columns = columns.iter().map(|(column, _)| match *column {
            "dateTime" => "ts AS `dateTime`".to_string(),
            "expires" => "CAST(TO_TIMESTAMP_LTZ(expires, 3) AS TIMESTAMP(3)) AS expires".to_string(),
            column => format!("`{column}`"),
        });
        let columns = columns.collect::<Vec<_>>().join(", ");
        statements.push(format!("CREATE VIEW {name} AS SELECT {columns} FROM {name}_file"));
    }
    statements
}

/// All kinds in one stream, as Nexmark's topic has them: one round, and the views over it.
pub(crate) struct Combined {
    rows: RecordBatch,
}

impl Combined {
    /// Generates `events` events.
    pub(crate) fn generate(events: u64, threads: usize) -> Result<Combined, Failure> {
        let mut session = session(threads)?;
        session.run(&format!("{GENERATOR}) WITH ('connector' = 'nexmark', 'events.num' = '{events}')"))?;
        Ok(Combined { rows: session.query("SELECT event_type, person, auction, bid FROM events")? })
    }

    /// Makes the events a table of the session, and the views.
    pub(crate) fn register(&self, session: &mut Session) -> Result<(), Failure> {
        let starts = (0..self.rows.num_rows()).step_by(64 << 10);
        let batches = starts.map(|start| self.rows.slice(start, (64 << 10).min(self.rows.num_rows() - start)));
        let columns = GENERATOR.split_once('(').expect("a definition has columns").1;
        let columns = format!(
            "{columns}, `dateTime` AS CASE event_type WHEN 0 THEN person.`dateTime` WHEN 1 THEN auction.`dateTime`
                                    ELSE bid.`dateTime` END,
             WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND"
        );
        session.register("events", &columns, batches.collect())?;
        for (number, (name, columns)) in
            [("person", PERSON), ("auction", AUCTION), ("bid", BID)].into_iter().enumerate()
        {
            let columns = columns.iter().map(|(column, _)| match *column {
                "dateTime" => "`dateTime`".to_string(),
                column => format!("{name}.`{column}`"),
            });
            let columns = columns.collect::<Vec<_>>().join(", ");
            session.run(&format!("CREATE VIEW {name} AS SELECT {columns} FROM events WHERE event_type = {number}"))?;
        }
        Ok(())
    }
}
