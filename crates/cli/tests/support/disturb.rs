//! What happens to a process at a random moment: signals, and a disk that is full for a while.

use crate::disk::Disk;
use crate::draws::Draws;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

/// A process that needs longer to end hangs.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Kill,
    /// It takes a checkpoint and ends.
    Term,
    /// The checkpoint may be half done.
    TermThenKill,
    /// The second one ends it at once.
    TwoTerms,
    StopThenContinue,
    StopThenKill,
    FullDisk,
}

const KINDS: [Kind; 7] = [
    Kind::Kill,
    Kind::Term,
    Kind::TermThenKill,
    Kind::TwoTerms,
    Kind::StopThenContinue,
    Kind::StopThenKill,
    Kind::FullDisk,
];

/// Disturbs processes, each kind as often as the others.
pub struct Disturber<'a> {
    draws: Draws,
    /// Those that are filled now and then.
    disks: &'a [Disk],
    /// What comes before all kinds have been.
    deck: Vec<Kind>,
    /// How many of each signal, and of full disks, there have been.
    pub terms: u64,
    pub kills: u64,
    pub stops: u64,
    pub full: u64,
}

impl<'a> Disturber<'a> {
    pub fn new(draws: Draws, disks: &'a [Disk]) -> Disturber<'a> {
        Disturber { draws, disks, deck: Vec::new(), terms: 0, kills: 0, stops: 0, full: 0 }
    }

    /// How many signals there have been, but for CONT.
    pub fn signals(&self) -> u64 {
        self.terms + self.kills + self.stops
    }

    pub fn report(&self) -> String {
        let Disturber { terms, kills, stops, full, .. } = self;
        format!("{} signals ({terms} TERM, {kills} KILL, {stops} STOP) and {full} full disks", self.signals())
    }

    /// Starts a process, with a number of workers, and disturbs it; it has ended then.
    pub fn disturb(&mut self, start: impl Fn(&mut Draws) -> Command) {
        if self.deck.is_empty() {
            self.deck = KINDS.to_vec();
            self.deck.retain(|kind| *kind != Kind::FullDisk || !self.disks.is_empty());
        }
        let kind = self.deck.swap_remove(self.draws.below(self.deck.len() as u64) as usize);
        let child = start(&mut self.draws).spawn().unwrap();
        self.sleep(50, 900);
        match kind {
            Kind::Kill => self.kill(child),
            Kind::Term => {
                self.term(&child);
                assert_ended(&await_end(child, "after TERM"));
            }
            Kind::TermThenKill => {
                self.term(&child);
                self.sleep(0, 40);
                self.kill(child);
            }
            Kind::TwoTerms => {
                self.term(&child);
                self.sleep(0, 40);
                self.term(&child);
                assert_ended(&await_end(child, "after two TERMs"));
            }
            Kind::StopThenContinue => {
                self.stop(&child);
                self.sleep(10, 300);
                signal(&child, Signal::CONT);
                self.sleep(0, 400);
                self.kill(child);
            }
            Kind::StopThenKill => {
                self.stop(&child);
                self.sleep(0, 50);
                self.kill(child);
            }
            Kind::FullDisk => self.fill_disk(child, start),
        }
    }

    /// Fills a disk under a process, and may start another one before there is room again.
    fn fill_disk(&mut self, child: Child, start: impl Fn(&mut Draws) -> Command) {
        let disk = &self.disks[self.draws.below(self.disks.len() as u64) as usize];
        // A little room, so that some of the files of a checkpoint or of a span still have their place.
        disk.fill(self.draws.below(3) * self.draws.below(200 << 10));
        self.full += 1;
        if self.draws.below(3) == 0 {
            self.sleep(0, 100);
            self.kill(child);
        } else {
            assert_full(&await_end(child, "on a full disk"));
        }
        if self.draws.below(2) == 0 {
            let again = start(&mut self.draws).spawn().unwrap();
            assert_full(&await_end(again, "begun on a full disk"));
        }
        disk.free();
    }

    /// Some milliseconds.
    fn sleep(&mut self, from: u64, below: u64) {
        std::thread::sleep(Duration::from_millis(from + self.draws.below(below)));
    }

    fn kill(&mut self, mut child: Child) {
        self.kills += 1;
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn term(&mut self, child: &Child) {
        self.terms += 1;
        signal(child, Signal::TERM);
    }

    fn stop(&mut self, child: &Child) {
        self.stops += 1;
        signal(child, Signal::STOP);
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// What a process has left that must end by itself.
pub fn await_end(child: Child, when: &str) -> Output {
    await_end_beside(child, when, || {})
}

/// The same, and does something again and again until then.
pub fn await_end_beside(mut child: Child, when: &str, mut does: impl FnMut()) -> Output {
    let since = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if since.elapsed() > PATIENCE {
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            panic!("it hangs {when}: {}", String::from_utf8_lossy(&output.stderr));
        }
        does();
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().unwrap()
}

/// Stopped in good order, interrupted, or ended by the signal because it was not handled yet.
fn assert_ended(output: &Output) {
    let status = output.status;
    let expected = [Some(0), Some(130)].contains(&status.code()) || status.signal() == Some(Signal::TERM.as_raw());
    assert!(expected, "{status}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Ended because the disk is full, unless all had been written before.
fn assert_full(output: &Output) {
    let message = String::from_utf8_lossy(&output.stderr);
    // What may be spilled follows from the room that there was when the process began.
    let says = ["No space left on device", "error[MS3016]: state cannot be spilled"];
    let is_said = output.status.code() == Some(1) && says.iter().any(|part| message.contains(part));
    assert!(output.status.success() || is_said, "{}: {message}", output.status);
}
