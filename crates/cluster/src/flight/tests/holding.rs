//! What is held for a message is dropped when the connection has it, or when its lane is lost.

use super::*;
use crate::recording::Holds;

fn send(mesh: &Arc<Mesh>, bytes: usize, sent: Sent, holds: &Arc<Holds>) {
    mesh.send(1, vec![0; bytes].into(), sent, holds.one(mesh)).unwrap();
}

#[test]
fn what_is_held_is_dropped_when_it_has_been_sent_or_is_lost() {
    let (mut listeners, recorders) = (listeners(2, None), Recorder::several(2));
    let meshes = meshes(&listeners, &recorders, |_, config| config.window = 10_000);
    let mut meshes: Vec<_> = meshes.into_iter().map(Arc::new).collect();
    let holds = Arc::new(Holds::default());
    for _ in 0..100 {
        send(&meshes[0], 1000, Sent::Data, &holds);
        send(&meshes[0], 10, Sent::Mark, &holds);
    }
    send(&meshes[0], 9 << 20, Sent::Data, &holds);
    holds.wait(0);
    recorders[1].wait(|seen| seen.messages[0].len() == 201);
    // The first leaves, though the receiver keeps its credit. The others wait for that.
    recorders[1].hold(true);
    for sent in [Sent::Data, Sent::Data, Sent::Mark] {
        send(&meshes[0], 8000, sent, &holds);
    }
    holds.wait(2);
    recorders[1].wait(|seen| seen.messages[0].len() == 202);
    assert_eq!(holds.count(), 2);
    // What is not taken is dropped at once.
    assert!(meshes[0].send(7, Bytes::new(), Sent::Data, holds.one(&meshes[0])).is_err());
    assert_eq!(holds.count(), 2);
    drop((meshes.pop(), listeners.pop()));
    holds.wait(0);
    recorders[0].wait_lost();
    send(&meshes[0], 8000, Sent::Data, &holds);
    assert_eq!(holds.count(), 0);
}

#[test]
fn a_lane_without_a_connection_drops_what_is_held_with_its_mesh() {
    let (listeners, recorders) = (listeners(2, None), Recorder::several(2));
    let mesh = Arc::new(listeners[0].mesh(config(&listeners, 0), Arc::clone(&recorders[0]) as _).unwrap());
    let holds = Arc::new(Holds::default());
    send(&mesh, 1000, Sent::Data, &holds);
    assert_eq!(holds.count(), 1);
    assert!(!mesh.close(Duration::ZERO));
    assert_eq!(holds.count(), 1);
    send(&mesh, 1000, Sent::Data, &holds);
    assert_eq!(holds.count(), 1, "what comes after the end is dropped");
    drop(mesh);
    assert_eq!(holds.count(), 0);
}

/// A connection that takes nothing more keeps part of a message for a while; what is held for it is not kept by that.
#[test]
fn a_connection_that_stands_still_does_not_keep_what_is_held() {
    let (listeners, recorders) = (listeners(2, None), Recorder::several(2));
    let line = Line::to(listeners[1].address());
    let meshes = meshes(&listeners, &recorders, |me, config| {
        // There is credit, whether or not that of the first message comes back.
        config.window = 64 << 20;
        if me == 0 {
            config.peers[1] = line.address.to_string();
        }
    });
    let mut meshes: Vec<_> = meshes.into_iter().map(Arc::new).collect();
    let holds = Arc::new(Holds::default());
    send(&meshes[0], 1000, Sent::Data, &holds);
    recorders[1].wait(|seen| seen.messages[0].len() == 1);
    line.is_cut.store(true, Relaxed);
    // Far more than what HTTP/2 has on its way.
    send(&meshes[0], 32 << 20, Sent::Data, &holds);
    while meshes[0].unsent_to(1) > 0 {
        std::thread::yield_now();
    }
    assert_eq!(holds.count(), 1, "its last frame is still here");
    assert!((32 << 20..=meshes[0].window()).contains(&meshes[0].unfinished_at(1)), "{}", meshes[0].unfinished_at(1));
    drop(meshes.remove(0));
    assert_eq!(holds.count(), 0);
}
