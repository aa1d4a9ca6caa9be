//! Tables of the program that uses a session: sources of its own, and Arrow batches.
//!
//! Each has a number, unique in the process, that stands in the options of its catalog entry: tables of one name in the
//! catalogs of several queries are not mistaken for each other.

use millstream_connectors::{self as connectors, Frame, FrameReader, Source, SourceRequest};
use millstream_types::{Diagnostic, Options, Place, RecordLayout, code};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Value of the `connector` option of such tables. Statements of users cannot name it: there would be nothing behind it.
pub(crate) const CONNECTOR: &str = "memory";
/// Option of such tables: whether they are endless.
pub(crate) const ENDLESS: &str = "endless";
/// Option of such tables: the number.
pub(crate) const NUMBER: &str = "number";

/// Where the rows of a program's own table come from ([`crate::Session::register_source`]).
pub trait TableProvider: fmt::Debug + Send + Sync {
    /// Opens the table for a query. The request names the columns that it reads.
    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic>;

    /// Whether the table ends by itself.
    fn is_bounded(&self) -> bool;

    /// Whether its rows can be read again.
    fn is_repeatable(&self) -> bool {
        true
    }

    /// The layout of its rows, all physical columns of the table, if they are packed records whose columns can be read in
    /// place. Then requests may be of [`millstream_connectors::RequestOrigin::Record`].
    fn record_layout(&self) -> Option<&RecordLayout> {
        None
    }
}

/// The program's own tables by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryTables(BTreeMap<u64, Arc<dyn TableProvider>>);

impl MemoryTables {
    /// Adds a table; its number.
    pub(crate) fn add(&mut self, table: Arc<dyn TableProvider>) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.0.insert(number, table);
        number
    }

    /// Adds the tables of another query.
    pub(crate) fn extend(&mut self, others: &MemoryTables) {
        self.0.extend(others.0.iter().map(|(number, table)| (*number, Arc::clone(table))));
    }

    /// Forgets all but these.
    pub(crate) fn retain(&mut self, numbers: &[u64]) {
        self.0.retain(|number, _| numbers.contains(number));
    }

    /// The table with these options, if it is the program's own.
    pub(crate) fn of(&self, options: &Options) -> Option<&Arc<dyn TableProvider>> {
        self.0.get(&number(options)?)
    }
}

/// The number in the options of a table of the program.
pub(crate) fn number(options: &Options) -> Option<u64> {
    if options.get("connector") != Some(CONNECTOR) {
        return None;
    }
    options.get(NUMBER)?.parse().ok()
}

/// Whether a table with these options ends by itself.
pub(crate) fn is_bounded(options: &Options) -> bool {
    match options.get("connector") {
        Some(CONNECTOR) => options.get(ENDLESS) != Some("true"),
        _ => connectors::is_bounded(options),
    }
}

/// Refuses the connector in a statement of a user.
pub(crate) fn refuse(options: &[(String, String)]) -> Result<(), Diagnostic> {
    match options.iter().any(|(key, value)| key == "connector" && value == CONNECTOR) {
        true => Err(Diagnostic::new(
            code::UNKNOWN_CONNECTOR,
            format!("the connector '{CONNECTOR}' is for tables of programs"),
        )
        .at(Place::Option("connector".into()))
        .advise("register the data in the program; SQL has no rows for it")),
        false => Ok(()),
    }
}

/// Checks the options of a table as far as that is possible without opening it.
pub(crate) fn check(table: &str, options: &Options) -> Result<(), Diagnostic> {
    match options.get("connector") {
        Some(CONNECTOR) => Ok(()),
        _ => connectors::check_table_options(table, options),
    }
}

impl TableProvider for Frame {
    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
        Frame::open(self, request)
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

/// Batches that are made while a query reads them, once.
pub(crate) struct ReaderTable(Mutex<Option<FrameReader>>);

impl ReaderTable {
    pub(crate) fn new(reader: FrameReader) -> ReaderTable {
        ReaderTable(Mutex::new(Some(reader)))
    }
}

impl fmt::Debug for ReaderTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReaderTable")
    }
}

impl TableProvider for ReaderTable {
    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
        let reader = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let reader = reader.ok_or_else(|| {
            let message = format!("the rows of `{}` have been read: a reader gives them once", request.table);
            Diagnostic::new(code::READ_FAILED, message)
                .advise("give a new reader, or a table that holds the rows in memory")
        })?;
        connectors::open_reader(request, reader)
    }

    fn is_bounded(&self) -> bool {
        true
    }

    fn is_repeatable(&self) -> bool {
        false
    }
}
