//! Tables of the program that uses a session: sources and sinks of its own, and Arrow batches.
//!
//! Each has a number, unique in the process, that stands in the options of its catalog entry: tables of one name in the
//! catalogs of several queries are not mistaken for each other.

use crate::portable::OtherNodes;
use millstream_connectors::{self as connectors, Frame, FrameReader, Sink, SinkRequest, Source, SourceRequest};
use millstream_types::{Diagnostic, Options, Place, RecordLayout, TakesChanges, code};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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

    /// How long a split may be silent before it no longer holds the watermark back; `None`: for as long as it likes.
    fn idle_timeout(&self) -> Option<Duration> {
        None
    }

    /// Whether its rows can be read again.
    fn is_repeatable(&self) -> bool {
        true
    }

    /// Whether there may be a NULL in a physical column. Code for one without looks for none.
    fn may_be_null(&self, column: usize) -> bool {
        let _ = column;
        true
    }

    /// What other nodes have of it.
    fn on_other_nodes(&self) -> OtherNodes<'_> {
        OtherNodes::Nothing
    }

    /// The layout of its rows, all physical columns of the table, if they are packed records whose columns can be read in
    /// place. Then requests may be of [`millstream_connectors::RequestOrigin::Record`].
    fn record_layout(&self) -> Option<&RecordLayout> {
        None
    }
}

/// Where the rows go that are written into a program's own table ([`crate::Session::register_sink`]).
pub trait SinkProvider: fmt::Debug + Send + Sync {
    /// Opens the table for a run of that number (see [`crate::RunMonitor::run`]). Columns are of the Arrow types of the request's schema.
    fn open(&self, request: &SinkRequest, run: u64) -> Result<Box<dyn Sink>, Diagnostic>;
}

/// A table of the program.
#[derive(Debug, Clone)]
pub(crate) enum MemoryTable {
    Source(Arc<dyn TableProvider>),
    /// The same of data that the program has: registering other data under its name replaces it.
    Local(Arc<dyn TableProvider>),
    Sink(Arc<dyn SinkProvider>),
}

/// The program's own tables by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryTables(BTreeMap<u64, MemoryTable>);

impl MemoryTables {
    /// Adds a table; its number.
    pub(crate) fn add(&mut self, table: MemoryTable) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.0.insert(number, table);
        number
    }

    /// Adds the tables of another query.
    pub(crate) fn extend(&mut self, others: &MemoryTables) {
        self.0.extend(others.0.iter().map(|(number, table)| (*number, table.clone())));
    }

    /// Forgets all but these.
    pub(crate) fn retain(&mut self, numbers: &[u64]) {
        self.0.retain(|number, _| numbers.contains(number));
    }

    /// The table with these options, if it is the program's own and can be read.
    pub(crate) fn source(&self, options: &Options) -> Option<&Arc<dyn TableProvider>> {
        self.read(number(options)?)
    }

    /// The table of this number, if it can be read.
    pub(crate) fn read(&self, number: u64) -> Option<&Arc<dyn TableProvider>> {
        match self.0.get(&number)? {
            MemoryTable::Source(table) | MemoryTable::Local(table) => Some(table),
            MemoryTable::Sink(_) => None,
        }
    }

    /// The table with these options, if it is the program's own and can be written.
    pub(crate) fn sink(&self, options: &Options) -> Option<&Arc<dyn SinkProvider>> {
        match self.0.get(&number(options)?)? {
            MemoryTable::Sink(table) => Some(table),
            MemoryTable::Source(_) | MemoryTable::Local(_) => None,
        }
    }

    /// Whether the table with these options is data that the program has.
    pub(crate) fn is_local(&self, options: &Options) -> bool {
        number(options).is_some_and(|number| matches!(self.0.get(&number), Some(MemoryTable::Local(_))))
    }
}

/// Opens a table of the program for reading.
pub(crate) fn open_source(tables: &MemoryTables, request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
    let table = tables.source(&request.options).ok_or_else(|| {
        let message = format!("`{}` is a sink of the program, and cannot be read", request.table);
        Diagnostic::new(code::NOT_A_SOURCE, message).advise("use it in INSERT INTO only")
    })?;
    table.open(request)
}

/// Opens a table of the program for writing.
pub(crate) fn open_sink(tables: &MemoryTables, request: &SinkRequest, run: u64) -> Result<Box<dyn Sink>, Diagnostic> {
    let table = tables.sink(&request.options).ok_or_else(|| {
        let message = format!("`{}` is a table of the program that is only read", request.table);
        Diagnostic::new(code::NOT_A_SINK, message).advise("use it in FROM only")
    })?;
    if let Some((_, key)) = request.metadata.first() {
        let message = format!("a sink of the program has no metadata, such as '{key}'");
        return Err(Diagnostic::new(code::INVALID_TABLE, message).advise("make it a column like the others"));
    }
    table.open(request, run)
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

/// Which changes a table with these options can be given.
pub(crate) fn takes_changes(options: &Options) -> TakesChanges {
    match options.get("connector") {
        Some(CONNECTOR) => TakesChanges::Nothing,
        _ => connectors::takes_changes(options),
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

    fn may_be_null(&self, column: usize) -> bool {
        Frame::may_be_null(self, column)
    }

    fn on_other_nodes(&self) -> OtherNodes<'_> {
        OtherNodes::Batches(self.batches())
    }
}

/// A table that another process has: queries are bound to it, and none reads or writes it here.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) is_bounded: bool,
}

impl TableProvider for Declared {
    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
        Err(Diagnostic::bug(format!("`{}` is read on a node that does not have it", request.table)))
    }

    fn is_bounded(&self) -> bool {
        self.is_bounded
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
