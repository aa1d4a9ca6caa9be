//! A private S3 server on a free port, gone when nobody uses it any more, and a gate in front of it that can be closed.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

pub struct Server {
    process: Child,
    port: u16,
}

static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());

impl Server {
    /// The server of all tests.
    pub fn shared() -> Arc<Server> {
        let mut shared = SHARED.lock().unwrap();
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Server::start(&[]));
            *shared = Arc::downgrade(&server);
            server
        })
    }

    /// A server of its own, with variables.
    pub fn start(variables: &[(&str, &str)]) -> Server {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/s3.sh");
        let mut command = Command::new(script);
        command.args(["serve", &port.to_string()]).envs(variables.iter().copied());
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = Server { process, port };
        let since = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = server.process.try_wait().unwrap();
            assert!(
                ended.is_none() && since.elapsed() < Duration::from_secs(60),
                "the server does not start: {ended:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Status and content of the answer to a request, whose signature the server does not check.
    fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let (length, scope) = (body.len(), "test/20240101/us-east-1/s3/aws4_request");
        let signature = format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0");
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {signature}\r\n").unwrap();
        write!(stream, "Content-Length: {length}\r\nConnection: close\r\n\r\n").unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
        (status, answer.split_off(end + 4))
    }

    pub fn make_bucket(&self, name: &str) {
        assert_eq!(self.ask("PUT", &format!("/{name}"), b"").0, 200);
    }

    /// The keys of a bucket.
    pub fn keys(&self, bucket: &str) -> Vec<String> {
        let (status, list) = self.ask("GET", &format!("/{bucket}?list-type=2"), b"");
        assert_eq!(status, 200);
        let list = String::from_utf8(list).unwrap();
        list.split("<Key>").skip(1).map(|rest| rest.split_once("</Key>").unwrap().0.to_string()).collect()
    }

    pub fn get(&self, bucket: &str, key: &str) -> Vec<u8> {
        let (status, content) = self.ask("GET", &format!("/{bucket}/{key}"), b"");
        assert_eq!(status, 200);
        content
    }

    pub fn put(&self, bucket: &str, key: &str, content: &[u8]) {
        assert_eq!(self.ask("PUT", &format!("/{bucket}/{key}"), content).0, 200);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// Hands connections on to a server, unless it is closed.
pub struct Gate {
    port: u16,
    is_open: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Gate {
    pub fn new(server: &Server) -> Gate {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let gate = Gate {
            port: listener.local_addr().unwrap().port(),
            is_open: Arc::new(AtomicBool::new(true)),
            streams: Arc::default(),
        };
        let (is_open, streams, port) = (gate.is_open.clone(), gate.streams.clone(), server.port());
        std::thread::spawn(move || {
            for here in listener.incoming() {
                let (here, there) = (here.unwrap(), TcpStream::connect(("127.0.0.1", port)));
                let Ok(there) = there else { continue };
                let mut streams = streams.lock().unwrap();
                if !is_open.load(SeqCst) {
                    continue;
                }
                for (from, to) in [(&here, &there), (&there, &here)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
                streams.extend([here, there]);
            }
        });
        gate
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Breaks all connections and accepts none.
    pub fn close(&self) {
        self.is_open.store(false, SeqCst);
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn open(&self) {
        self.is_open.store(true, SeqCst);
    }
}
