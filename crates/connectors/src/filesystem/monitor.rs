//! Looks for files that appear while a query runs, and hands them out to the *shares* that read them.
//!
//! A look lists everything that the table's path means. Each new file goes to the share that a hash of its name says, in the order of names.
//! The files of a share that one look has found belong together: the watermark waits for the last of them.
//!
//! A share that has nothing to read is silent after the next look, and does not hold the watermark of the query back. So before a file of
//! a look is read, every silent share that gets one says so: otherwise the first could have windows fired that another still has rows of.
//! Shares of other nodes find their files with a look of their own. That is why a file waits on several nodes until each has looked.

use super::discover::{InputFile, look};
use crate::locked;
use crate::text_chunk::whole;
use millstream_types::{Diagnostic, code};
use std::collections::{HashSet, VecDeque};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_128;

/// Shares of a table. Files that have been read are remembered by share, so it is the same in all runs of a job.
pub(super) const SHARES: usize = 16;
/// The number of the first look.
pub(super) const FIRST_LOOK: u64 = 1;

/// How long a share waits before the query is asked whether it is to end.
const MOMENT: Duration = Duration::from_millis(100);
/// What looks on other nodes may take, and what they say.
const MARGIN: Duration = Duration::from_millis(200);

/// See the module.
#[derive(Debug)]
pub(super) struct Monitor {
    /// A directory or a glob.
    path: String,
    interval: Duration,
    /// Time between the look that has found a file and reading it.
    delay: Duration,
    state: Mutex<MonitorState>,
    /// A look has been made, or all shares have said that they are not silent.
    changed: Condvar,
}

#[derive(Debug)]
struct MonitorState {
    looks: u64,
    next_look: Instant,
    /// Hashes of the names that are not new. Names are as unlikely to share one as memory is to err.
    known: HashSet<u128>,
    shares: [ShareQueue; SHARES],
}

#[derive(Debug, Default)]
struct ShareQueue {
    /// Nobody reads it here.
    is_gone: bool,
    is_reading: bool,
    found: VecDeque<FoundFile>,
    silence: Silence,
}

/// Whether a share is silent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Silence {
    #[default]
    Speaks,
    Silent,
    /// It has something to read, and the query does not know.
    Awake,
    /// The query is being told.
    Told,
}

/// A file that is to be read.
#[derive(Debug)]
pub(super) struct FoundFile {
    /// The number of the look that has found it.
    pub(super) look: u64,
    pub(super) file: InputFile,
    from: Instant,
}

/// What a share knows of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ahead {
    /// More files of a look.
    SameLook,
    /// Files of a later look, or none yet.
    Nothing,
    /// None, as the last look has shown.
    Silence,
}

fn hash(name: &str) -> u128 {
    xxh3_128(name.as_bytes())
}

impl Monitor {
    /// Of a local path, for a table that several nodes read.
    pub(super) fn new(path: &str, interval: Duration, nodes: usize) -> Monitor {
        let delay = if nodes > 1 { interval + MARGIN } else { Duration::ZERO };
        let shares = std::array::from_fn(|_| ShareQueue::default());
        let state = MonitorState { looks: 0, next_look: Instant::now(), known: HashSet::new(), shares };
        Monitor { path: path.into(), interval, delay, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The share that a file belongs to.
    pub(super) fn share_of(name: &str) -> usize {
        (hash(name) % SHARES as u128) as usize
    }

    /// A file that is not new.
    pub(super) fn know(&self, name: &str) {
        locked(&self.state).known.insert(hash(name));
    }

    /// A share goes on with a file of an earlier run.
    pub(super) fn goes_on(&self, share: usize) {
        locked(&self.state).shares[share].is_reading = true;
    }

    /// Nobody reads a share here any more.
    pub(super) fn leave(&self, share: usize) {
        locked(&self.state).shares[share] = ShareQueue { is_gone: true, ..ShareQueue::default() };
        self.changed.notify_all();
    }

    /// The next file of a share that reads none; waits for a moment if there is none.
    pub(super) fn turn(&self, share: usize) -> Result<Option<FoundFile>, Diagnostic> {
        let mut state = locked(&self.state);
        state.shares[share].is_reading = false;
        if state.shares[share].silence == Silence::Told {
            state.shares[share].silence = Silence::Speaks;
            self.changed.notify_all();
        }
        let mut now = Instant::now();
        if state.next_look <= now {
            self.look(&mut state)?;
            self.changed.notify_all();
            now = Instant::now();
        }
        if !state.tells(share) {
            if let Some(found) = state.take(share, now) {
                return Ok(Some(found));
            }
            let next = state.shares[share].found.front().map_or(state.next_look, |found| found.from);
            let pause = next.saturating_duration_since(now).min(MOMENT);
            // A file that waits for other shares is looked at again when these are awake.
            let pause = if pause.is_zero() { MOMENT } else { pause };
            let waited = self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            state.tells(share);
        }
        Ok(None)
    }

    /// What a share has to read beside the file of a look that it reads, or has read.
    pub(super) fn ahead(&self, share: usize, look: u64) -> Ahead {
        let state = locked(&self.state);
        let share = &state.shares[share];
        match share.found.front() {
            // Nobody knows what else the first look finds for a share that goes on with a file.
            _ if state.looks == 0 => Ahead::SameLook,
            Some(next) if next.look == look => Ahead::SameLook,
            None if share.silence == Silence::Silent => Ahead::Silence,
            _ => Ahead::Nothing,
        }
    }

    fn look(&self, state: &mut MonitorState) -> Result<(), Diagnostic> {
        let files = look(&self.path)?;
        state.looks += 1;
        let now = Instant::now();
        state.next_look = now + self.interval;
        for file in files {
            if file.stream {
                return Err(not_a_file(&file));
            }
            let share = &mut state.shares[Monitor::share_of(&file.info.path)];
            if state.known.insert(hash(&file.info.path)) && !share.is_gone {
                share.found.push_back(FoundFile { look: state.looks, file, from: now + self.delay });
            }
        }
        for share in &mut state.shares {
            let is_idle = share.found.is_empty() && !share.is_reading && !share.is_gone;
            share.silence = match share.silence {
                Silence::Speaks if is_idle => Silence::Silent,
                Silence::Silent if !is_idle => Silence::Awake,
                silence => silence,
            };
        }
        Ok(())
    }
}

impl MonitorState {
    /// Whether the query has to be told that a share is not silent any more, before the share does anything.
    fn tells(&mut self, share: usize) -> bool {
        let silence = &mut self.shares[share].silence;
        let tells = *silence == Silence::Awake;
        if tells {
            *silence = Silence::Told;
        }
        tells
    }

    fn take(&mut self, share: usize, now: Instant) -> Option<FoundFile> {
        if self.shares.iter().any(|share| matches!(share.silence, Silence::Awake | Silence::Told)) {
            return None;
        }
        let share = &mut self.shares[share];
        let found = share.found.pop_front_if(|found| found.from <= now)?;
        share.is_reading = true;
        Some(found)
    }
}

fn not_a_file(file: &InputFile) -> Diagnostic {
    let message = format!("'{}' is a pipe or a device: it cannot be read once and remembered", file.info.path);
    Diagnostic::new(code::READ_FAILED, message)
        .at(whole(&file.info.path))
        .advise("keep it out of the directory, or give it a name that begins with a dot")
}
