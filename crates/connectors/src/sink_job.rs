//! What sinks have to know of the job that they belong to, and what they say of what it has written.

use crate::locked;
use millstream_types::Diagnostic;
use serde_json::Value;
use std::any::Any;
use std::collections::HashMap;
use std::fmt::{self, Debug, Display};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, Weak};

/// What the sink of the first node has put outside for those of other nodes to find.
pub struct SharedPlace {
    /// What it is called.
    pub name: String,
    /// Removes it.
    pub held: Box<dyn Any + Send>,
}

/// Where the files of a sink are for good, if not in a local directory. Names have no directories; an error of the kind
/// [`io::ErrorKind::NotFound`] says that there is no file of a name.
pub trait SinkFiles: Send + Sync + Debug {
    /// Puts a local file there, as a whole and for good.
    fn put(&self, name: &str, file: &Path) -> io::Result<()>;

    /// Makes a local file of one that is there.
    fn get(&self, name: &str, file: &Path) -> io::Result<()>;

    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Removes a file; it is not an error if there is none.
    fn delete(&self, name: &str) -> io::Result<()>;
}

/// The job that a sink belongs to.
#[derive(Debug, Clone)]
pub struct SinkJob {
    /// Name of the job, the same in all of its processes and different from those of other jobs: letters, digits and `-`.
    pub job: String,
    /// Number of the sink in the job, which it keeps whatever other sinks come.
    pub sink: usize,
    /// Who writes. One that does not know yet that it is superseded may still do so, so files that are not to be its have this in their names.
    pub writer: SinkWriter,
    /// Whether the job is on several nodes: any of them has to be able to commit what one has prepared.
    pub is_distributed: bool,
    /// The checkpoint that the job resumes from. A sink without a span of it is new then.
    pub resumes: Option<u64>,
    /// A local directory of the job's state for files that the sink itself wants to find after a failure; it may not be there
    /// yet. Other sinks of the job may use the same, so names carry the number of the sink.
    pub directory: PathBuf,
    /// Where the job's state is in an object store: what must be found after a failure, be it on another machine, has to be
    /// there, and `directory` has copies.
    pub remote: Option<Arc<dyn SinkFiles>>,
    /// What sinks of this run of the job have together.
    pub shared: Arc<SharedBySinks>,
}

/// The sink of a node that is lost.
pub struct LostSink<'a> {
    /// The number of the node.
    pub node: usize,
    /// The token of the span that it has prepared for the last complete checkpoint, if there is one.
    pub token: Option<&'a Value>,
    /// Whether a node is lost. Those that are not are at work, and may be committing theirs.
    pub is_lost: &'a dyn Fn(usize) -> bool,
}

/// Who writes rows of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinkWriter {
    /// Number of the process among those of the job: those after it have higher ones.
    pub run: u64,
    /// Number of the node.
    pub node: usize,
    /// Of other nodes than the first: number of the attempt among all of the job.
    pub attempt: u64,
}

impl SinkWriter {
    /// The first node, or the only one.
    pub fn first(run: u64) -> SinkWriter {
        SinkWriter { run, node: 0, attempt: 0 }
    }

    /// Whether it is the first node, or the only one.
    pub fn is_first(self) -> bool {
        self.node == 0
    }
}

impl FromStr for SinkWriter {
    type Err = ();

    /// From its text in the name of a file.
    fn from_str(text: &str) -> Result<SinkWriter, ()> {
        let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = |text: &str| Some(text).filter(is_number).and_then(|text| text.parse::<u64>().ok()).ok_or(());
        let Some((run, of_node)) = text.split_once('n') else { return Ok(SinkWriter::first(number(text)?)) };
        let (node, attempt) = of_node.split_once('a').ok_or(())?;
        let node = usize::try_from(number(node)?).map_err(drop)?;
        Ok(SinkWriter { run: number(run)?, node, attempt: number(attempt)? })
    }
}

/// In names of files: `7` for the first node in run 7, and `7n2a117440513` for node 2 in that attempt.
impl Display for SinkWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SinkWriter { run, node, attempt } = self;
        match node {
            0 => write!(f, "{run}"),
            _ => write!(f, "{run}n{node}a{attempt}"),
        }
    }
}

/// What sinks of one run of a job have together, as long as one of them has it.
#[derive(Debug, Default)]
pub struct SharedBySinks(Mutex<HashMap<String, Weak<dyn Any + Send + Sync>>>);

impl SharedBySinks {
    /// What sinks that give the same key share: made by the first.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn get_or_make<T: Any + Send + Sync>(
        &self,
        key: &str,
        make: impl FnOnce() -> Result<T, Diagnostic>,
    ) -> Result<Arc<T>, Diagnostic> {
        let mut shared = locked(&self.0);
        let there = shared.get(key).and_then(Weak::upgrade).and_then(|there| there.downcast::<T>().ok());
        if let Some(there) = there {
            return Ok(there);
        }
        let made = Arc::new(make()?);
        let any: Arc<dyn Any + Send + Sync> = made.clone();
        shared.insert(key.to_string(), Arc::downgrade(&any));
        Ok(made)
    }
}

/// What a sink has to know of the checkpoint that a job is recovered from.
#[derive(Debug, Clone, PartialEq)]
pub struct RestoredSink {
    /// The checkpoint.
    pub checkpoint: u64,
    /// What [`Commit::prepare`](crate::Commit::prepare) returned for it, on each node: none if the sink had nothing to commit.
    pub tokens: Vec<Value>,
}

/// What a sink promises under checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Each row is seen once, whatever fails.
    ExactlyOnce,
    /// No row is lost; rows behind the last checkpoint may be seen again.
    AtLeastOnce,
}

/// Which of a job's spans have been committed, as the outside knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// Does not matter: any prepared span can be committed later with its token, and spans behind a checkpoint can be taken
    /// back (files).
    Resumable,
    /// Nothing of this job yet: only a start from the beginning fits.
    Nothing,
    /// The span of this checkpoint was the last. What was prepared and not committed is lost with its process (transactions of
    /// Kafka), so the job has to resume from exactly this checkpoint.
    Checkpoint(u64),
}
