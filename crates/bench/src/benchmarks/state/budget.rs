//! A window that is ten times as large as the memory budget, beside the same in memory.

use super::stream::BLOCK;
use super::windows::Window;
use super::{Missed, median_of};
use crate::suite::{Across, Case, Failure, Suite};

/// Keys of the window, and rows of each.
const KEYS: u64 = 20_000_000;
pub(super) const ROWS_PER_KEY: u64 = 4;
/// Bytes of a key, its hash, count and sum in memory, and of how much more state there is than memory for it.
pub(super) const ENTRY: u64 = 32;
pub(super) const TIMES: u64 = 10;
/// What throughput is to be of that in memory, and the budget's peak of the budget.
const RATIO: f64 = 0.3;
const PEAK: f64 = 1.1;

/// Measures both in turn.
pub(super) fn measure(suite: &mut Suite, missed: &mut Missed) -> Result<(), Failure> {
    let keys = suite.rows(KEYS);
    let window = window(suite, keys, ROWS_PER_KEY);
    let budget = keys * ENTRY / TIMES;
    suite.say(&format!("  budget: {:.0} MB for {:.0} MB of entries", budget as f64 / 1e6, (keys * ENTRY) as f64 / 1e6));
    let name = format!("budget/keys={keys}");
    let case = Case::new(name.as_str(), window.rows())
        .with(window.within(budget).system("millstream"))
        .with(window.system("millstream/in memory"));
    suite.measure(Across::Different, vec![case])?;
    let measured = |suite: &Suite, system: &str, field: &str| median_of(suite, &name, system, field);
    for system in ["millstream", "millstream/in memory"] {
        let mb = |field: &str| measured(suite, system, field) / 1e6;
        suite.say(&format!(
            "    {system}: at most {:.0} MB of the budget's {:.0} MB, {:.0} MB resident; {:.0} MB spilled",
            mb("budget_peak_bytes"),
            mb("budget_bytes"),
            mb("resident_peak_bytes"),
            mb("spilled_bytes")
        ));
    }
    let rate = |system: &str| measured(suite, system, "rows_per_s");
    let ratio = rate("millstream") / rate("millstream/in memory");
    let peak = measured(suite, "millstream", "budget_peak_bytes") / measured(suite, "millstream", "budget_bytes");
    suite.say(&format!("    ratio {ratio:.2}; peak {peak:.2} of the budget"));
    missed.unless(ratio >= RATIO, || format!("state of {TIMES} times the budget: {ratio:.2} of the rate in memory"));
    missed.unless(peak <= PEAK, || format!("state of {TIMES} times the budget: memory was {peak:.2} of the budget"));
    Ok(())
}

/// One window with `keys` keys.
pub(super) fn window(suite: &Suite, keys: u64, rows_per_key: u64) -> Window {
    let directory = suite.options.directory.join("state-spill");
    let blocks = (keys * rows_per_key).div_ceil(BLOCK);
    Window { keys, blocks, threads: suite.threads(), memory: None, directory }
}
