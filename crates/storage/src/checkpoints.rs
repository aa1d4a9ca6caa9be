//! The checkpoints of a job in a store: which there are, which are whole, which can go.
//!
//! Several processes may write at a time, of which only the newest is meant ([`crate::run`]): in an object store, and where a lock
//! was removed. The number of the run is in the names of files, and `from-<run>-<checkpoint>` says where a run has begun: what an earlier
//! run has written behind that is void.
//!
//! A savepoint is a copy of a manifest under a name, `savepoint-<name>.json`: the files that it names stay as long as it does.

use crate::bytes::Damaged;
use crate::manifest::Manifest;
use crate::nodes::NodeManifest;
use crate::objects::is_unavailable;
use crate::pack::PackWriter;
use crate::run::Run;
use crate::store::{Store, StoredFile};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Held while files are removed and while a savepoint is made: what it names must not go meanwhile. Both are done by the process that owns
/// the store.
static CHANGING: Mutex<()> = Mutex::new(());

/// See the module.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    store: Arc<dyn Store>,
    /// That of this process; `None` of one that looks at them.
    run: Option<Arc<Run>>,
    /// Of a node that writes a part of them: its number and the attempt of the job.
    part: Option<(usize, u64)>,
}

/// A checkpoint that is there.
#[derive(Debug)]
pub struct Listed {
    /// Its number.
    pub checkpoint: u64,
    /// Its manifest, or what is wrong with it.
    pub manifest: Result<Manifest, Damaged>,
}

/// A checkpoint that is kept under a name.
#[derive(Debug)]
pub struct Savepoint {
    /// Its name.
    pub name: String,
    /// Its manifest, or what is wrong with it.
    pub manifest: Result<Manifest, Damaged>,
}

/// The numbers in the name of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FileNumbers {
    checkpoint: u64,
    /// 0 of stores that nobody else writes to.
    run: u64,
}

const MANIFEST: &str = "checkpoint-";
const STATE: &str = "state-";
const FROM: &str = "from-";
const SAVEPOINT: &str = "savepoint-";
const JSON: &str = ".json";

/// Whether a savepoint can have this name: a letter, then letters, digits, `.`, `_` and `-`, all of ASCII; at most 64. So it is no number,
/// and a name of a file everywhere.
pub fn is_savepoint_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.bytes().all(is_allowed)
}

fn savepoint_file(name: &str) -> String {
    format!("{SAVEPOINT}{name}{JSON}")
}

impl FileNumbers {
    fn text(self) -> String {
        let FileNumbers { checkpoint, run } = self;
        if run == 0 { format!("{checkpoint:08}") } else { format!("{checkpoint:08}r{run}") }
    }

    fn parse(text: &str) -> Option<FileNumbers> {
        let (checkpoint, run) = text.split_once('r').unwrap_or((text, "0"));
        Some(FileNumbers { checkpoint: checkpoint.parse().ok()?, run: run.parse().ok()? })
    }

    fn of_manifest(name: &str) -> Option<FileNumbers> {
        FileNumbers::parse(name.strip_prefix(MANIFEST)?.strip_suffix(JSON)?)
    }

    fn of_state(name: &str) -> Option<FileNumbers> {
        FileNumbers::parse(name.strip_prefix(STATE)?.split_once('-')?.0)
    }

    fn of_beginning(name: &str) -> Option<FileNumbers> {
        let (run, checkpoint) = name.strip_prefix(FROM)?.split_once('-')?;
        Some(FileNumbers { checkpoint: checkpoint.parse().ok()?, run: run.parse().ok()? })
    }

    fn manifest_name(self) -> String {
        format!("{MANIFEST}{}{JSON}", self.text())
    }
}

fn savepoint_of(file: &str) -> Option<&str> {
    file.strip_prefix(SAVEPOINT)?.strip_suffix(JSON).filter(|name| is_savepoint_name(name))
}

fn beginning_name(run: &Run, checkpoint: u64) -> String {
    format!("{FROM}{:08}-{checkpoint:08}", run.number())
}

/// The manifests among files, the newest first, in two parts: those that count, and those that are void.
type Manifests<'a> = Vec<(FileNumbers, &'a StoredFile)>;

fn manifests(files: &[StoredFile]) -> (Manifests<'_>, Manifests<'_>) {
    let beginnings: Vec<FileNumbers> = files.iter().filter_map(|file| FileNumbers::of_beginning(&file.name)).collect();
    let is_void = |of: FileNumbers| beginnings.iter().any(|from| of.run < from.run && of.checkpoint > from.checkpoint);
    let mut all: Manifests<'_> =
        files.iter().filter_map(|file| Some((FileNumbers::of_manifest(&file.name)?, file))).collect();
    all.sort_by_key(|&(numbers, _)| std::cmp::Reverse(numbers));
    // One that was restored is there twice: the later copy counts.
    let mut last = None;
    let mut is_copied = |of: FileNumbers| last.replace(of.checkpoint) == Some(of.checkpoint);
    all.into_iter().partition(|&(numbers, _)| !is_void(numbers) && !is_copied(numbers))
}

impl Checkpoints {
    /// Of a store that nobody else writes to, or to be looked at.
    pub fn new(store: Arc<dyn Store>) -> Checkpoints {
        Checkpoints { store, run: None, part: None }
    }

    /// Of a store that an earlier process may still be writing to.
    pub fn of_run(store: Arc<dyn Store>, run: Arc<Run>) -> Checkpoints {
        Checkpoints { store, run: Some(run), part: None }
    }

    /// The same for a node that writes a part of them, in an attempt of the job: its files have names of their own, so what a node writes that has
    /// been left behind spoils nothing.
    #[must_use]
    pub fn of_node(&self, node: usize, attempt: u64) -> Checkpoints {
        Checkpoints { part: Some((node, attempt)), ..self.clone() }
    }

    /// Where they are.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn of_this_run(&self, checkpoint: u64) -> FileNumbers {
        FileNumbers { checkpoint, run: self.run.as_ref().map_or(0, |run| run.number()) }
    }

    /// The numbers of all checkpoints, the newest first. Manifests are not read.
    pub fn numbers(&self) -> io::Result<Vec<u64>> {
        Ok(manifests(&self.store.list()?).0.iter().map(|(numbers, _)| numbers.checkpoint).collect())
    }

    /// All checkpoints, the newest first. What they name is not looked at.
    pub fn list(&self) -> io::Result<Vec<Listed>> {
        manifests(&self.store.list()?).0.iter().map(|(numbers, file)| self.listed(numbers.checkpoint, file)).collect()
    }

    /// Those that were set aside ([`Checkpoints::restore`]) and are still there, the newest first.
    pub fn void(&self) -> io::Result<Vec<Listed>> {
        manifests(&self.store.list()?).1.iter().map(|(numbers, file)| self.listed(numbers.checkpoint, file)).collect()
    }

    fn listed(&self, checkpoint: u64, file: &StoredFile) -> io::Result<Listed> {
        let manifest = self.manifest(file)?.and_then(|manifest| {
            let is_right = manifest.checkpoint == checkpoint;
            let what = format_args!("the manifest {}: it is that of checkpoint {}", file.name, manifest.checkpoint);
            Damaged::unless(is_right, what).map(|()| manifest)
        });
        Ok(Listed { checkpoint, manifest })
    }

    /// What a manifest consists of, with what the nodes that have written it keep.
    fn manifest(&self, file: &StoredFile) -> io::Result<Result<Manifest, Damaged>> {
        let manifest = match self.root(file)? {
            Ok(manifest) if !manifest.nodes.is_empty() => self.whole(manifest)?,
            manifest => return Ok(manifest),
        };
        Ok(manifest.map_err(|Damaged(what)| Damaged(format!("the manifest {}: {what}", file.name))))
    }

    /// By sink: the tokens of the spans that a node other than the first has prepared for a checkpoint of this run.
    ///
    /// # Errors
    /// When the checkpoint is not there, damaged, or has nothing of the node.
    pub fn tokens_of(&self, checkpoint: u64, node: usize) -> io::Result<Vec<Option<Value>>> {
        let damaged = |Damaged(what)| io::Error::other(what);
        let files = self.store.list()?;
        let (_, file) = manifests(&files)
            .0
            .into_iter()
            .find(|(numbers, _)| numbers.checkpoint == checkpoint)
            .ok_or(io::ErrorKind::NotFound)?;
        let manifest = self.root(file)?.map_err(damaged)?;
        let of_node = manifest.nodes.get(node).ok_or(io::ErrorKind::NotFound)?;
        let bytes = of_node.manifest.begin(&*self.store).try_finish(&*self.store)?.map_err(damaged)?;
        let of_node = NodeManifest::decode(&bytes, manifest.format, checkpoint, node).map_err(damaged)?;
        Ok(of_node.tokens)
    }

    fn whole(&self, manifest: Manifest) -> io::Result<Result<Manifest, Damaged>> {
        let mut nodes = Vec::with_capacity(manifest.nodes.len());
        for (number, node) in manifest.nodes.iter().enumerate() {
            let bytes = node.manifest.begin(&*self.store).try_finish(&*self.store)?;
            match bytes.and_then(|bytes| NodeManifest::decode(&bytes, manifest.format, manifest.checkpoint, number)) {
                Ok(node) => nodes.push(node),
                Err(damaged) => return Ok(Err(damaged)),
            }
        }
        Ok(manifest.with_nodes(nodes))
    }

    /// The manifest in a file, as it stands there.
    fn root(&self, file: &StoredFile) -> io::Result<Result<Manifest, Damaged>> {
        let bytes = match self.store.read(&file.name, 0..file.bytes) {
            // A store that does not answer says nothing about the checkpoint.
            Err(e) if is_unavailable(&e) => return Err(e),
            bytes => bytes.map_err(|e| Damaged(e.to_string())),
        };
        let manifest = bytes.and_then(|bytes| Manifest::decode(&bytes));
        Ok(manifest.map_err(|Damaged(what)| Damaged(format!("the manifest {}: {what}", file.name))))
    }

    /// All savepoints, by their names.
    pub fn savepoints(&self) -> io::Result<Vec<Savepoint>> {
        let files = self.store.list()?;
        let named = files.iter().filter_map(|file| Some((savepoint_of(&file.name)?.to_string(), file)));
        let mut found: Vec<Savepoint> = named
            .map(|(name, file)| Ok(Savepoint { name, manifest: self.manifest(file)? }))
            .collect::<io::Result<_>>()?;
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Keeps the newest checkpoint under a name ([`is_savepoint_name`]) until [`Checkpoints::delete_savepoint`]; `None` if there is no
    /// checkpoint. To be called in the process that owns the store.
    ///
    /// # Errors
    /// When the store cannot be used, or its newest checkpoint is damaged.
    pub fn save(&self, name: &str) -> io::Result<Option<u64>> {
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Listed { checkpoint, manifest }) = self.list()?.into_iter().next() else { return Ok(None) };
        let damaged = |Damaged(what)| io::Error::other(format!("checkpoint {checkpoint}: {what}"));
        let manifest = manifest.map_err(damaged)?;
        self.verify(&manifest, 0)?.map_err(damaged)?;
        let mut file = self.store.create(&savepoint_file(name))?;
        file.write(&manifest.encode())?;
        file.finish()?;
        Ok(Some(checkpoint))
    }

    /// Removes a savepoint; what only it needs goes with the next [`Checkpoints::delete`].
    pub fn delete_savepoint(&self, name: &str) -> io::Result<()> {
        self.store.delete(&savepoint_file(name))
    }

    /// Has the job resume from this checkpoint: later ones are void from now on. They stay where they are until it has resumed, so that
    /// another one can be restored.
    pub fn restore(&self, manifest: &Manifest) -> io::Result<()> {
        // The copy comes first: without it there might be no checkpoint at all.
        self.write(manifest)?;
        self.go_on_from(manifest.checkpoint)
    }

    /// Whether everything is there that the checkpoint names: its files with their sizes, and, if there are at most `most_bytes`
    /// of them, the contents of its blobs.
    ///
    /// # Errors
    /// When the store cannot be asked.
    pub fn verify(&self, manifest: &Manifest, most_bytes: u64) -> io::Result<Result<(), Damaged>> {
        let files = match self.store.list() {
            Err(e) if is_unavailable(&e) => return Err(e),
            Err(e) => return Ok(Err(Damaged(e.to_string()))),
            Ok(files) => files,
        };
        let sizes: BTreeMap<&str, u64> = files.iter().map(|file| (file.name.as_str(), file.bytes)).collect();
        for blob in manifest.blobs() {
            let end = blob.offset.saturating_add(blob.bytes);
            match sizes.get(&*blob.file) {
                None => return Ok(Err(Damaged(format!("the file {} is missing", blob.file)))),
                Some(&size) if size < end => {
                    return Ok(Err(Damaged(format!("the file {} has {size} bytes instead of {end}", blob.file))));
                }
                Some(_) => {}
            }
        }
        if manifest.state_bytes() <= most_bytes {
            for blob in manifest.blobs() {
                if let Err(damaged) = blob.begin(&*self.store).try_finish(&*self.store)? {
                    return Ok(Err(damaged));
                }
            }
        }
        Ok(Ok(()))
    }

    /// Begins the files of a checkpoint's state.
    pub fn pack(&self, checkpoint: u64) -> PackWriter {
        let part = self.part.map_or(String::new(), |(node, attempt)| format!("-n{node}a{attempt}"));
        PackWriter::new(Arc::clone(&self.store), format!("{STATE}{}{part}", self.of_this_run(checkpoint).text()))
    }

    /// Says that this process resumes from a checkpoint, 0 from none: later ones of earlier processes are void from now
    /// on, also those that are still to come. They must not count when their spans are taken back.
    pub fn go_on_from(&self, checkpoint: u64) -> io::Result<()> {
        self.run.as_ref().map_or(Ok(()), |run| self.store.create(&beginning_name(run, checkpoint))?.finish())
    }

    /// Takes [`Checkpoints::go_on_from`] back: this process cannot, and later ones may find the checkpoints as it did.
    pub fn give_up(&self, checkpoint: u64) -> io::Result<()> {
        self.run.as_ref().map_or(Ok(()), |run| self.store.delete(&beginning_name(run, checkpoint)))
    }

    /// Writes a manifest, after everything that it names.
    ///
    /// # Errors
    /// When it cannot be written, or when another process has taken over: then it does not count, and nothing may be committed.
    pub fn write(&self, manifest: &Manifest) -> io::Result<()> {
        let mut file = self.store.create(&self.of_this_run(manifest.checkpoint).manifest_name())?;
        file.write(&manifest.encode())?;
        file.finish()?;
        match self.is_owner()? {
            true => Ok(()),
            false => Err(io::Error::other("another process has taken over the job")),
        }
    }

    /// Whether no other process has taken over.
    pub fn is_owner(&self) -> io::Result<bool> {
        self.run.as_ref().map_or(Ok(true), |run| run.is_newest())
    }

    /// Removes checkpoints, manifests first, and then all files of state that none of the others and no savepoint names and nobody
    /// reads. If a manifest that stays cannot be read, no files of state are removed. What is void goes, too.
    pub fn delete(&self, gone: impl Fn(u64) -> bool, read: BTreeSet<Arc<str>>) -> io::Result<Vec<u64>> {
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut removed, mut needed, mut is_sure) = (Vec::new(), read, true);
        let own_run = self.of_this_run(0).run;
        let files = self.store.list()?;
        let (counting, void) = manifests(&files);
        for (_, file) in void {
            self.store.delete(&file.name)?;
        }
        for (FileNumbers { checkpoint, .. }, file) in counting {
            if gone(checkpoint) {
                self.store.delete(&file.name)?;
                removed.push(checkpoint);
                continue;
            }
            match self.root(file)? {
                Ok(manifest) if manifest.checkpoint == checkpoint => needed.extend(manifest.files()),
                _ => is_sure = false,
            }
        }
        for file in files.iter().filter(|file| savepoint_of(&file.name).is_some()) {
            match self.root(file)? {
                Ok(manifest) => needed.extend(manifest.files()),
                Err(_) => is_sure = false,
            }
        }
        let files = self.store.list()?;
        let newest = files.iter().filter_map(|file| FileNumbers::of_beginning(&file.name)).map(|from| from.run).max();
        for file in files {
            let is_unneeded = || is_sure && !needed.contains(file.name.as_str());
            let goes = match (FileNumbers::of_state(&file.name), FileNumbers::of_beginning(&file.name)) {
                // What a later run has written is not known here.
                (Some(of), _) => of.run <= own_run && is_unneeded(),
                (_, Some(from)) => newest.is_some_and(|newest| from.run < newest),
                _ => false,
            };
            if goes {
                self.store.delete(&file.name)?;
            }
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::LocalStore;
    use crate::manifest::{AggregationState, FORMAT, JobPartitions, TableState};
    use crate::objects::ObjectDirectory;

    fn checkpoints(directory: &std::path::Path) -> Checkpoints {
        Checkpoints::new(Arc::new(LocalStore::open(directory).unwrap()))
    }

    /// A checkpoint that has written a blob, and refers to those of others.
    fn write(checkpoints: &Checkpoints, checkpoint: u64, others: &[&Manifest]) -> Manifest {
        let manifest = manifest_of(checkpoints, checkpoint, others);
        checkpoints.write(&manifest).unwrap();
        manifest
    }

    /// The same without its manifest.
    fn manifest_of(checkpoints: &Checkpoints, checkpoint: u64, others: &[&Manifest]) -> Manifest {
        let mut pack = checkpoints.pack(checkpoint);
        let own = pack.write(format!("the blob of {checkpoint}").as_bytes()).unwrap();
        let bytes_written = pack.finish().unwrap();
        let blobs = others.iter().flat_map(|manifest| manifest.blobs().cloned()).chain([own]).collect();
        let table = TableState { id: 1, entries: 1, partitions: vec![blobs] };
        let aggregation =
            AggregationState { number: 0, watermark: 5, tables: vec![table], slices: vec![], swept: None };
        Manifest {
            format: FORMAT,
            checkpoint,
            job: "j".into(),
            name: None,
            written_ms: 0,
            version: "0".into(),
            is_finished: false,
            is_later: false,
            shape: Value::Null,
            partitions: JobPartitions { tables: 1, ..JobPartitions::default() },
            sources: vec![],
            aggregations: vec![aggregation],
            operators: vec![],
            sinks: vec![],
            bytes_written,
            nodes: vec![],
        }
    }

    #[test]
    fn a_checkpoint_is_whole_or_found_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let checkpoints = checkpoints(directory.path());
        let manifest = write(&checkpoints, 3, &[]);
        assert_eq!(checkpoints.numbers().unwrap(), [3]);
        let listed = checkpoints.list().unwrap().remove(0);
        assert_eq!((listed.checkpoint, listed.manifest.unwrap()), (3, manifest.clone()));
        let verify = |most_bytes| checkpoints.verify(&manifest, most_bytes).unwrap();
        verify(u64::MAX).unwrap();
        let path = directory.path().join("checkpoint-00000003.json");
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 4;
            std::fs::write(&path, &bad).unwrap();
            assert!(checkpoints.list().unwrap()[0].manifest.is_err(), "byte {at}");
            std::fs::write(&path, &good[..at]).unwrap();
            assert!(checkpoints.list().unwrap()[0].manifest.is_err(), "{at} bytes");
        }
        let state = directory.path().join("state-00000003-0.bin");
        let mut bytes = std::fs::read(&state).unwrap();
        bytes[10] ^= 1;
        std::fs::write(&state, &bytes).unwrap();
        assert!(verify(u64::MAX).is_err());
        assert!(verify(1).is_ok(), "too large to be read beforehand");
        std::fs::write(&state, &bytes[..9]).unwrap();
        assert!(verify(1).is_err());
        std::fs::remove_file(&state).unwrap();
        assert!(verify(1).is_err());
    }

    #[test]
    fn files_go_with_the_last_checkpoint_that_needs_them() {
        let directory = tempfile::tempdir().unwrap();
        let checkpoints = checkpoints(directory.path());
        let first = write(&checkpoints, 1, &[]);
        let second = write(&checkpoints, 2, &[]);
        write(&checkpoints, 3, &[&first]);
        assert_eq!(checkpoints.delete(|checkpoint| checkpoint < 3, BTreeSet::new()).unwrap(), [2, 1]);
        let names: Vec<String> = checkpoints.store.list().unwrap().into_iter().map(|file| file.name).collect();
        assert_eq!(names, ["checkpoint-00000003.json", "state-00000001-0.bin", "state-00000003-0.bin"]);
        assert!(checkpoints.verify(&second, 0).unwrap().is_err());
        write(&checkpoints, 4, &[]);
        std::fs::write(directory.path().join("checkpoint-00000003.json"), "damaged").unwrap();
        assert_eq!(checkpoints.delete(|_| false, BTreeSet::new()).unwrap(), [0; 0]);
        assert_eq!(checkpoints.store.list().unwrap().len(), 5, "nobody knows what the damaged one needs");
    }

    #[test]
    fn names_of_savepoints_are_names_of_files_and_no_numbers() {
        for name in ["a", "before-upgrade", "v1.2_final"] {
            assert!(is_savepoint_name(name), "{name}");
        }
        let long = "a".repeat(65);
        for name in ["", "7", "7a", "-a", "..", "a/b", "a b", "ä", "a\n", &long] {
            assert!(!is_savepoint_name(name), "{name}");
        }
    }

    #[test]
    fn a_savepoint_stays_with_its_files_and_can_be_restored() {
        let directory = tempfile::tempdir().unwrap();
        let run = || {
            let store = Arc::new(LocalStore::open(directory.path()).unwrap());
            Checkpoints::of_run(store, Arc::new(Run::begin_here(directory.path()).unwrap().unwrap()))
        };
        let first = run();
        assert_eq!(first.save("early").unwrap(), None, "there is no checkpoint");
        let one = write(&first, 1, &[]);
        assert_eq!(first.save("early").unwrap(), Some(1));
        let two = write(&first, 2, &[]);
        write(&first, 3, &[]);
        first.delete(|checkpoint| checkpoint < 2, BTreeSet::new()).unwrap();
        assert_eq!(first.numbers().unwrap(), [3, 2]);
        let saved = first.savepoints().unwrap();
        assert_eq!(saved.len(), 1);
        assert_eq!((saved[0].name.as_str(), saved[0].manifest.as_ref().unwrap()), ("early", &one));
        first.verify(&one, u64::MAX).unwrap().unwrap();

        // Back to it, to one that is void then, and to it again.
        run().restore(&one).unwrap();
        let looking = checkpoints(directory.path());
        assert_eq!(looking.numbers().unwrap(), [1]);
        assert!(looking.void().unwrap().iter().any(|listed| listed.checkpoint == 3));
        run().restore(&two).unwrap();
        assert_eq!(looking.numbers().unwrap(), [2, 1]);
        let last = run();
        last.restore(&one).unwrap();
        assert_eq!(looking.numbers().unwrap(), [1]);
        // What was set aside goes when the job runs.
        last.delete(|_| false, BTreeSet::new()).unwrap();
        assert_eq!((looking.numbers().unwrap(), looking.void().unwrap().len()), (vec![1], 0));
        last.verify(&one, u64::MAX).unwrap().unwrap();
        last.delete_savepoint("early").unwrap();
        last.delete(|checkpoint| checkpoint == 1, BTreeSet::new()).unwrap();
        let left: Vec<String> = looking.store.list().unwrap().into_iter().map(|file| file.name).collect();
        assert!(!left.iter().any(|name| name.starts_with(STATE) || name.contains(JSON)), "{left:?}");
    }

    #[test]
    fn a_damaged_checkpoint_is_not_saved_and_a_damaged_savepoint_costs_no_files() {
        let directory = tempfile::tempdir().unwrap();
        let checkpoints = checkpoints(directory.path());
        write(&checkpoints, 1, &[]);
        checkpoints.save("good").unwrap();
        write(&checkpoints, 2, &[]);
        std::fs::remove_file(directory.path().join("state-00000002-0.bin")).unwrap();
        assert!(checkpoints.save("bad").unwrap_err().to_string().contains("is missing"));
        std::fs::write(directory.path().join("savepoint-good.json"), "damaged").unwrap();
        assert!(checkpoints.savepoints().unwrap()[0].manifest.is_err());
        checkpoints.delete(|_| true, BTreeSet::new()).unwrap();
        assert!(directory.path().join("state-00000001-0.bin").exists(), "nobody knows what the damaged one needs");
    }

    #[test]
    fn a_run_that_is_not_the_newest_commits_nothing_and_spoils_nothing() {
        let directory = ObjectDirectory::in_memory();
        let store: Arc<dyn Store> = Arc::new(directory.directory("job-1"));
        let begin = || {
            let (run, heartbeat) = Run::begin(directory.clone(), "here").unwrap().unwrap();
            (Checkpoints::of_run(Arc::clone(&store), Arc::new(run)), heartbeat)
        };
        let (first, _first) = begin();
        first.go_on_from(0).unwrap();
        let base = write(&first, 1, &[]);
        let (second, _second) = begin();
        // The first one does not know yet that there is a second.
        let late = manifest_of(&first, 2, &[&base]);
        assert!(first.write(&late).is_err());
        // The second one has seen the manifest or not. If not, it resumes from checkpoint 1, and nobody ever sees the
        // other.
        assert_eq!(second.numbers().unwrap(), [2, 1]);
        second.go_on_from(1).unwrap();
        second.give_up(1).unwrap();
        assert_eq!(second.numbers().unwrap(), [2, 1]);
        second.go_on_from(1).unwrap();
        assert_eq!(second.numbers().unwrap(), [1]);
        assert!(first.write(&late).is_err());
        let own = write(&second, 2, &[&base]);
        assert_ne!(own, late);
        assert!(first.write(&late).is_err());
        let listed: Vec<Manifest> = second.list().unwrap().into_iter().map(|listed| listed.manifest.unwrap()).collect();
        assert_eq!(listed, [own, base]);
        // Nor does it remove what it does not know.
        let written = manifest_of(&second, 3, &[]);
        first.delete(|_| false, BTreeSet::new()).unwrap();
        second.verify(&written, u64::MAX).unwrap().unwrap();
        second.delete(|checkpoint| checkpoint < 2, BTreeSet::new()).unwrap();
        let names: Vec<String> = store.list().unwrap().into_iter().map(|file| file.name).collect();
        assert_eq!(
            names,
            [
                "checkpoint-00000002r2.json",
                "from-00000002-00000001",
                "state-00000001r1-0.bin",
                "state-00000002r2-0.bin"
            ]
        );
    }
}
