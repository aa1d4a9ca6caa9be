//! A window that is ten times as large as the memory budget, and groups without one, beside the same in memory.

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

/// Groups without a window, and bytes of a key, its hash, its number, count and sum in memory.
const GROUPS: u64 = 5_000_000;
const GROUP: u64 = 100;

/// Measures a window within the budget and in memory in turn.
pub(super) fn measure(suite: &mut Suite, missed: &mut Missed) -> Result<(), Failure> {
    let keys = suite.rows(KEYS);
    let of_window = window(suite, keys, ROWS_PER_KEY);
    measure_one(suite, missed, &format!("budget/keys={keys}"), &of_window, keys * ENTRY)
}

/// The same of groups without a window.
pub(super) fn measure_standing(suite: &mut Suite, missed: &mut Missed) -> Result<(), Failure> {
    let groups = suite.rows(GROUPS);
    let standing = Window { standing: true, ..window(suite, groups, ROWS_PER_KEY) };
    measure_one(suite, missed, &format!("standing/groups={groups}"), &standing, groups * GROUP)
}

fn measure_one(suite: &mut Suite, missed: &mut Missed, name: &str, window: &Window, bytes: u64) -> Result<(), Failure> {
    let budget = bytes / TIMES;
    suite.say(&format!("  budget: {:.0} MB for {:.0} MB of entries", budget as f64 / 1e6, bytes as f64 / 1e6));
    let case = Case::new(name, window.rows())
        .with(window.within(budget).system("millstream"))
        .with(window.system("millstream/in memory"));
    suite.measure(Across::Different, vec![case])?;
    let measured = |suite: &Suite, system: &str, field: &str| median_of(suite, name, system, field);
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
    // Groups that stand are read and written whenever a beat touches them: how fast that is, is reported.
    missed.unless(window.standing || ratio >= RATIO, || {
        format!("{name}: state of {TIMES} times the budget: {ratio:.2} of the rate in memory")
    });
    missed.unless(peak <= PEAK, || {
        format!("{name}: state of {TIMES} times the budget: memory was {peak:.2} of the budget")
    });
    Ok(())
}

/// One window with `keys` keys.
pub(super) fn window(suite: &Suite, keys: u64, rows_per_key: u64) -> Window {
    let directory = suite.options.directory.join("state-spill");
    let blocks = (keys * rows_per_key).div_ceil(BLOCK);
    Window { keys, blocks, threads: suite.threads(), memory: None, directory, standing: false }
}
