//! The jobs of a state directory: which one an INSERT is.
//!
//! The file `job` of each has its name, and the tables that it writes. An INSERT (or STATEMENT SET) is the first job that writes the
//! same tables and is not taken, one whose state it can go on from before others; a STATEMENT SET to which an INSERT was added is
//! the job that writes some of its tables. What is no known job becomes a new one.

use crate::recovery::{of_another_version, unusable};
use millstream_plan::pipeline::QueryPlan;
use millstream_runtime::fit;
use millstream_storage::{Damaged, StatePlace, Store, StoredFile};
use millstream_types::{Diagnostic, code};
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};
use xxhash_rust::xxh3::xxh3_64;

/// Names a job.
const JOB_FILE: &str = "job";

/// What the file of a job says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobFile {
    /// A name that no other job has. Output has it in its names, so under another one, by damage, the job would write its rows once
    /// more beside those that are there.
    pub(crate) name: String,
    /// Tables that it writes, sorted.
    tables: Vec<String>,
}

impl JobFile {
    /// Of a job that begins.
    pub(crate) fn new(tables: Vec<String>) -> JobFile {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        JobFile { name: format!("{:x}{:x}", since_epoch.as_nanos(), std::process::id()), tables }
    }

    /// The one in a store that has these files; `None` if there is none.
    pub(crate) fn read(store: &dyn Store, files: &[StoredFile]) -> io::Result<Option<Result<JobFile, Damaged>>> {
        let Some(file) = files.iter().find(|file| file.name == JOB_FILE) else { return Ok(None) };
        let bytes = store.read(JOB_FILE, 0..file.bytes)?;
        Ok(Some(JobFile::decode(&bytes).ok_or_else(|| Damaged("it does not have the checksum of a name".into()))))
    }

    /// Puts it into a store.
    pub(crate) fn write(&self, store: &dyn Store) -> io::Result<()> {
        let mut file = store.create(JOB_FILE)?;
        file.write(&self.encode())?;
        file.finish()
    }

    /// A line with the name, one with the tables as JSON, and one with the checksum of the two.
    fn encode(&self) -> Vec<u8> {
        let body = format!("{}\n{}\n", self.name, serde_json::json!(self.tables));
        let checksum = xxh3_64(body.as_bytes());
        format!("{body}{checksum:016x}\n").into_bytes()
    }

    fn decode(bytes: &[u8]) -> Option<JobFile> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines();
        let (name, tables) = (lines.next()?.to_string(), serde_json::from_str(lines.next()?).ok()?);
        let file = JobFile { name, tables };
        (file.encode() == bytes).then_some(file)
    }
}

/// The error for a damaged file.
pub(crate) fn damaged(store: &dyn Store, Damaged(what): &Damaged) -> Diagnostic {
    let message = format!("the file '{JOB_FILE}' in {} is damaged: {what}", store.place());
    Diagnostic::new(code::CHECKPOINT_DAMAGED, message)
}

/// The tables that a plan writes, sorted.
pub(crate) fn tables_of(plan: &QueryPlan) -> Vec<String> {
    let mut tables: Vec<String> =
        plan.sinks.iter().filter_map(|sink| Some(sink.table.as_ref()?.name.clone())).collect();
    tables.sort_unstable();
    tables
}

/// The jobs of a state directory.
#[derive(Debug)]
pub(crate) struct KnownJobs(Vec<KnownJob>);

#[derive(Debug)]
struct KnownJob {
    number: usize,
    tables: Vec<String>,
    /// Whether a statement of this session is it.
    is_taken: bool,
}

impl KnownJobs {
    /// Those that have state in a place.
    pub(crate) fn in_place(place: &StatePlace) -> Result<KnownJobs, Diagnostic> {
        let failed = |e: io::Error| unusable(&place.to_string(), &e);
        let mut jobs = Vec::new();
        for number in place.jobs().map_err(failed)? {
            let checkpoints = place.checkpoints(number);
            let store = &**checkpoints.store();
            let file = store.list().and_then(|files| JobFile::read(store, &files)).map_err(failed)?;
            // Without one, whatever is there is found by who becomes this job.
            let tables = match file {
                None => Vec::new(),
                Some(Ok(file)) => file.tables,
                Some(Err(what)) => {
                    let listed = checkpoints.list().map_err(failed)?;
                    return Err(of_another_version(&listed).unwrap_or_else(|| damaged(store, &what)));
                }
            };
            jobs.push(KnownJob { number, tables, is_taken: false });
        }
        Ok(KnownJobs(jobs))
    }

    /// The number of the job that a plan is, which is taken then, and what is worth telling of the others.
    pub(crate) fn claim(
        &mut self,
        plan: &QueryPlan,
        place: &StatePlace,
    ) -> Result<(usize, Option<String>), Diagnostic> {
        let tables = tables_of(plan);
        if let Some(at) = self.find(plan, &tables, place)? {
            self.0[at].is_taken = true;
            return Ok((self.0[at].number, None));
        }
        let number = self.0.iter().map(|job| job.number).max().unwrap_or(0) + 1;
        let left: Vec<String> = self.free().map(|(_, job)| format!("job-{} ({})", job.number, job.inserts())).collect();
        let new = KnownJob { number, tables, is_taken: true };
        let note = (!left.is_empty()).then(|| {
            let left = left.join(", ");
            format!("{} has no state and begins as job-{number}; so far no statement is {left}", new.inserts())
        });
        self.0.push(new);
        Ok((number, note))
    }

    fn free(&self) -> impl Iterator<Item = (usize, &KnownJob)> {
        self.0.iter().enumerate().filter(|(_, job)| !job.is_taken)
    }

    fn find(&self, plan: &QueryPlan, tables: &[String], place: &StatePlace) -> Result<Option<usize>, Diagnostic> {
        let mut same: Vec<usize> =
            self.free().filter(|(_, job)| job.tables.is_empty() || job.tables == tables).map(|(at, _)| at).collect();
        same.sort_by_key(|&at| self.0[at].tables.is_empty());
        if let [first, _, ..] = same.as_slice() {
            for &at in &same {
                let listed = place.checkpoints(self.0[at].number).list();
                let listed = listed.map_err(|e| unusable(&place.to_string(), &e))?;
                let newest = listed.into_iter().find_map(|listed| listed.manifest.ok());
                if newest.is_some_and(|manifest| fit(plan, &manifest).is_ok()) {
                    return Ok(Some(at));
                }
            }
            return Ok(Some(*first));
        }
        if let [only] = same.as_slice() {
            return Ok(Some(*only));
        }
        let shares = |job: &KnownJob| job.tables.iter().any(|table| tables.contains(table));
        let related: Vec<(usize, &KnownJob)> = self.free().filter(|(_, job)| shares(job)).collect();
        match related.as_slice() {
            [] => Ok(None),
            [(at, _)] => Ok(Some(*at)),
            [(_, one), (_, other), ..] => {
                let message = format!(
                    "the inserts are those of two jobs, job-{} ({}) and job-{} ({}), and go on from one",
                    one.number,
                    one.inserts(),
                    other.number,
                    other.inserts()
                );
                Err(Diagnostic::new(code::QUERY_CHANGED, message))
            }
        }
    }
}

impl KnownJob {
    fn inserts(&self) -> String {
        match self.tables.as_slice() {
            [] => "without a name".into(),
            tables => format!("INSERT INTO {}", tables.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_no_job() {
        let file = JobFile { name: "18a5".into(), tables: vec!["a, b".into(), "c\"\n]".into()] };
        let bytes = file.encode();
        assert_eq!(JobFile::decode(&bytes), Some(file));
        for at in 0..bytes.len() {
            let mut others = vec![bytes[..at].to_vec(), [&bytes[..at], &bytes[at..at + 1], &bytes[at..]].concat()];
            others.extend((0..8).map(|bit| {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                other
            }));
            others.iter().for_each(|other| assert_eq!(JobFile::decode(other), None, "{at}"));
        }
    }
}
