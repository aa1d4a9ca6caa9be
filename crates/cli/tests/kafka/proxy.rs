//! Stands between a process and the broker, and kills the process just before or just after a transaction is committed.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// The request that commits or aborts a transaction.
const END_TXN: i16 = 26;

/// When a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The broker has not heard of the commit.
    Before,
    /// It has answered, and the process does not know.
    Behind,
}

/// What is to be killed, and when.
struct Victim {
    process: Pid,
    moment: Moment,
    /// At commits of transactional ids that have this in them.
    of: String,
}

/// See the module.
#[derive(Default)]
pub struct Proxy {
    victim: Mutex<Option<Victim>>,
}

impl Proxy {
    /// Listens on the second port and forwards to the first.
    pub fn start((broker, port): (u16, u16)) -> Arc<Proxy> {
        let (listener, proxy) = (TcpListener::bind(("127.0.0.1", port)).unwrap(), Arc::new(Proxy::default()));
        let shared = Arc::clone(&proxy);
        thread::spawn(move || {
            for client in listener.incoming().map(Result::unwrap) {
                let broker = TcpStream::connect(("127.0.0.1", broker)).unwrap();
                shared.connect(client, broker);
            }
        });
        proxy
    }

    /// Has a process killed at the next commit of a transactional id that has `of` in it.
    pub fn kill(&self, process: Pid, moment: Moment, of: &str) {
        *self.victim.lock().unwrap() = Some(Victim { process, moment, of: of.to_string() });
    }

    /// Whether a process is still to be killed.
    pub fn waits(&self) -> bool {
        self.victim.lock().unwrap().is_some()
    }

    /// The process has ended; whether it was killed.
    pub fn has_killed(&self) -> bool {
        self.victim.lock().unwrap().take().is_none()
    }

    /// Passes requests and answers on.
    fn connect(self: &Arc<Proxy>, client: TcpStream, broker: TcpStream) {
        // The number of the request whose answer the process must not see.
        let last = Arc::new(Mutex::new(None::<Vec<u8>>));
        let (mut requests, mut to_broker) = (client.try_clone().unwrap(), broker.try_clone().unwrap());
        let (proxy, number) = (Arc::clone(self), Arc::clone(&last));
        thread::spawn(move || {
            while let Ok(request) = frame(&mut requests) {
                if i16::from_be_bytes([request[4], request[5]]) == END_TXN && proxy.is_meant(&request) {
                    if proxy.kill_at(Moment::Before) {
                        break;
                    }
                    *number.lock().unwrap() = Some(request[8..12].to_vec());
                }
                if to_broker.write_all(&request).is_err() {
                    break;
                }
            }
            _ = to_broker.shutdown(Shutdown::Write);
        });
        let (mut answers, mut to_client, proxy) = (broker, client, Arc::clone(self));
        thread::spawn(move || {
            while let Ok(answer) = frame(&mut answers) {
                let is_last = last.lock().unwrap().as_deref() == Some(&answer[4..8]);
                if is_last && proxy.kill_at(Moment::Behind) || to_client.write_all(&answer).is_err() {
                    break;
                }
            }
            _ = to_client.shutdown(Shutdown::Both);
        });
    }

    /// Whether it is a request of an id at whose commit a process is killed.
    fn is_meant(&self, request: &[u8]) -> bool {
        let victim = self.victim.lock().unwrap();
        victim.as_ref().is_some_and(|victim| contains(request, victim.of.as_bytes()))
    }

    /// Kills the process if this is the moment.
    fn kill_at(&self, moment: Moment) -> bool {
        let victim = self.victim.lock().unwrap().take_if(|victim| victim.moment == moment);
        victim.is_some_and(|victim| kill_process(victim.process, Signal::KILL).is_ok())
    }
}

fn contains(all: &[u8], part: &[u8]) -> bool {
    part.is_empty() || all.windows(part.len()).any(|window| window == part)
}

/// A request or an answer, with its length before it.
fn frame(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut frame = vec![0; 4 + u32::from_be_bytes(length) as usize];
    frame[..4].copy_from_slice(&length);
    from.read_exact(&mut frame[4..])?;
    Ok(frame)
}
