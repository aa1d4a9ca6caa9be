//! How much memory there is for this process: that of the machine, or what its control groups allow.

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an answer holds: a query asks several times, which takes it a tenth of a millisecond each. Limits of groups can be changed.
const HOLDS: Duration = Duration::from_secs(1);

/// Bytes, as far as the system says; 4 GiB where it says nothing. Up to a second old.
pub fn available_memory() -> u64 {
    static KNOWN: Mutex<Option<(Instant, u64)>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    match *known {
        Some((at, bytes)) if at.elapsed() < HOLDS => bytes,
        _ => {
            let bytes = available(&|path| fs::read_to_string(path).ok()).unwrap_or(4 << 30);
            *known = Some((Instant::now(), bytes));
            bytes
        }
    }
}

/// The least of the machine's memory and the limits of the process's control groups, which are those of version 2 or 1.
/// A group is limited by all groups that it is in.
fn available(read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let machine = read("/proc/meminfo").and_then(|text| total_memory(&text));
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    // Within a container's own view the group's path may not exist; its root does.
    let groups = groups.lines().filter_map(limit_files).flatten();
    let roots = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"].map(str::to_owned);
    let limits = groups.chain(roots).filter_map(|file| read(&file)).filter_map(|text| group_limit(&text));
    machine.into_iter().chain(limits).min()
}

/// `MemTotal` of /proc/meminfo, in bytes.
fn total_memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The files with the limits of a group and of all that it is in, for a line of /proc/self/cgroup: `0::/path` of version 2,
/// `5:memory:/path` of version 1.
fn limit_files(line: &str) -> Option<Vec<String>> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    let (root, file) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|c| c == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        _ => return None,
    };
    let ends = path.match_indices('/').map(|(i, _)| i).filter(|&i| i > 0).chain([path.len()]);
    Some(ends.map(|end| format!("{root}{}/{file}", path[..end].trim_end_matches('/'))).collect())
}

/// The limit in a group's file; `None` when there is none (`max`; version 1 writes a number that no machine has).
fn group_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|&bytes| bytes < 1 << 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn available_with(files: &[(&str, &str)]) -> Option<u64> {
        available(&|path| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned()))
    }

    const MEMINFO: (&str, &str) = ("/proc/meminfo", "MemTotal:       16384000 kB\nMemFree:         1000000 kB\n");

    #[test]
    fn the_machine_limits_where_no_group_does() {
        assert_eq!(available_with(&[MEMINFO]), Some(16_384_000 << 10));
        let unlimited = [("/proc/self/cgroup", "0::/\n"), ("/sys/fs/cgroup/memory.max", "max\n"), MEMINFO];
        assert_eq!(available_with(&unlimited), Some(16_384_000 << 10));
        let first = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(available_with(&[first, MEMINFO]), Some(16_384_000 << 10));
        assert_eq!(available_with(&[]), None);
        assert_eq!(available_with(&[("/proc/meminfo", "MemTotal: much\n")]), None);
        assert!(available_memory() > 0);
    }

    #[test]
    fn the_tightest_group_counts() {
        let second = [
            ("/proc/self/cgroup", "0::/system.slice/a.service\n"),
            ("/sys/fs/cgroup/system.slice/memory.max", "2000000\n"),
            ("/sys/fs/cgroup/system.slice/a.service/memory.max", "3000000\n"),
            MEMINFO,
        ];
        assert_eq!(available_with(&second), Some(2_000_000));
        let first = [
            ("/proc/self/cgroup", "12:cpu,cpuacct:/docker/x\n5:memory:/docker/x\n"),
            ("/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "5000000"),
            MEMINFO,
        ];
        assert_eq!(available_with(&first), Some(5_000_000));
        let container = [("/proc/self/cgroup", "0::/docker/x\n"), ("/sys/fs/cgroup/memory.max", "7000000\n"), MEMINFO];
        assert_eq!(available_with(&container), Some(7_000_000));
    }
}
