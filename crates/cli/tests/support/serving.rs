//! A directory that `millstream serve` runs: its scripts, its log, and what it says of its jobs.
#![allow(dead_code, reason = "no test needs all of it")]

use crate::support::millstream;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A folder with the directories `jobs`, `in` and `out`.
pub struct Served {
    pub folder: PathBuf,
    /// More options of the command.
    pub options: Vec<String>,
    /// More of its environment.
    pub variables: Vec<(&'static str, String)>,
    /// What requests bring along as token.
    pub token: Option<String>,
    process: Option<Process>,
}

struct Process {
    child: Child,
    address: String,
    log: Arc<Mutex<String>>,
}

/// What `millstream serve` is started with by tests.
const OPTIONS: [&str; 6] = ["--http", "0", "--log-format", "text", "--workers", "2"];

impl Served {
    pub fn new(folder: &Path) -> Served {
        ["jobs", "in", "out"].into_iter().for_each(|name| fs::create_dir_all(folder.join(name)).unwrap());
        let (folder, options) = (folder.to_path_buf(), Vec::new());
        Served { folder, options, variables: Vec::new(), token: None, process: None }
    }

    /// Writes a script as editors do that replace the file at once.
    pub fn write(&self, job: &str, sql: &str) {
        let new = self.folder.join("jobs").join(format!(".{job}.new"));
        fs::write(&new, sql).unwrap();
        fs::rename(new, self.script(job)).unwrap();
    }

    pub fn script(&self, job: &str) -> PathBuf {
        self.folder.join("jobs").join(format!("{job}.sql"))
    }

    pub fn remove(&self, job: &str) {
        fs::remove_file(self.script(job)).unwrap();
    }

    pub fn start(&mut self) {
        let mut command = millstream(&self.folder);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let mut child = command.args(["serve", "jobs"]).args(OPTIONS).args(&self.options).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::new(Mutex::new(String::new()));
        let mut line = String::new();
        while !line.contains("/metrics") {
            *log.lock().unwrap() += &line;
            line.clear();
            assert!(errors.read_line(&mut line).unwrap() > 0, "it does not serve: {}", log.lock().unwrap());
        }
        let address = line.trim().trim_end_matches("/metrics").rsplit('/').next().unwrap().to_string();
        let written = Arc::clone(&log);
        std::thread::spawn(move || {
            errors.lines().map_while(Result::ok).for_each(|line| *written.lock().unwrap() += &(line + "\n"));
        });
        self.process = Some(Process { child, address, log });
    }

    fn process(&self) -> &Process {
        self.process.as_ref().unwrap()
    }

    pub fn id(&self) -> u32 {
        self.process().child.id()
    }

    pub fn log(&self) -> String {
        self.process().log.lock().unwrap().clone()
    }

    /// Status and body of an answer.
    pub fn ask(&self, method: &str, path: &str) -> (u16, String) {
        self.send(method, path, "")
    }

    /// The same of a request with a body of SQL.
    pub fn send(&self, method: &str, path: &str, sql: &str) -> (u16, String) {
        let stream = TcpStream::connect(&self.process().address);
        let mut stream = stream.unwrap_or_else(|e| panic!("{e}: it has ended\n{}", self.log()));
        let token = self.token.iter().map(|token| format!("Authorization: Bearer {token}\r\n")).collect::<String>();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Millstream-Action: test\r\n{token}");
        let length = format!("Content-Type: application/sql\r\nContent-Length: {}\r\n", sql.len());
        write!(stream, "{head}{length}Connection: close\r\n\r\n{sql}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}\n{}", self.log()));
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_string())
    }

    pub fn jobs(&self) -> Vec<Value> {
        let (status, body) = self.ask("GET", "/api/v1/jobs");
        assert_eq!(status, 200, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        answer["jobs"].as_array().unwrap().clone()
    }

    /// A job as it is now.
    pub fn job(&self, name: &str) -> Option<Value> {
        self.jobs().into_iter().find(|job| job["name"] == name)
    }

    /// Until a job is as it should be; that.
    pub fn until(&self, name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let what = || format!("{name} is {:?}\n{}", self.job(name), self.log());
        eventually(&what, || self.job(name).filter(|job| is_so(job)))
    }

    /// Until a job is in a state; what it is then.
    pub fn until_is(&self, name: &str, state: &str) -> Value {
        self.until(name, |job| job["state"] == state)
    }

    /// Until it has told this.
    pub fn tells(&self, text: &str) {
        eventually(&|| format!("{text} in\n{}", self.log()), || self.log().contains(text).then_some(()));
    }

    /// Lines of all files of an output directory, sorted.
    pub fn rows(&self, output: &str) -> Vec<String> {
        rows(&self.folder.join("out").join(output))
    }

    /// Until so many rows have been written; them.
    pub fn until_rows(&self, output: &str, count: usize) -> Vec<String> {
        let what = || format!("{} rows in {output} instead of {count}\n{}", self.rows(output).len(), self.log());
        eventually(&what, || Some(self.rows(output)).filter(|rows| rows.len() >= count))
    }

    pub fn kill(&mut self) {
        let Process { mut child, .. } = self.process.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Sends a signal, and waits for the end: exit code and log.
    pub fn terminate(&mut self) -> (Option<i32>, String) {
        let Process { mut child, log, .. } = self.process.take().unwrap();
        let id = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        let text = || log.lock().unwrap().clone();
        let status = eventually(&|| format!("it ends\n{}", text()), || child.try_wait().unwrap());
        (status.code(), text())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(Process { child, .. }) = &mut self.process {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// Lines of all files of a directory, sorted.
pub fn rows(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let files = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with(['.', '_']));
    // A file may be renamed meanwhile.
    let texts = files.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let mut rows: Vec<String> = texts.flat_map(|text| text.lines().map(str::to_string).collect::<Vec<_>>()).collect();
    rows.sort();
    rows
}

/// Until `done` gives something; `what` says what was waited for in vain.
pub fn eventually<T>(what: &dyn Fn() -> String, mut done: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(value) = done() {
            return value;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "{}", what());
        std::thread::sleep(Duration::from_millis(20));
    }
}
