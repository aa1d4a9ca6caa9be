//! Medians of alternating repetitions.

use std::error::Error;
use std::fmt::Debug;
use std::time::Instant;

/// Repetitions of each system.
pub(crate) const REPETITIONS: usize = 7;

/// Seconds that `work` took, and its result.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_secs_f64(), result)
}

/// What every run of a variant has returned, and the seconds of each.
pub(crate) type Runs<T> = (T, Vec<f64>);

/// Runs every variant once to warm up, and then `repetitions` times in turn: the seconds of each variant's runs. What a
/// run returns is checked against what the variant's first one did.
pub(crate) fn alternate<V, T: PartialEq + Debug>(
    variants: &[V],
    repetitions: usize,
    mut run: impl FnMut(&V) -> Result<T, Box<dyn Error>>,
) -> Result<Vec<Runs<T>>, Box<dyn Error>> {
    let first = |v| Ok((run(v)?, Vec::with_capacity(repetitions)));
    let mut runs: Vec<Runs<T>> = variants.iter().map(first).collect::<Result<_, Box<dyn Error>>>()?;
    for _ in 0..repetitions {
        for (variant, (wanted, seconds)) in variants.iter().zip(&mut runs) {
            let (taken, result) = timed(|| run(variant));
            let result = result?;
            if result != *wanted {
                return Err(format!("two runs of the same differ: {result:?} and {wanted:?}").into());
            }
            seconds.push(taken);
        }
    }
    Ok(runs)
}

/// The median of the seconds of each repetition.
pub(crate) fn median(seconds: &[f64]) -> f64 {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Prints a system's line: median, spread, rows per second, and the ratio of its speed to the first system's.
pub(crate) fn report(system: &str, seconds: &[f64], rows: u64, baseline: f64) {
    let median = median(seconds);
    let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let most = seconds.iter().copied().fold(0.0, f64::max);
    println!(
        "  {system:<34} {median:>8.4} s ({least:.4}–{most:.4})  {:>8.1} M rows/s  speed {:.2}",
        rows as f64 / median / 1e6,
        baseline / median
    );
}
