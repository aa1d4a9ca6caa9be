//! Tables of earlier generations, and of this one that have become large: nobody writes to them any more, but their windows are
//! not complete.
//!
//! A frozen table is shared by the trigger, which will merge it, and by the checkpointing thread, which stores it. Whoever needs
//! its contents first seals it. When they are in a store, too, memory may be given back; they are read again, partition
//! by partition, when the window is merged.

use super::{Kind, OpenTables, Taken};
use crate::durable::blobs::{damaged, finish_checkpointed, unreadable};
use crate::ids::Generation;
use millstream_state::Partial;
use millstream_storage::{BlobRef, Damaged, PendingBlob, SpillFiles, Store, TableState};
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// See the module.
#[derive(Debug)]
pub(crate) struct Frozen {
    /// Of its rows.
    pub(super) generation: Generation,
    pub(super) kind: Kind,
    /// Most entries that it may have.
    pub(crate) entries: usize,
    form: Mutex<Form>,
    /// Where it is kept by checkpoints.
    pub(crate) kept: OnceLock<TableState>,
}

/// Generation of tables that belong before any cut to come.
const OLD: Generation = Generation(0);

#[derive(Debug)]
enum Form {
    /// As it was taken; absent while it is sealed.
    Table(Option<Taken>),
    Sealed(Arc<Partial>),
    Stored(Arc<Stored>),
}

/// The contents of a table in files.
#[derive(Debug)]
pub(crate) struct Stored {
    place: FilePlace,
    /// The blocks of each partition.
    partitions: Vec<Vec<BlobRef>>,
}

/// Whose files they are.
#[derive(Debug)]
enum FilePlace {
    /// Those of a checkpoint.
    Checkpoint(Arc<dyn Store>),
    /// The run's own.
    Spilled(Arc<SpillFiles>),
}

impl Frozen {
    /// A table of a generation that was taken.
    pub(super) fn new(table: Taken, generation: Generation) -> Frozen {
        let (kind, entries) = (table.kind(), table.len());
        Frozen { generation, kind, entries, form: Mutex::new(Form::Table(Some(table))), kept: OnceLock::new() }
    }

    /// A table of a checkpoint that a query is recovered from.
    pub(crate) fn restored(store: Arc<dyn Store>, state: TableState) -> Frozen {
        let entries = usize::try_from(state.entries).unwrap_or(usize::MAX);
        let stored = Stored { place: FilePlace::Checkpoint(store), partitions: state.partitions.clone() };
        let form = Mutex::new(Form::Stored(Arc::new(stored)));
        Frozen { generation: OLD, kind: Kind::Own, entries, form, kept: OnceLock::from(state) }
    }

    /// What one or more such tables have become, which is in no checkpoint.
    pub(crate) fn sealed(partial: Partial) -> Frozen {
        let (kind, entries) = (if partial.has_array() { Kind::Array } else { Kind::Own }, partial.len());
        let form = Mutex::new(Form::Sealed(Arc::new(partial)));
        Frozen { generation: OLD, kind, entries, form, kept: OnceLock::new() }
    }

    /// The same as part of a generation.
    pub(crate) fn of_generation(self, generation: Generation) -> Frozen {
        Frozen { generation, ..self }
    }

    /// A table that was taken when its slice was complete, shared.
    pub(crate) fn shared(table: Taken) -> Arc<Frozen> {
        match table {
            Taken::Frozen(table) => table,
            table => Arc::new(Frozen::new(table, OLD)),
        }
    }

    /// Its contents, if they are in files only.
    pub(crate) fn stored(&self) -> Option<Arc<Stored>> {
        match &*self.form.lock() {
            Form::Stored(stored) => Some(Arc::clone(stored)),
            Form::Table(_) | Form::Sealed(_) => None,
        }
    }

    /// Gives its memory up: what it has stands in files of the run, in these blocks of each partition.
    pub(crate) fn spill(&self, files: &Arc<SpillFiles>, partitions: Vec<Vec<BlobRef>>) {
        let stored = Stored { place: FilePlace::Spilled(Arc::clone(files)), partitions };
        let before = std::mem::replace(&mut *self.form.lock(), Form::Stored(Arc::new(stored)));
        drop(before);
    }

    /// Its immutable form, sealed or read if need be.
    pub(crate) fn partial(&self, tables: &OpenTables) -> Result<Arc<Partial>, Diagnostic> {
        let mut form = self.form.lock();
        let partial = match &mut *form {
            Form::Sealed(partial) => return Ok(Arc::clone(partial)),
            Form::Table(table) => {
                tables.seal(table.take().ok_or_else(|| Diagnostic::bug("a table was sealed twice"))?)?
            }
            Form::Stored(stored) => Arc::new(stored.read(0..stored.partitions.len(), tables)?),
        };
        *form = Form::Sealed(Arc::clone(&partial));
        Ok(partial)
    }
}

impl Stored {
    /// Whether they are in files of a checkpoint, whose blocks are larger than those that are spilled.
    pub(crate) fn is_of_checkpoint(&self) -> bool {
        matches!(self.place, FilePlace::Checkpoint(_))
    }

    /// Bytes in files.
    pub(crate) fn bytes(&self) -> u64 {
        self.partitions.iter().flatten().map(|blob| blob.bytes).sum()
    }

    /// Reads a blob of it.
    fn blob(&self, blob: &BlobRef) -> Result<Vec<u8>, Diagnostic> {
        self.finish(self.begin(blob))
    }

    fn failed(&self, what: &Damaged) -> Diagnostic {
        match &self.place {
            FilePlace::Checkpoint(_) => damaged(what.clone()),
            FilePlace::Spilled(_) => unreadable(what.clone()),
        }
    }

    /// The entries of a range of partitions.
    pub(crate) fn read(&self, range: Range<usize>, tables: &OpenTables) -> Result<Partial, Diagnostic> {
        let blocks = self.blocks_of(range)?;
        let partial = Partial::restore(&tables.layout, &tables.types, &tables.budget, &blocks);
        partial.map_err(|what| self.failed(&what))
    }

    /// All entries, which are in `1 << bits` partitions here, in those of the tables.
    pub(crate) fn repartitioned(&self, bits: u32, tables: &OpenTables) -> Result<Partial, Diagnostic> {
        let (OpenTables { layout, types, budget, .. }, blocks) = (tables, self.blocks_of(0..self.partitions.len())?);
        let partial = Partial::restore_repartitioned(layout, bits, types, budget, &blocks);
        partial.map_err(|what| self.failed(&what))
    }

    fn blocks_of(&self, range: Range<usize>) -> Result<Vec<Vec<u8>>, Diagnostic> {
        self.partitions[range].iter().flatten().map(|blob| self.blob(blob)).collect()
    }

    /// Whether it has nothing in a partition.
    pub(crate) fn is_empty(&self, partition: usize) -> bool {
        self.partitions[partition].is_empty()
    }

    /// Number of partitions.
    pub(crate) fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// The blocks of a partition, as they were written.
    pub(crate) fn blocks(&self, partition: usize) -> impl Iterator<Item = Result<Vec<u8>, Diagnostic>> {
        self.partitions[partition].iter().map(|blob| self.blob(blob))
    }

    fn begin(&self, blob: &BlobRef) -> PendingBlob {
        match &self.place {
            FilePlace::Checkpoint(store) => blob.begin(&**store),
            FilePlace::Spilled(files) => files.begin(blob),
        }
    }

    fn finish(&self, pending: PendingBlob) -> Result<Vec<u8>, Diagnostic> {
        match &self.place {
            FilePlace::Checkpoint(store) => finish_checkpointed(pending, &**store),
            FilePlace::Spilled(files) => files.finish(pending).map_err(unreadable),
        }
    }
}

/// Blocks of more bytes are not read ahead: there may be one of each of hundreds of tables.
const READ_AHEAD: u64 = 1 << 20;

/// The blocks of a partition of a table in files, each of them on its way while the one before is worked on, unless it is large.
pub(crate) struct StoredBlocks {
    table: Arc<Stored>,
    partition: usize,
    /// Number of the next block.
    next: usize,
    /// That block, if it is on its way.
    pending: Option<PendingBlob>,
    tables: Arc<OpenTables>,
}

impl StoredBlocks {
    /// Begins to read a partition.
    pub(crate) fn new(table: Arc<Stored>, partition: usize, tables: &Arc<OpenTables>) -> StoredBlocks {
        let mut blocks = StoredBlocks { table, partition, next: 0, pending: None, tables: Arc::clone(tables) };
        blocks.read_ahead();
        blocks
    }

    fn read_ahead(&mut self) {
        let blob = self.table.partitions[self.partition].get(self.next).filter(|blob| blob.bytes <= READ_AHEAD);
        self.pending = blob.map(|blob| self.table.begin(blob));
    }
}

impl Iterator for StoredBlocks {
    type Item = Result<Partial, Diagnostic>;

    fn next(&mut self) -> Option<Result<Partial, Diagnostic>> {
        let table = Arc::clone(&self.table);
        let blob = table.partitions[self.partition].get(self.next)?;
        let pending = self.pending.take().unwrap_or_else(|| table.begin(blob));
        self.next += 1;
        self.read_ahead();
        let restore = |block: Vec<u8>| {
            let OpenTables { layout, types, budget, .. } = &*self.tables;
            let restored = Partial::restore(layout, types, budget, &[block]);
            restored.map_err(|what| self.table.failed(&what))
        };
        Some(self.table.finish(pending).and_then(restore))
    }
}
