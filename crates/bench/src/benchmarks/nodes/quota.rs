//! Control groups in which a node has a part of a core (version 1, which needs root).

use crate::suite::Failure;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = "/sys/fs/cgroup";
/// Long enough that a period is some turns of a thread, and so short that a node that waits for another one waits little.
const PERIOD_US: u64 = 20_000;

/// A part of a core, and what was used of it. Gone when it is dropped; its processes must have ended.
pub(super) struct Quota {
    cpu: PathBuf,
    accounting: PathBuf,
}

impl Quota {
    /// So much of a core.
    pub(super) fn new(name: &str, cores: f64) -> Result<Quota, Failure> {
        let of = |controller: &str| Path::new(ROOT).join(controller).join(name);
        let quota = Quota { cpu: of("cpu"), accounting: of("cpuacct") };
        for folder in [&quota.cpu, &quota.accounting] {
            fs::create_dir_all(folder).map_err(|e| {
                format!("{} cannot be made: {e}; control groups of version 1 and root are wanted", folder.display())
            })?;
        }
        fs::write(quota.cpu.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
        fs::write(quota.cpu.join("cpu.cfs_quota_us"), ((PERIOD_US as f64 * cores) as u64).to_string())?;
        Ok(quota)
    }

    /// A command that runs a program in it, or what comes before it.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        let groups = [&self.cpu, &self.accounting].map(|folder| folder.join("cgroup.procs"));
        command.args(["-c", r#"echo $$ > "$0"; echo $$ > "$1"; shift; exec "$@""#]).args(groups).arg(program);
        command
    }

    /// Processor time of all that has run in it, in seconds.
    pub(super) fn used_s(&self) -> Result<f64, Failure> {
        Ok(fs::read_to_string(self.accounting.join("cpuacct.usage"))?.trim().parse::<f64>()? / 1e9)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // A folder that stays is used by the next run.
        let _ = fs::remove_dir(&self.cpu);
        let _ = fs::remove_dir(&self.accounting);
    }
}
