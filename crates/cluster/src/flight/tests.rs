//! Nodes of one process over the loopback: what they exchange, whom they refuse, and what they notice.

mod attempts;
mod calls;
mod certificates;
mod damage;
mod holding;

use super::attempt::MeshConfig;
use super::control::{self, CONTROL_LIMIT, Caller, Control};
use super::dial::Dial;
use super::listener::{ListenConfig, Listener};
use super::mesh::Mesh;
use super::tls::{Tls, TlsPaths};
use super::token::Token;
use crate::recording::{Recorder, exchange_random_messages, holds_and_resumes};
use crate::transport::{Sent, Transport};
use bytes::Bytes;
use millstream_types::{Diagnostic, code};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const TOKEN: &str = "a-token-of-tests";
const PATIENCE: Duration = Duration::from_secs(60);

fn token() -> Token {
    Token::new(TOKEN).unwrap()
}

fn listen_config(tls: Option<TlsPaths>) -> ListenConfig {
    ListenConfig { address: "127.0.0.1:0".into(), tls, insecure: false, token: token(), control: None }
}

fn listeners(count: usize, tls: Option<&TlsPaths>) -> Vec<Listener> {
    (0..count).map(|_| Listener::bind(listen_config(tls.cloned())).unwrap()).collect()
}

fn config(listeners: &[Listener], me: usize) -> MeshConfig {
    MeshConfig {
        job: "job".into(),
        attempt: 7,
        me,
        peers: listeners.iter().map(|listener| listener.address().to_string()).collect(),
        only: None,
        plan: 0xABC,
        engine: "0.1.0".into(),
        token: token(),
        window: 1 << 20,
        connect_timeout: PATIENCE,
    }
}

/// The meshes of several nodes; `change` is asked for the configuration of each.
fn meshes(listeners: &[Listener], recorders: &[Arc<Recorder>], change: impl Fn(usize, &mut MeshConfig)) -> Vec<Mesh> {
    let mesh = |(me, listener): (usize, &Listener)| {
        let mut config = config(listeners, me);
        change(me, &mut config);
        listener.mesh(config, Arc::clone(&recorders[me]) as _).unwrap()
    };
    listeners.iter().enumerate().map(mesh).collect()
}

#[test]
fn three_nodes_exchange_random_messages() {
    for (seed, window) in [(1, 1), (2, 5_000), (3, 1 << 20)] {
        let (listeners, recorders) = (listeners(3, None), Recorder::several(3));
        let meshes = meshes(&listeners, &recorders, |_, config| config.window = window);
        exchange_random_messages(&meshes, &recorders, seed, window);
    }
}

#[test]
fn large_messages_are_cut_and_put_together() {
    let (listeners, recorders) = (listeners(2, None), Recorder::several(2));
    let meshes = meshes(&listeners, &recorders, |_, _| {});
    let large: Bytes = (0..(9 << 20) + 5).map(|i| (i % 253) as u8).collect();
    for _ in 0..3 {
        meshes[0].send(1, large.clone(), Sent::Data, None).unwrap();
    }
    assert!(meshes[0].close(PATIENCE));
    recorders[1].wait(|seen| seen.messages[0].len() == 3 && seen.messages[0].iter().all(|message| *message == large));
}

#[test]
fn a_receiver_that_holds_its_credits_bounds_its_memory() {
    let (listeners, recorders) = (listeners(2, None), Recorder::several(2));
    let meshes = meshes(&listeners, &recorders, |_, config| config.window = 10_000);
    holds_and_resumes(&meshes[0], &recorders[1], 10_000);
}

#[test]
fn a_killed_node_is_lost() {
    let (mut listeners, recorders) = (listeners(3, None), Recorder::several(3));
    let mut meshes = meshes(&listeners, &recorders, |_, _| {});
    for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        meshes[from].send(to, Bytes::from_static(b"hello"), Sent::Data, None).unwrap();
    }
    recorders.iter().for_each(|recorder| recorder.wait(|seen| seen.messages.iter().flatten().count() == 2));
    drop((meshes.pop(), listeners.pop()));
    for recorder in &recorders[..2] {
        assert_eq!(recorder.wait_lost().code, code::NODE_LOST);
        assert_eq!(recorder.lost(), [(2, code::NODE_LOST)]);
    }
    assert_eq!(recorders[2].lost(), []);
    // What is sent to it is dropped; the others go on.
    meshes[0].send(2, Bytes::from(vec![0; 1000]), Sent::Data, None).unwrap();
    assert_eq!(meshes[0].unsent_to(2), 0);
    meshes[0].send(1, Bytes::from_static(b"on"), Sent::Data, None).unwrap();
    recorders[1].wait(|seen| seen.messages[0].len() == 2);
    assert!(!meshes[0].close(PATIENCE), "node 2 has not got everything");
}

#[test]
fn a_node_that_has_closed_is_not_lost() {
    let (mut listeners, recorders) = (listeners(2, None), Recorder::several(2));
    let mut meshes = meshes(&listeners, &recorders, |_, _| {});
    meshes[1].send(0, Bytes::from_static(b"last"), Sent::Data, None).unwrap();
    assert!(meshes[1].close(PATIENCE));
    assert_eq!(recorders[0].count(1), 1);
    meshes[0].send(1, Bytes::from_static(b"still heard"), Sent::Data, None).unwrap();
    recorders[1].wait(|seen| seen.messages[0].len() == 1);
    drop((meshes.pop(), listeners.pop()));
    assert!(meshes[0].close(PATIENCE));
    assert_eq!(recorders[0].lost(), []);
    meshes[0].send(1, Bytes::from_static(b"after the end"), Sent::Data, None).unwrap();
    assert_eq!(meshes[0].unsent_bytes(), 0);
}

/// A connection that says nothing more and is not closed, as when a machine loses power: pings find it.
#[test]
fn a_silent_node_is_lost() {
    let (listeners, recorders) = (listeners(2, None), Recorder::several(2));
    let line = Line::to(listeners[1].address());
    let meshes = meshes(&listeners, &recorders, |me, config| {
        if me == 0 {
            config.peers[1] = line.address.to_string();
        }
    });
    meshes[0].send(1, Bytes::from_static(b"before"), Sent::Data, None).unwrap();
    recorders[1].wait(|seen| seen.messages[0].len() == 1);
    line.is_cut.store(true, Relaxed);
    meshes[0].send(1, Bytes::from_static(b"after"), Sent::Data, None).unwrap();
    assert_eq!(recorders[0].wait_lost().code, code::NODE_LOST);
    assert_eq!(recorders[1].wait_lost().code, code::NODE_LOST);
    assert_eq!(recorders[1].count(0), 1);
}

/// A line that passes bytes on until it is cut. Its sockets stay open.
struct Line {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
}

impl Line {
    fn to(far: SocketAddr) -> Line {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let line = Line { address: socket.local_addr().unwrap(), is_cut: Arc::default() };
        let is_cut = Arc::clone(&line.is_cut);
        std::thread::spawn(move || {
            for near in socket.incoming() {
                let (near, far) = (near.unwrap(), TcpStream::connect(far).unwrap());
                for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                    let is_cut = Arc::clone(&is_cut);
                    std::thread::spawn(move || {
                        let mut bytes = [0; 4096];
                        while let Ok(count @ 1..) = from.read(&mut bytes) {
                            if !is_cut.load(Relaxed) && to.write_all(&bytes[..count]).is_err() {
                                break;
                            }
                        }
                        // An end is not passed on either.
                        std::mem::forget((from, to));
                    });
                }
            }
        });
        line
    }
}

#[test]
fn a_node_that_does_not_answer_is_unreachable() {
    let (mut listeners, recorders) = (listeners(2, None), Recorder::several(2));
    let mut config = config(&listeners, 0);
    drop(listeners.pop());
    config.connect_timeout = Duration::from_millis(100);
    let _mesh = listeners[0].mesh(config, Arc::clone(&recorders[0]) as _).unwrap();
    assert_eq!(recorders[0].wait_lost().code, code::NODE_UNREACHABLE);
}

/// The same mesh, with everything that it receives kept back.
#[test]
fn order_is_kept_over_a_slow_network() {
    use crate::delayed::{Delayed, Delays};
    let (listeners, recorders) = (listeners(3, None), Recorder::several(3));
    let (latency, jitter) = (Duration::from_micros(100), Duration::from_millis(1));
    let delays = Delays { seed: 5, latency, jitter, ..Delays::default() };
    let mesh = |me: usize| {
        let delayed = Delayed::new(delays.clone(), me, Arc::clone(&recorders[me]) as _).unwrap();
        listeners[me].mesh(config(&listeners, me), Arc::new(delayed)).unwrap()
    };
    let meshes: Vec<Mesh> = (0..3).map(mesh).collect();
    exchange_random_messages(&meshes, &recorders, 5, 1 << 20);
}
