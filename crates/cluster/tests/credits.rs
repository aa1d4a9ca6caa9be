//! All interleavings of small models of lanes: no deadlock, bounded credit, order.
//!
//! A breadth-first search over states. A state has the real [`Outgoing`] and [`Incoming`] of every lane, what is on the wire in both directions, and which credits
//! each receiver holds. A step is anything that a node or the network may do next: hand a message to a lane, deliver, drop any held credit, deliver a grant.
//! Receivers hold credits for as long as they like, in any order, but may always drop one: that is the contract.
//!
//! Every step adds to what has been done, of which there is an end, so there is no cycle of states. If then every state that is not
//! the end has a step, the end is reached from everywhere, whatever happens.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use millstream_cluster::credit::{Incoming, Outgoing};
use std::collections::{HashSet, VecDeque};

/// A message of a lane: its number there, and its cost (none of a mark).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Message {
    number: u8,
    cost: Option<u8>,
    /// How many nodes it is passed on to before it is done.
    hops: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Lane {
    from: u8,
    to: u8,
    /// What the sender's input will give: cost and hops.
    input: VecDeque<(Option<u8>, u8)>,
    outgoing: Outgoing<Message>,
    pushed: u8,
    wire: VecDeque<Message>,
    incoming: Incoming,
    delivered: u8,
    /// Credits of the receiver, with what it still has to pass on.
    held: Vec<(u8, u8)>,
    grants: VecDeque<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    lanes: Vec<Lane>,
}

struct Model {
    sizes: (u8, u8),
    /// Readers of a node wait while more than this is unsent.
    unsent: u64,
    start: State,
}

fn lane((window, batch): (u8, u8), from: u8, to: u8, input: &[(Option<u8>, u8)]) -> Lane {
    Lane {
        from,
        to,
        input: input.iter().copied().collect(),
        outgoing: Outgoing::new(window.into()),
        pushed: 0,
        wire: VecDeque::new(),
        incoming: Incoming::in_batches(window.into(), batch.into()),
        delivered: 0,
        held: vec![],
        grants: VecDeque::new(),
    }
}

impl Lane {
    fn push(&mut self, cost: Option<u8>, hops: u8) {
        let message = Message { number: self.pushed, cost, hops };
        self.pushed += 1;
        match cost {
            Some(cost) => self.outgoing.push(message, cost.into()),
            None => self.outgoing.push_mark(message, 1),
        }
    }

    fn is_done(&self) -> bool {
        self.input.is_empty()
            && self.outgoing.is_empty()
            && self.wire.is_empty()
            && self.held.is_empty()
            && self.grants.is_empty()
    }
}

impl State {
    fn unsent(&self, node: u8) -> u64 {
        self.lanes.iter().filter(|lane| lane.from == node).map(|lane| lane.outgoing.unsent()).sum()
    }

    fn changed(&self, number: usize, change: impl FnOnce(&mut Lane)) -> State {
        let mut next = self.clone();
        change(&mut next.lanes[number]);
        next
    }

    /// A receiver drops a credit, and passes what it stands for on, to the next node behind it.
    fn released(&self, number: usize, held: usize) -> State {
        let mut next = self.clone();
        let lane = &mut next.lanes[number];
        let (cost, hops) = lane.held.remove(held);
        lane.grants.extend(lane.incoming.released(cost.into()).map(|bytes| u8::try_from(bytes).unwrap()));
        if hops > 0 {
            let node = lane.to;
            let onward = next.lanes.iter_mut().find(|lane| lane.from == node).expect("each node sends to one");
            onward.push(Some(cost), hops - 1);
        }
        next
    }

    /// Everything that can happen next.
    fn steps(&self, model: &Model) -> Vec<State> {
        let mut steps = vec![];
        for (number, lane) in self.lanes.iter().enumerate() {
            if !lane.input.is_empty() && self.unsent(lane.from) <= model.unsent {
                steps.push(self.changed(number, |lane| {
                    let (cost, hops) = lane.input.pop_front().unwrap();
                    lane.push(cost, hops);
                }));
            }
            if !lane.outgoing.is_empty() {
                let sent = self.changed(number, |lane| lane.wire.extend(lane.outgoing.pop()));
                steps.extend((sent != *self).then_some(sent));
            }
            if !lane.wire.is_empty() {
                steps.push(self.changed(number, |lane| {
                    let message = lane.wire.pop_front().unwrap();
                    assert_eq!(message.number, lane.delivered, "order");
                    lane.delivered += 1;
                    if let Some(cost) = message.cost {
                        lane.incoming.arrived(cost.into()).expect("the sender keeps the rules");
                        lane.held.push((cost, message.hops));
                        // Which of equal credits is dropped makes no difference.
                        lane.held.sort_unstable();
                    }
                }));
            }
            steps.extend((0..lane.held.len()).map(|held| self.released(number, held)));
            if !lane.grants.is_empty() {
                steps.push(self.changed(number, |lane| {
                    let bytes = lane.grants.pop_front().unwrap();
                    lane.outgoing.granted(bytes.into()).expect("the receiver keeps the rules");
                }));
            }
        }
        steps
    }

    fn check(&self, window: u8, largest: u8) {
        for lane in &self.lanes {
            let outstanding = lane.outgoing.outstanding();
            assert!(outstanding <= u64::from(window.max(largest)), "{lane:?}");
            let on_the_way: u64 = lane.wire.iter().filter_map(|message| message.cost).map(u64::from).sum();
            let granted: u64 = lane.grants.iter().map(|&bytes| u64::from(bytes)).sum();
            let held: u64 = lane.held.iter().map(|&(cost, _)| u64::from(cost)).sum();
            assert_eq!(held, lane.incoming.held());
            assert!(on_the_way + held + granted <= outstanding, "no credit is made of nothing: {lane:?}");
            // Nothing held, nothing kept back.
            assert!(held > 0 || on_the_way + granted == outstanding, "a credit stays behind: {lane:?}");
        }
    }
}

/// Visits every state that can be reached; how many there are.
fn explore(model: &Model) -> usize {
    let costs = model.start.lanes.iter().flat_map(|lane| lane.input.iter().filter_map(|&(cost, _)| cost));
    let largest = costs.max().unwrap_or(0);
    let mut seen: HashSet<State> = HashSet::from([model.start.clone()]);
    let mut open = VecDeque::from([model.start.clone()]);
    let mut ends = 0;
    while let Some(state) = open.pop_front() {
        state.check(model.sizes.0, largest);
        let steps = state.steps(model);
        let is_done = state.lanes.iter().all(Lane::is_done);
        assert!(is_done || !steps.is_empty(), "nobody can do anything: {state:#?}");
        ends += usize::from(is_done);
        for step in steps {
            if seen.insert(step.clone()) {
                open.push_back(step);
            }
        }
    }
    assert!(ends > 0);
    seen.len()
}

const MARK: Option<u8> = None;

/// Windows of 1 to 3 units; grants at once, in batches, and only when nothing is held.
const SIZES: [(u8, u8); 6] = [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 9)];

/// One lane, every sequence of up to four messages of 1 to 4 units or marks, every window.
#[test]
fn one_lane_of_any_messages() {
    let kinds = [MARK, Some(1), Some(2), Some(3), Some(4)];
    let mut states = 0;
    for sizes in SIZES {
        for sequence in 0..kinds.len().pow(4) {
            let input: Vec<_> = (0..4).map(|at| (kinds[sequence / kinds.len().pow(at) % kinds.len()], 0)).collect();
            let start = State { lanes: vec![lane(sizes, 0, 1, &input)] };
            states += explore(&Model { sizes, unsent: 100, start });
        }
    }
    assert!(states > 90_000, "{states}");
}

/// Two nodes that send to each other; readers wait as soon as something is unsent.
#[test]
fn two_nodes_with_readers_that_wait() {
    for sizes in SIZES {
        for unsent in [0, 2] {
            let there = [(Some(2), 0), (MARK, 0), (Some(4), 0)];
            let back = [(Some(1), 0), (Some(3), 0), (MARK, 0)];
            let start = State { lanes: vec![lane(sizes, 0, 1, &there), lane(sizes, 1, 0, &back)] };
            explore(&Model { sizes, unsent, start });
        }
    }
}

/// Two nodes that answer each message by one of the same size, and that by another: what comes back competes with input for the same lane.
#[test]
fn two_nodes_that_answer() {
    for sizes in SIZES {
        let there = [(Some(3), 2), (Some(1), 1)];
        let back = [(Some(2), 2), (MARK, 0)];
        let start = State { lanes: vec![lane(sizes, 0, 1, &there), lane(sizes, 1, 0, &back)] };
        explore(&Model { sizes, unsent: 0, start });
    }
}

/// Three nodes in a circle, each of which passes on what it gets: the cycle in which transports with blocking senders stand still.
#[test]
fn three_nodes_in_a_circle() {
    let mut states = 0;
    for sizes in SIZES {
        for (costs, then) in [([1, 1, 1], Some(MARK)), ([4, 1, 2], None)] {
            let lanes = (0..3u8).map(|node| {
                let mut input = vec![(Some(costs[usize::from(node)]), 2)];
                // One node has more to say.
                input.extend(then.filter(|_| node == 0).map(|cost| (cost, 0)));
                lane(sizes, node, (node + 1) % 3, &input)
            });
            let start = State { lanes: lanes.collect() };
            states += explore(&Model { sizes, unsent: 0, start });
        }
    }
    assert!(states > 100_000, "{states}");
}

/// A receiver that waited for another message before it drops a credit would break the contract, and the model shows it.
#[test]
fn the_search_finds_what_breaks_the_contract() {
    let mut state = State { lanes: vec![lane((1, 1), 0, 1, &[(Some(1), 0), (Some(1), 0)])] };
    let model = Model { sizes: (1, 1), unsent: 100, start: state.clone() };
    // Nobody drops a credit.
    loop {
        let steps = state.steps(&model);
        let dropped: Vec<State> = (0..state.lanes[0].held.len()).map(|held| state.released(0, held)).collect();
        match steps.into_iter().find(|step| !dropped.contains(step)) {
            Some(step) => state = step,
            None => break,
        }
    }
    assert!(!state.lanes[0].is_done());
}
