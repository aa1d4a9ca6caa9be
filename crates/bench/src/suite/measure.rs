//! Cases and systems: alternating repetitions, comparison, medians and ratios.

use super::{Checksum, Failure, Record, Suite, process_time};
use serde_json::{Map, Value};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Seconds that `work` took, and its result.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_secs_f64(), result)
}

/// The median of the seconds of each repetition.
pub(crate) fn median(seconds: &[f64]) -> f64 {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// What a run of a system gave.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measured {
    pub(crate) seconds: f64,
    /// What is compared; a system without a result has none.
    pub(crate) checksum: Option<Checksum>,
    /// Processor time of all threads of this process, which [`Suite::measure`] takes.
    pub(crate) processor: Duration,
    /// The longest time that LLVM took for a program; zero when the session had compiled all before.
    pub(crate) compile: Duration,
    /// Further fields of the record.
    pub(crate) more: Map<String, Value>,
}

/// The field with [`Measured::compile`] of a system's first run.
pub(super) const COMPILE_MS: &str = "compile_ms";
/// The name of the system that only reads memory.
const LIMIT: &str = "limit";

type Work<'a> = Box<dyn FnMut() -> Result<Measured, Failure> + 'a>;

/// A way to do the work of a case.
pub(crate) struct System<'a> {
    name: String,
    threads: usize,
    /// Bytes that it reads, if other than those of the case (another layout).
    bytes: Option<u64>,
    /// The longest time that LLVM took for a program in any run; the first one compiles.
    compile: Duration,
    run: Work<'a>,
}

impl<'a> System<'a> {
    /// A system whose time is that of the closure.
    pub(crate) fn new(
        name: impl Into<String>,
        threads: usize,
        mut work: impl FnMut() -> Result<Checksum, Failure> + 'a,
    ) -> System<'a> {
        System::measured(name, threads, move || {
            let (seconds, checksum) = timed(&mut work);
            Ok(Measured { seconds, checksum: Some(checksum?), ..Measured::default() })
        })
    }

    /// A system that takes its time itself.
    pub(crate) fn measured(
        name: impl Into<String>,
        threads: usize,
        run: impl FnMut() -> Result<Measured, Failure> + 'a,
    ) -> System<'a> {
        System { name: name.into(), threads, bytes: None, compile: Duration::ZERO, run: Box::new(run) }
    }

    /// Compares its rows by their number alone: which of equal rank are there depends on the order in which a system reads.
    pub(crate) fn counted(self) -> System<'a> {
        let mut run = self.run;
        let run = move || {
            let measured = run()?;
            Ok(Measured { checksum: measured.checksum.map(Checksum::counted), ..measured })
        };
        System { run: Box::new(run), ..self }
    }

    /// Reads `bytes` bytes, because its layout differs.
    pub(crate) fn touching(self, bytes: u64) -> System<'a> {
        System { bytes: Some(bytes), ..self }
    }
}

/// The same work for several systems.
pub(crate) struct Case<'a> {
    /// `parameter=value`, after `figure/` when a benchmark has several.
    name: String,
    /// Rows that go in.
    rows: u64,
    /// Bytes of them that the query must touch; 0 where memory is not the limit.
    bytes: u64,
    systems: Vec<System<'a>>,
    limits: Vec<usize>,
}

impl<'a> Case<'a> {
    /// A case without systems.
    pub(crate) fn new(name: impl Into<String>, rows: u64) -> Case<'a> {
        Case { name: name.into(), rows, bytes: 0, systems: Vec::new(), limits: Vec::new() }
    }

    /// Says how many bytes of each row the query must touch, and measures memory beside the systems, with these
    /// `threads`.
    pub(crate) fn limited_by_memory(mut self, bytes_per_row: u64, threads: &[usize]) -> Case<'a> {
        self.bytes = self.rows * bytes_per_row;
        self.limits = threads.to_vec();
        self
    }

    /// Adds a system; the first is the one that the others are compared with.
    pub(crate) fn with(mut self, system: System<'a>) -> Case<'a> {
        self.systems.push(system);
        self
    }

    /// Adds systems.
    pub(crate) fn with_all(mut self, systems: impl IntoIterator<Item = System<'a>>) -> Case<'a> {
        self.systems.extend(systems);
        self
    }
}

impl Case<'_> {
    /// Runs the system of this name, without measuring it.
    pub(crate) fn run_once(mut self, system: &str) -> Result<Checksum, Failure> {
        let system =
            self.systems.iter_mut().find(|s| s.name == system).ok_or_else(|| format!("no system `{system}`"))?;
        Ok((system.run)()?.checksum.unwrap_or_default())
    }
}

/// What the results of the cases of a group have to do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Across {
    /// Every case has its own result.
    Different,
    /// All cases have the same, such as those with the same rows in another order.
    Same,
}

impl Suite {
    /// Runs all systems of all cases in turn, once to warm up and then as often as asked for; compares the results of each
    /// case's systems, prints a table and keeps the records. Returns the first result of each case.
    pub(crate) fn measure(&mut self, across: Across, cases: Vec<Case<'_>>) -> Result<Vec<Checksum>, Failure> {
        let mut cases: Vec<Case<'_>> = cases.into_iter().filter_map(|case| self.chosen(case)).collect();
        if cases.is_empty() {
            return Ok(Vec::new());
        }
        let mut runs: Vec<Vec<Vec<Measured>>> = cases.iter().map(|c| vec![Vec::new(); c.systems.len()]).collect();
        let mut checksums = vec![None; cases.len()];
        for repetition in 0..=self.options.repetitions {
            for ((case, runs), wanted) in cases.iter_mut().zip(&mut runs).zip(&mut checksums) {
                for (system, runs) in case.systems.iter_mut().zip(runs) {
                    let before = process_time();
                    let mut measured = (system.run)().map_err(|e| format!("{}, {}: {e}", case.name, system.name))?;
                    measured.processor = process_time().saturating_sub(before);
                    system.compile = system.compile.max(measured.compile);
                    agree(case.name.as_str(), &system.name, wanted, &measured)?;
                    if repetition > 0 {
                        runs.push(measured);
                    }
                }
            }
        }
        let checksums: Vec<Checksum> = checksums.into_iter().map(Option::unwrap_or_default).collect();
        if across == Across::Same && checksums.iter().any(|checksum| *checksum != checksums[0]) {
            return Err(format!("cases with the same rows have different results: {checksums:?}").into());
        }
        self.report(&cases, &runs)?;
        Ok(checksums)
    }

    /// The case with the systems that are to run, and the sweeps over memory; `None` if it is not to run.
    fn chosen<'a>(&self, mut case: Case<'a>) -> Option<Case<'a>> {
        let is_named = |wanted: &String| {
            case.name.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if self.options.case.as_ref().is_some_and(|wanted| !is_named(wanted)) {
            return None;
        }
        if let Some(start) = &self.options.system {
            case.systems.retain(|system| system.name.starts_with(start));
            case.limits.clear();
        }
        for threads in std::mem::take(&mut case.limits) {
            let (bandwidth, bytes) = (Rc::clone(&self.bandwidth), case.bytes);
            case.systems.push(System::measured(LIMIT, threads, move || {
                let seconds = bytes as f64 / bandwidth.borrow_mut().measure(threads)?;
                Ok(Measured { seconds, ..Measured::default() })
            }));
        }
        (!case.systems.is_empty()).then_some(case)
    }

    fn report(&mut self, cases: &[Case<'_>], runs: &[Vec<Vec<Measured>>]) -> Result<(), Failure> {
        let first = &Line::of(&cases[0].systems[0], &runs[0][0]);
        for (case, runs) in cases.iter().zip(runs) {
            self.say(&format!("  {}, {} rows", case.name, case.rows));
            let lines: Vec<Line> = case.systems.iter().zip(runs).map(|(s, runs)| Line::of(s, runs)).collect();
            for ((system, runs), line) in case.systems.iter().zip(runs).zip(&lines) {
                let bytes = system.bytes.unwrap_or(case.bytes);
                for run in runs {
                    self.record(record(self.current, case, system, bytes, run))?;
                }
                self.say(&line.text(case.rows, bytes, &compared(&lines, line, first)));
            }
        }
        Ok(())
    }
}

/// The record of a run.
fn record(benchmark: &str, case: &Case<'_>, system: &System<'_>, bytes: u64, run: &Measured) -> Record {
    let mut more = run.more.clone();
    more.insert("processor_ns_per_row".into(), (run.processor.as_secs_f64() * 1e9 / case.rows as f64).into());
    if !system.compile.is_zero() {
        more.insert(COMPILE_MS.into(), (system.compile.as_secs_f64() * 1e3).into());
    }
    Record {
        benchmark: benchmark.into(),
        case: case.name.clone(),
        system: system.name.clone(),
        threads: system.threads,
        rows: case.rows,
        seconds: run.seconds,
        rows_per_s: case.rows as f64 / run.seconds,
        bytes_per_s: bytes as f64 / run.seconds,
        checksum: run.checksum.map(|checksum| checksum.to_string()),
        more,
    }
}

/// Fails if a system's result is not that of those before it.
fn agree(case: &str, system: &str, wanted: &mut Option<Checksum>, measured: &Measured) -> Result<(), Failure> {
    match (&wanted, measured.checksum) {
        (Some(wanted), Some(found)) if *wanted != found => {
            Err(format!("{case}: the result of {system} is {found}, that of the systems before it {wanted}").into())
        }
        (None, Some(found)) => {
            *wanted = Some(found);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// What is printed of a system.
struct Line {
    system: String,
    threads: usize,
    /// Median, least and most seconds.
    seconds: [f64; 3],
    /// Median of the seconds of processor time; 0 for another process.
    processor: f64,
    compile: Duration,
}

impl Line {
    fn of(system: &System<'_>, runs: &[Measured]) -> Line {
        let seconds: Vec<f64> = runs.iter().map(|run| run.seconds).collect();
        let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let most = seconds.iter().copied().fold(0.0, f64::max);
        // Memory is as fast as its fastest sweep; what systems do varies for reasons of their own.
        let middle = if system.name == LIMIT { least } else { median(&seconds) };
        Line {
            system: system.name.clone(),
            threads: system.threads,
            seconds: [middle, least, most],
            processor: median(&runs.iter().map(|run| run.processor.as_secs_f64()).collect::<Vec<_>>()),
            compile: system.compile,
        }
    }

    fn text(&self, rows: u64, bytes: u64, compared: &str) -> String {
        let [middle, least, most] = self.seconds;
        let name = format!(
            "{}, {}",
            self.system,
            if self.threads == 1 { "1 thread".into() } else { format!("{} threads", self.threads) }
        );
        let rate = rows as f64 / middle / 1e6;
        let bytes = if bytes > 0 { format!("{:>6.2} GB/s", bytes as f64 / middle / 1e9) } else { String::new() };
        let processor = format!("{:>6.2} ns/row", self.processor * 1e9 / rows as f64);
        format!(
            "    {name:<34} {middle:>8.4} s ({least:.4}–{most:.4}) {rate:>8.1} M rows/s {processor} {bytes:<11} {compared}"
        )
    }
}

/// How the case's first system compares with this one at as many threads; how this one scales from one thread; and
/// without other systems, how the case compares with the first one.
fn compared(lines: &[Line], line: &Line, first: &Line) -> String {
    let ratio = |of: &Line, by: &Line| by.seconds[0] / of.seconds[0];
    let with = |system: &str, threads: usize| lines.iter().find(|l| l.system == system && l.threads == threads);
    let mut text = Vec::new();
    if lines.len() == 1 {
        text.push(format!("speed {:.2}", ratio(line, first)));
    } else if line.system != lines[0].system {
        let ours = with(&lines[0].system, line.threads).unwrap_or(&lines[0]);
        text.push(format!("{} is ×{:.2}", ours.system, ratio(ours, line)));
    }
    if line.threads > 1
        && let Some(alone) = with(&line.system, 1)
    {
        text.push(format!("scaling {:.2}", ratio(line, alone)));
    }
    if !line.compile.is_zero() {
        text.push(format!("compiled in {:.0} ms", line.compile.as_secs_f64() * 1e3));
    }
    text.join(", ")
}
