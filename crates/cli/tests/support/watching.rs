//! A job of the command that is followed while it runs: its log, and what `--http` serves.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// See the module.
pub struct Watching {
    child: Child,
    pub address: String,
    log: Arc<Mutex<String>>,
    /// Until the log is complete.
    reader: Option<JoinHandle<()>>,
}

impl Watching {
    /// Starts the command, with `--http`.
    pub fn start(command: &mut Command) -> Watching {
        let mut child = command.args(["--http", "0"]).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let address = served(&mut errors);
        let log = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            let mut add = |line: String| *written.lock().unwrap() += &(line + "\n");
            errors.lines().map_while(Result::ok).for_each(&mut add);
        });
        Watching { child, address, log, reader: Some(reader) }
    }

    /// What it has told so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Until it has told all of this.
    pub fn tells(&self, texts: &[&str]) {
        let is_told = || texts.iter().all(|text| self.log().contains(text)).then_some(());
        let what = || format!("{texts:?} in\n{}", self.log());
        eventually(&what, is_told);
    }

    /// Until the samples of these series are as they should be, at one moment.
    pub fn shows(&self, series: &[&str], is_so: impl Fn(&[f64]) -> bool) {
        let samples = || -> Option<Vec<f64>> {
            let page = self.get("/metrics").1;
            series.iter().map(|series| sample(&page, series)).collect()
        };
        let what = || format!("{series:?} are {:?} in\n{}\n{}", samples(), self.get("/metrics").1, self.log());
        eventually(&what, || samples().filter(|samples| is_so(samples)).map(drop));
    }

    /// Status and body of an answer.
    pub fn get(&self, path: &str) -> (u16, String) {
        let stream = TcpStream::connect(&self.address);
        let mut stream = stream.unwrap_or_else(|e| panic!("{e}: it has ended\n{}", self.log()));
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        status_and_body(&answer)
    }

    /// Exit code and log of a process that ends.
    pub fn ended(mut self) -> (Option<i32>, String) {
        let log = Arc::clone(&self.log);
        let what = || format!("it ends\n{}", log.lock().unwrap());
        let status = eventually(&what, || self.child.try_wait().unwrap());
        self.reader.take().into_iter().for_each(|reader| reader.join().unwrap());
        let told = log.lock().unwrap().clone();
        (status.code(), told)
    }

    /// The same of one that is stopped.
    pub fn stopped(self) -> (Option<i32>, String) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        self.ended()
    }
}

impl Drop for Watching {
    /// Nothing is left of a test that has failed, or that wants no more.
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Of an answer.
pub fn status_and_body(answer: &str) -> (u16, String) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_string())
}

/// The address that a process says it serves.
fn served(errors: &mut impl BufRead) -> String {
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    let address = line.trim().rsplit_once("metrics at http://").and_then(|(_, rest)| rest.strip_suffix("/metrics"));
    address.unwrap_or_else(|| panic!("{line}")).to_string()
}

/// The value of a series.
pub fn sample(page: &str, series: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

/// Until `done` gives something; `what` says what was waited for in vain.
pub fn eventually<T>(what: &dyn Fn() -> String, mut done: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(value) = done() {
            return value;
        }
        assert!(since.elapsed() < Duration::from_secs(40), "{}", what());
        std::thread::sleep(Duration::from_millis(20));
    }
}
