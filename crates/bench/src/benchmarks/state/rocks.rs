//! The same aggregation with its state in RocksDB (Darwin, figures 1, 3 and 5): a read and a write of every record, as in the
//! state backend of Flink; and with the records of a batch grouped in memory first, with a read and a write of each of its keys.
//!
//! As in Flink, each thread has an instance for the keys that are its own; rows are looked at by all threads, which takes
//! next to nothing beside the rest. There is no log to recover from, and blocks are compressed with Snappy. Half of the memory is for
//! tables that are written, half for blocks that are read; RocksDB has [`LEAST`] at least, however small the budget is, because
//! it does little but compactions otherwise.

use super::Missed;
use super::budget::{ENTRY, ROWS_PER_KEY, TIMES};
use super::stream::value;
use super::watched::Emptied;
use super::windows::Window;
use super::{budget, median_of};
use crate::suite::{Across, Case, Checksum, Failure, Suite, System};
use rocksdb::{BlockBasedOptions, Cache, DB, Options, WriteOptions};
use std::collections::HashMap;
use std::path::Path;

/// Keys of the windows: more than there is memory for, and as many as in Darwin's figure 5, which all fit.
const MANY: u64 = 1_000_000;
const FEW: u64 = 15_000;
const FEW_ROWS: u64 = 4_000_000;
/// What RocksDB has at least, and Millstream for few keys.
const LEAST: u64 = 64 << 20;
/// Rows whose values are grouped.
const BATCH: u64 = 64 << 10;
/// How much faster than access by record we are to be.
const RATIO: f64 = 10.0;

/// How rows reach the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Record,
    Grouped,
}

/// Measures both windows.
pub(super) fn measure(suite: &mut Suite, missed: &mut Missed) -> Result<(), Failure> {
    let many = suite.rows(MANY);
    let window = budget::window(suite, many, ROWS_PER_KEY).within(many * ENTRY / TIMES);
    compare(suite, missed, &window)?;
    let few = budget::window(suite, FEW, suite.rows(FEW_ROWS).div_ceil(FEW)).within(LEAST);
    compare(suite, missed, &few)
}

fn compare(suite: &mut Suite, missed: &mut Missed, window: &Window) -> Result<(), Failure> {
    let name = format!("rocksdb/keys={}", window.keys);
    let directory = suite.options.directory.join("state-rocksdb");
    let rocks = |access: Access, system: &str| {
        let (window, directory) = (window.clone(), directory.clone());
        System::new(system, window.threads, move || {
            let directory = Emptied::new(directory.clone())?;
            aggregate(&window, access, directory.path())
        })
    };
    let case = Case::new(name.as_str(), window.rows())
        .with(window.system("millstream"))
        .with(rocks(Access::Record, "rocksdb/record"))
        .with(rocks(Access::Grouped, "rocksdb/grouped"));
    suite.measure(Across::Different, vec![case])?;
    let rate = |system: &str| median_of(suite, &name, system, "rows_per_s");
    let ratio = rate("millstream") / rate("rocksdb/record");
    missed.unless(ratio >= RATIO, || format!("{name}: {ratio:.1} times RocksDB with access by record"));
    Ok(())
}

/// Counts and sums by key, each thread those of its keys.
fn aggregate(window: &Window, access: Access, directory: &Path) -> Result<Checksum, Failure> {
    std::thread::scope(|scope| {
        let part = |thread: usize| {
            let path = directory.join(thread.to_string());
            scope
                .spawn(move || Store::open(window, &path)?.aggregate(window, access, thread).map_err(|e| e.to_string()))
        };
        let parts: Vec<_> = (0..window.threads).map(part).collect();
        parts
            .into_iter()
            .try_fold(Checksum::default(), |all, part| Ok(all.and(part.join().map_err(|_| "a thread panicked")??)))
    })
}

/// Count and sum of a key.
type State = (i64, i64);

/// An instance of RocksDB.
struct Store {
    db: DB,
    options: WriteOptions,
}

impl Store {
    fn open(window: &Window, path: &Path) -> Result<Store, String> {
        let memory = window.memory.unwrap_or(LEAST).max(LEAST) as usize / window.threads;
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_lru_cache(memory / 2));
        blocks.set_bloom_filter(10.0, false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&blocks);
        options.set_compression_type(rocksdb::DBCompressionType::Snappy);
        // Two: one is written while the other is stored.
        options.set_write_buffer_size(memory / 4);
        options.set_max_write_buffer_number(2);
        let db = DB::open(&options, path).map_err(|e| e.to_string())?;
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        Ok(Store { db, options })
    }

    fn aggregate(&self, window: &Window, access: Access, thread: usize) -> Result<Checksum, rocksdb::Error> {
        let (stream, rows) = (window.stream(), window.rows());
        let is_own = |key: i64| ((key as u64) >> 48) as usize % window.threads == thread;
        let own = |from: u64| {
            let batch = from..(from + BATCH).min(rows);
            batch.map(|row| (stream.key(row), value(row))).filter(|(key, _)| is_own(*key))
        };
        for from in (0..rows).step_by(BATCH as usize) {
            match access {
                Access::Record => own(from).try_for_each(|(key, value)| self.add(key, (1, value)))?,
                Access::Grouped => {
                    let mut grouped: HashMap<i64, State> = HashMap::new();
                    for (key, value) in own(from) {
                        let (count, sum) = grouped.entry(key).or_default();
                        (*count, *sum) = (*count + 1, *sum + value);
                    }
                    grouped.into_iter().try_for_each(|(key, state)| self.add(key, state))?;
                }
            }
        }
        self.fire()
    }

    /// Reads the state of a key, changes and writes it.
    fn add(&self, key: i64, (count, sum): State) -> Result<(), rocksdb::Error> {
        let key = key.to_be_bytes();
        let (before_count, before_sum) = self.db.get_pinned(key)?.map_or((0, 0), |bytes| decode(&bytes));
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(before_count + count).to_le_bytes());
        bytes[8..].copy_from_slice(&(before_sum + sum).to_le_bytes());
        self.db.put_opt(key, bytes, &self.options)
    }

    /// The window has ended: all that there is.
    fn fire(&self) -> Result<Checksum, rocksdb::Error> {
        let mut result = Checksum::default();
        for entry in self.db.iterator(rocksdb::IteratorMode::Start) {
            let (key, state) = entry?;
            let (count, sum) = decode(&state);
            // The window begins at 0.
            result.add(&[key[..].try_into().map_or(0, i64::from_be_bytes), 0, count, sum]);
        }
        Ok(result)
    }
}

fn decode(bytes: &[u8]) -> State {
    let number = |at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, i64::from_le_bytes);
    (number(0), number(8))
}
