//! How many cycles a nanosecond has, so that costs can be told in either unit.

use std::time::{Duration, Instant};

/// Shorter than this the two clocks cannot be compared.
const LEAST: Duration = Duration::from_micros(100);

/// The processor's reference clock, read together with the wall clock at one moment.
#[derive(Debug)]
pub(crate) struct CycleClock {
    /// The moment.
    pub(super) started: Instant,
    counter: Option<u64>,
}

impl Default for CycleClock {
    /// Starts now.
    fn default() -> CycleClock {
        CycleClock { started: Instant::now(), counter: counter() }
    }
}

impl CycleClock {
    /// Cycles of the reference clock per nanosecond, measured since the start; `None` too soon after it, and where programs
    /// cannot read that clock. Its frequency is fixed: a core that is clocked higher or lower does more or less in a cycle.
    pub(crate) fn per_nano(&self) -> Option<f64> {
        let (before, now, elapsed) = (self.counter?, counter()?, self.started.elapsed());
        let cycles = now.checked_sub(before).filter(|&cycles| cycles > 0)?;
        (elapsed >= LEAST).then(|| cycles as f64 / elapsed.as_nanos() as f64)
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn counter() -> Option<u64> {
    // SAFETY: all processors of this architecture have the instruction, and it changes no memory.
    Some(unsafe { core::arch::x86_64::_rdtsc() })
}

#[cfg(any(not(target_arch = "x86_64"), miri))]
fn counter() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_those_of_a_processor() {
        let clock = CycleClock::default();
        std::thread::sleep(Duration::from_millis(2));
        let cycles = clock.per_nano();
        assert_eq!(cycles.is_some(), counter().is_some());
        assert!(cycles.is_none_or(|cycles| (0.3..10.0).contains(&cycles)), "{cycles:?} GHz");
    }
}
