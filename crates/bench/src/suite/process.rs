//! What the machine says of this process.

use super::Failure;
use std::fs;
use std::time::Duration;

/// Resident memory.
pub(crate) fn resident_bytes() -> Result<u64, Failure> {
    const PAGE: u64 = 4096;
    let pages = fs::read_to_string("/proc/self/statm")?;
    Ok(pages.split_whitespace().nth(1).ok_or("no resident size in /proc/self/statm")?.parse::<u64>()? * PAGE)
}

/// Processor time of all threads so far.
pub(crate) fn process_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Mappings of memory that holds code.
pub(crate) fn code_mappings() -> Result<usize, Failure> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let permissions = maps.lines().filter_map(|line| line.split_whitespace().nth(1));
    Ok(permissions.filter(|permissions| permissions.contains('x')).count())
}

/// The most resident memory so far.
pub(crate) fn peak_resident_bytes() -> Result<u64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM in /proc/self/status")?;
    Ok(peak.trim().trim_end_matches(" kB").trim().parse::<u64>()? * 1024)
}
