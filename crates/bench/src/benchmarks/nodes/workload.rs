//! Streams in files that several nodes read: every row follows from its number, so any number of files has the same rows.
//!
//! A file has every n-th row, so that each spans all event times, and nodes that read different files have the same watermarks.

use super::distinct;
use crate::suite::{Failure, session};
use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, Float64Array, Int8Array, Int32Array, Int64Array, RecordBatch, TimestampMillisecondArray};
use millstream::{DataType, Field, Schema};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// Rows of a batch, and of a message of a file.
const BATCH: u64 = 64 << 10;
/// What parts of amounts are whole numbers, so that sums are exact in any order.
const PARTS: f64 = 64.0;
/// Of the windows of all workloads but [`ADS`].
const WINDOW_MS: u64 = 10_000;
/// Persons between two of which so many auctions are (Nexmark: one of four is of another one).
const HOT: u64 = 100;

/// How many rows there are, of how many keys, in how much event time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StreamShape {
    /// Of the largest table.
    pub(super) rows: u64,
    pub(super) keys: u64,
    pub(super) windows: u64,
}

impl StreamShape {
    /// The same with fewer windows.
    pub(super) fn first(self, windows: u64) -> StreamShape {
        StreamShape { rows: self.rows / self.windows * windows, windows, ..self }
    }

    fn rows_per_window(self) -> u64 {
        (self.rows / self.windows).max(1)
    }

    /// Event time of a row, of a table that has one row where the largest has `share`.
    fn time(self, row: u64, share: u64) -> i64 {
        (u128::from(row * share) * u128::from(WINDOW_MS) / u128::from(self.rows_per_window())) as i64
    }

    /// Keys that a node of so many sees in a slice, of rows of which one in `kept` counts.
    pub(super) fn keys_of_node(self, nodes: u64, kept: u64) -> f64 {
        distinct(self.keys as f64, self.rows_per_window() as f64 / (kept * nodes) as f64)
    }
}

/// A stream of a workload.
#[derive(Debug)]
pub(super) struct Table {
    name: &'static str,
    columns: &'static [(&'static str, DataType)],
    /// The largest table has so many rows where this has one.
    share: u64,
    make: fn(&Table, StreamShape, &[u64]) -> Vec<ArrayRef>,
}

/// Streams and a query.
#[derive(Debug)]
pub(super) struct NodeQuery {
    pub(super) name: &'static str,
    pub(super) tables: &'static [Table],
    /// Definitions besides those of the tables.
    views: &'static str,
    pub(super) query: &'static str,
    /// The rows of the result, as columns of a table.
    pub(super) result: &'static str,
}

const TIME: DataType = DataType::Timestamp(3);

const EVENTS: Table = Table {
    name: "events",
    columns: &[("event_type", DataType::TinyInt), ("campaign", DataType::BigInt), ("ts", TIME)],
    share: 1,
    make: |table, shape, rows| {
        let keys = Int64Array::from_iter_values(rows.iter().map(|row| below(*row, shape.keys)));
        vec![types(rows), Arc::new(keys), table.times(shape, rows)]
    },
};

/// Views by campaign and 10 s.
pub(super) const YSB: NodeQuery = NodeQuery {
    name: "ysb",
    tables: &[EVENTS],
    views: "",
    query: "SELECT campaign, window_start, COUNT(*) AS n
            FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))
            WHERE event_type = 0 GROUP BY campaign, window_start, window_end",
    result: "campaign BIGINT, w TIMESTAMP(3), n BIGINT",
};
/// The same of campaigns that are scattered over 64 bits.
pub(super) const SCATTERED: NodeQuery = NodeQuery {
    name: "scattered",
    tables: &[Table {
        make: |table, shape, rows| {
            // Odd, so that different numbers give different keys.
            let key = |row: &u64| below(*row, shape.keys).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64);
            let keys = Int64Array::from_iter_values(rows.iter().map(key));
            vec![types(rows), Arc::new(keys), table.times(shape, rows)]
        },
        ..EVENTS
    }],
    ..YSB
};
/// Of the rows of [`YSB`] one in so many is a view.
pub(super) const VIEWS: u64 = 3;

/// Sessions of the same views, which exchange rows.
pub(super) const BY_ROWS: NodeQuery = NodeQuery {
    name: "rows",
    views: "CREATE VIEW views AS SELECT campaign, ts FROM events WHERE event_type = 0;\n",
    query: "SELECT campaign, window_start, COUNT(*) AS n
            FROM TABLE(SESSION(TABLE views PARTITION BY campaign, DESCRIPTOR(ts), INTERVAL '10' SECOND))
            GROUP BY campaign, window_start, window_end",
    ..YSB
};

/// Nexmark's q8.
pub(super) const Q8: NodeQuery = NodeQuery {
    name: "q8",
    tables: &[
        Table {
            name: "person",
            columns: &[("id", DataType::BigInt), ("name", DataType::STRING), ("ts", TIME)],
            share: 3,
            make: |table, shape, rows| {
                let (mut names, mut name) = (StringViewBuilder::with_capacity(rows.len()), String::new());
                for row in rows {
                    name.clear();
                    // Writing to a String cannot fail.
                    let _ = write!(name, "p {row:x}");
                    names.append_value(&name);
                }
                let ids = Int64Array::from_iter_values(rows.iter().map(|row| *row as i64));
                vec![Arc::new(ids), Arc::new(names.finish()), table.times(shape, rows)]
            },
        },
        Table {
            name: "auction",
            columns: &[("seller", DataType::BigInt), ("ts", TIME)],
            share: 1,
            make: |table, shape, rows| {
                // Persons of the window of an auction, and of those the last one that is hot.
                let persons = shape.rows_per_window() / 3;
                let seller = |row: &u64| {
                    let (window, person) = (row / shape.rows_per_window(), row / 3);
                    match mixed(*row) % 4 {
                        0 => (window * persons) as i64 + below(*row, persons.max(1)),
                        _ => (person - person % HOT) as i64,
                    }
                };
                vec![Arc::new(Int64Array::from_iter_values(rows.iter().map(seller))), table.times(shape, rows)]
            },
        },
    ],
    views: "",
    query: "SELECT p.id, p.name, p.starttime
            FROM (SELECT id, name, window_start AS starttime, window_end AS endtime
                  FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(ts), INTERVAL '10' SECOND))
                  GROUP BY id, name, window_start, window_end) AS p
            JOIN (SELECT seller, window_start AS starttime, window_end AS endtime
                  FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(ts), INTERVAL '10' SECOND))
                  GROUP BY seller, window_start, window_end) AS s
            ON s.seller = p.id AND s.starttime = p.starttime AND s.endtime = p.endtime",
    result: "id BIGINT, name STRING, w TIMESTAMP(3)",
};

/// Ads and purchases: the columns that the query of the benchmark `ads` reads.
pub(super) const ADS: NodeQuery = NodeQuery {
    name: "ads",
    tables: &[
        Table {
            name: "ads",
            columns: &[("ad_id", DataType::Int), ("cost", DataType::Double), ("ts", TIME)],
            share: 1,
            make: amounts,
        },
        Table {
            name: "purchases",
            columns: &[("ad_id", DataType::Int), ("cost", DataType::Double), ("ts", TIME)],
            share: 1,
            make: amounts,
        },
    ],
    views: "",
    query: "SELECT a.ad_id, a.window_start, p.total - a.total
            FROM (SELECT ad_id, window_start, window_end, SUM(cost) AS total
                  FROM TABLE(HOP(TABLE ads, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECOND))
                  GROUP BY ad_id, window_start, window_end) AS a
            JOIN (SELECT ad_id, window_start, window_end, SUM(cost) AS total
                  FROM TABLE(HOP(TABLE purchases, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECOND))
                  WHERE ad_id <> 0 GROUP BY ad_id, window_start, window_end) AS p
            ON a.ad_id = p.ad_id AND a.window_start = p.window_start AND a.window_end = p.window_end",
    result: "ad_id INT, w TIMESTAMP(3), profit DOUBLE",
};

/// Types of events: a third are views, 0.
fn types(rows: &[u64]) -> ArrayRef {
    Arc::new(Int8Array::from_iter_values(rows.iter().map(|row| (mixed(*row) % VIEWS) as i8)))
}

fn amounts(table: &Table, shape: StreamShape, rows: &[u64]) -> Vec<ArrayRef> {
    // Other numbers than those of the other table.
    let row = |row: &u64| 2 * row + u64::from(table.name == "ads");
    let amount = |number: u64| (mixed(!number) % (100 * PARTS as u64)) as f64 / PARTS;
    vec![
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|r| below(row(r), shape.keys) as i32))),
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|r| amount(row(r))))),
        table.times(shape, rows),
    ]
}

/// A random number that follows from another one (splitmix64).
fn mixed(number: u64) -> u64 {
    let mut hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash >> 32
}

/// A number below `end` that follows from the row.
fn below(row: u64, end: u64) -> i64 {
    ((mixed(row ^ 0x5555_0000_0000_0000) * end) >> 32) as i64
}

impl Table {
    fn times(&self, shape: StreamShape, rows: &[u64]) -> ArrayRef {
        Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| shape.time(*row, self.share))))
    }

    fn rows(&self, shape: StreamShape) -> u64 {
        shape.rows / self.share
    }

    /// Names and types of the columns in SQL.
    fn columns(&self) -> String {
        let column = |(name, of_type): &(&str, DataType)| format!("{name} {of_type} NOT NULL");
        self.columns.iter().map(column).collect::<Vec<_>>().join(", ")
    }

    /// Writes one of `files` files.
    fn write(&self, shape: StreamShape, (file, files): (u64, u64), path: &Path) -> Result<(), Failure> {
        let fields = self.columns.iter().map(|(name, of_type)| Field::new(*name, of_type.clone(), false)).collect();
        let schema = Schema::new(fields).to_arrow();
        let batch = |first: u64| {
            let end = self.rows(shape).min(first + BATCH * files);
            let rows: Vec<u64> = (first..end).step_by(files as usize).collect();
            Ok(RecordBatch::try_new(schema.clone(), (self.make)(self, shape, &rows))?)
        };
        let firsts = (file..self.rows(shape)).step_by((BATCH * files) as usize);
        let batches = firsts.map(batch).collect::<Result<Vec<_>, Failure>>()?;
        let mut session = session(1)?;
        session.set("pipeline.tier", "interpreted")?;
        session.register("made", &self.columns(), batches)?;
        Ok(session.run(&format!(
            "CREATE TABLE kept ({}) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'arrow');
             INSERT INTO kept SELECT * FROM made",
            self.columns(),
            path.display()
        ))?)
    }
}

impl NodeQuery {
    /// Rows of all tables.
    pub(super) fn rows(&self, shape: StreamShape) -> u64 {
        self.tables.iter().map(|table| table.rows(shape)).sum()
    }

    /// Writes the rows into so many files of each table.
    pub(super) fn write(&self, directory: &Path, shape: StreamShape, files: u64) -> Result<(), Failure> {
        for table in self.tables {
            let folder = directory.join(table.name);
            std::fs::create_dir_all(&folder)?;
            for file in 0..files {
                table.write(shape, (file, files), &folder.join(format!("{file:02}.arrow")))?;
            }
        }
        Ok(())
    }

    /// Links the files into a folder that one of some nodes reads.
    pub(super) fn link(
        &self,
        directory: &Path,
        files: u64,
        (node, nodes): (u64, u64),
        into: &Path,
    ) -> Result<(), Failure> {
        for (number, table) in (0..).zip(self.tables) {
            let (from, to) = (directory.join(table.name), into.join(table.name));
            std::fs::create_dir_all(&to)?;
            for file in (0..files).filter(|file| (number + file) % nodes == node) {
                let name = format!("{file:02}.arrow");
                std::fs::hard_link(from.join(&name), to.join(&name))?;
            }
        }
        Ok(())
    }

    /// Statements that define the tables.
    pub(super) fn tables(&self, directory: &Path) -> String {
        self.tables_with(directory, "")
    }

    /// The same with more options.
    pub(super) fn tables_with(&self, directory: &Path, options: &str) -> String {
        let definition = |table: &Table| {
            format!(
                "CREATE TABLE {} ({}, WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND)
                 WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'arrow'{options});\n",
                table.name,
                table.columns(),
                directory.join(table.name).display()
            )
        };
        self.tables.iter().map(definition).collect::<String>() + self.views
    }
}
