//! A small disk that a test fills and frees again.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory, mounted over a directory until this is dropped.
pub struct Disk {
    directory: PathBuf,
}

impl Disk {
    /// A disk of `mib` MiB, which belongs to whoever runs the tests; `None`, with the reason on standard error, where
    /// mounting is refused.
    pub fn mount(directory: &Path, mib: u64) -> Option<Disk> {
        fs::create_dir_all(directory).unwrap();
        let owner = fs::metadata(directory).unwrap();
        let options = format!("size={mib}m,mode=700,uid={},gid={}", owner.uid(), owner.gid());
        let mount = ["mount", "-t", "tmpfs", "-o", &options, "millstream-test"];
        let disk = Disk { directory: directory.to_path_buf() };
        for rights in [&[][..], &["sudo", "-n"]] {
            let command = [rights, &mount[..]].concat();
            let output = Command::new(command[0]).args(&command[1..]).arg(directory).output();
            match output {
                Ok(output) if output.status.success() => return Some(disk),
                Ok(output) => eprintln!("no small disk: {}", String::from_utf8_lossy(&output.stderr).trim()),
                Err(error) => eprintln!("no small disk: {}: {error}", command[0]),
            }
        }
        eprintln!(
            "the parts of this test with a full disk are left out: mounting one takes root, or sudo without a password"
        );
        std::mem::forget(disk);
        None
    }

    fn filler(&self) -> PathBuf {
        self.directory.join("filler")
    }

    /// Takes all space but `left` bytes.
    pub fn fill(&self, left: u64) {
        let file = File::create(self.filler()).unwrap();
        self.fill_up();
        let length = file.metadata().unwrap().len();
        file.set_len(length.saturating_sub(left)).unwrap();
    }

    /// Takes all space that is left.
    pub fn fill_up(&self) {
        let mut file = File::options().append(true).create(true).open(self.filler()).unwrap();
        for block in [1 << 16, 1] {
            let bytes = vec![7; block];
            loop {
                match file.write(&bytes) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    /// Gives back what was taken.
    pub fn free(&self) {
        fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for rights in [&[][..], &["sudo", "-n"]] {
            // Lazily: a process that has failed to end may still be there.
            let command = [rights, &["umount", "-l"]].concat();
            let done = Command::new(command[0]).args(&command[1..]).arg(&self.directory).output();
            if done.is_ok_and(|output| output.status.success()) {
                break;
            }
        }
    }
}
