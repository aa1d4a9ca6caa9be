//! Who is let in: tokens, attempts, plans, numbers.

use super::*;

/// What node 0 hears when the two nodes are configured differently.
fn refusal(change: impl Fn(usize, &mut MeshConfig)) -> Diagnostic {
    let (listeners, recorders) = (listeners(2, None), Recorder::several(2));
    let _meshes = meshes(&listeners, &recorders, change);
    recorders[0].wait_lost()
}

#[test]
fn another_token_is_refused_and_not_shown() {
    let other = "quite-another-token";
    let why = refusal(|me, config| {
        if me == 0 {
            config.token = Token::new(other).unwrap();
        }
    });
    assert_eq!(why.code, code::WRONG_TOKEN);
    assert!(!format!("{why:?}").contains(other) && !format!("{why:?}").contains(TOKEN));
    let mut config = config(&listeners(1, None), 0);
    config.token = Token::new(other).unwrap();
    assert!(!format!("{config:?}").contains(other));
    assert!(!format!("{:?}", listen_config(None)).contains(TOKEN));
}

#[test]
fn what_differs_is_refused() {
    for word in ["plans", "engine", "bytes", "numbers of nodes", "another node"] {
        let why = refusal(|me, config| match word {
            _ if me == 1 => {}
            "plans" => config.plan += 1,
            "engine" => config.engine = "0.0.9".into(),
            "bytes" => config.window += 1,
            "numbers of nodes" => config.peers.push("127.0.0.1:1".into()),
            _ => {
                // Node 0 takes itself for node 1, and node 1 for node 0.
                config.peers.swap(0, 1);
                config.me = 1;
            }
        });
        // Whoever hears first tells the other.
        assert_eq!(why.code, code::NODES_DIFFER, "{why}");
        assert!(why.message.contains(word), "{why}");
    }
}

#[test]
fn an_older_attempt_is_refused_and_a_newer_one_waits() {
    let (listeners, recorders) = (listeners(2, None), Recorder::several(2));
    let older = listeners[0].mesh(config(&listeners, 0), Arc::clone(&recorders[0]) as _).unwrap();
    let newer = MeshConfig { attempt: 8, ..config(&listeners, 1) };
    let second = listeners[1].mesh(newer, Arc::clone(&recorders[1]) as _).unwrap();
    // Node 1 is ahead, and waits for node 0.
    second.send(0, Bytes::from_static(b"early"), Sent::Data, None).unwrap();
    assert_eq!(recorders[0].wait_lost().code, code::STALE_ATTEMPT);
    drop(older);
    let recorder = &Recorder::several(2)[0];
    let newer = MeshConfig { attempt: 8, ..config(&listeners, 0) };
    let first = listeners[0].mesh(newer, Arc::clone(recorder) as _).unwrap();
    recorder.wait(|seen| seen.messages[1] == [Bytes::from_static(b"early")]);
    assert_eq!((recorder.lost(), recorders[1].lost()), (vec![], vec![]));
    // The attempt before cannot come back.
    let again = listeners[0].mesh(config(&listeners, 0), Arc::clone(recorder) as _).unwrap_err();
    assert_eq!(again.code, code::STALE_ATTEMPT);
    drop(first);
}

#[test]
fn a_newer_attempt_closes_the_streams_of_the_older() {
    let (listeners, recorders) = (listeners(2, None), Recorder::several(2));
    let meshes = meshes(&listeners, &recorders, |_, _| {});
    for (from, to) in [(0, 1), (1, 0)] {
        meshes[from].send(to, Bytes::from_static(b"before"), Sent::Data, None).unwrap();
        recorders[to].wait(|seen| seen.messages[from].len() == 1);
    }
    let later = Recorder::several(2);
    let next = MeshConfig { attempt: 8, ..config(&listeners, 0) };
    let first = listeners[0].mesh(next, Arc::clone(&later[0]) as _).unwrap();
    // Node 1 loses node 0; node 0 knows.
    assert!([code::STALE_ATTEMPT, code::NODE_LOST].contains(&recorders[1].wait_lost().code));
    assert_eq!(recorders[0].lost(), []);
    // What the old ones send goes nowhere.
    meshes[0].send(1, Bytes::from_static(b"too late"), Sent::Data, None).unwrap();
    assert_eq!(meshes[0].unsent_bytes(), 0);
    drop(meshes);
    let next = MeshConfig { attempt: 8, ..config(&listeners, 1) };
    let second = listeners[1].mesh(next, Arc::clone(&later[1]) as _).unwrap();
    exchange_random_messages(&[first, second], &later, 9, 1 << 20);
    assert_eq!((recorders[0].count(1), recorders[1].count(0)), (1, 1));
}

/// Meshes of two with the first node: another process takes the place of one of the others, which the third does not hear of.
#[test]
fn a_mesh_of_two_is_replaced_by_itself() {
    let (listeners, recorders) = (listeners(3, None), Recorder::several(3));
    let with = |me, only, attempt| MeshConfig { only: Some(only), attempt, ..config(&listeners, me) };
    let mesh = |me: usize, only, attempt, recorder: &Arc<Recorder>| {
        listeners[me].mesh(with(me, only, attempt), Arc::clone(recorder) as _).unwrap()
    };
    let (to_one, to_two) = (mesh(0, 1, 7, &recorders[0]), mesh(0, 2, 7, &recorders[0]));
    let (one, two) = (mesh(1, 0, 7, &recorders[1]), mesh(2, 0, 7, &recorders[2]));
    for (from, me, to) in [(&one, 1, 0), (&two, 2, 0), (&to_one, 0, 1), (&to_two, 0, 2)] {
        from.send(to, Bytes::from_static(b"hello"), Sent::Data, None).unwrap();
        recorders[to].wait(|seen| seen.messages[me].len() == 1);
    }
    let between = damage::stream_to(&listeners[2], &with(1, 2, 7), vec![]).unwrap();
    assert_eq!(between.code, code::NODES_DIFFER, "{between}");
    drop(one);
    assert_eq!(recorders[0].wait_lost().code, code::NODE_LOST);
    drop(to_one);
    let later = Recorder::several(3);
    let (to_one, one) = (mesh(0, 1, 8, &later[0]), mesh(1, 0, 8, &later[1]));
    one.send(0, Bytes::from_static(b"again"), Sent::Data, None).unwrap();
    to_one.send(1, Bytes::from_static(b"again"), Sent::Data, None).unwrap();
    two.send(0, Bytes::from_static(b"on"), Sent::Data, None).unwrap();
    to_two.send(2, Bytes::from_static(b"on"), Sent::Data, None).unwrap();
    later[0].wait(|seen| seen.messages[1].len() == 1);
    later[1].wait(|seen| seen.messages[0].len() == 1);
    recorders[0].wait(|seen| seen.messages[2].len() == 2);
    recorders[2].wait(|seen| seen.messages[0].len() == 2);
    // The lost one is cut off for good.
    let late = damage::stream_to(&listeners[0], &with(1, 0, 7), vec![]).unwrap();
    assert_eq!(late.code, code::STALE_ATTEMPT, "{late}");
    assert_eq!(recorders[0].lost(), [(1, code::NODE_LOST)]);
    assert_eq!((recorders[2].lost(), later[0].lost(), later[1].lost()), (vec![], vec![], vec![]));
    // A newer attempt of all takes the place of both.
    let all = Recorder::several(3);
    let whole = MeshConfig { attempt: 9, ..config(&listeners, 0) };
    let _whole = listeners[0].mesh(whole, Arc::clone(&all[0]) as _).unwrap();
    assert!([code::STALE_ATTEMPT, code::NODE_LOST].contains(&recorders[2].wait_lost().code));
    assert!([code::STALE_ATTEMPT, code::NODE_LOST].contains(&later[1].wait_lost().code));
    assert!(to_one.close(Duration::ZERO) || to_one.unsent_bytes() == 0);
    let (only, nobody) = (MeshConfig { only: Some(3), ..config(&listeners, 0) }, Recorder::several(3));
    assert_eq!(listeners[0].mesh(only, Arc::clone(&nobody[0]) as _).unwrap_err().code, code::BUG);
}

#[test]
fn a_node_is_admitted_once() {
    let (listeners, recorders, _mesh, config) = damage::node();
    let ask = |me| damage::stream_to(&listeners[0], &MeshConfig { me, ..config.clone() }, vec![]).map(|why| why.code);
    assert_eq!(ask(1), None);
    assert_eq!(ask(1), Some(code::NODES_DIFFER));
    // There are two nodes, and the one that is asked is node 0.
    assert_eq!(ask(2), Some(code::NODES_DIFFER));
    assert_eq!(ask(0), Some(code::NODES_DIFFER));
    assert_eq!(recorders[0].wait_lost().code, code::NODE_LOST);
}

#[test]
fn other_machines_need_encryption() {
    let open = ListenConfig { address: "0.0.0.0:0".into(), ..listen_config(None) };
    assert_eq!(Listener::bind(open).unwrap_err().code, code::NOT_ENCRYPTED);
    let insecure = ListenConfig { address: "0.0.0.0:0".into(), insecure: true, ..listen_config(None) };
    assert!(Listener::bind(insecure).is_ok());
    let taken = listeners(1, None);
    let again = ListenConfig { address: taken[0].address().to_string(), ..listen_config(None) };
    assert_eq!(Listener::bind(again).unwrap_err().code, code::LISTEN_FAILED);
}
