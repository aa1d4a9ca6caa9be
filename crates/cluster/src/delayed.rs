//! Any transport over a slow network that breaks: what a node receives is kept back, by decisions that follow from a seed.
//!
//! It stands between a transport and what receives: give a [`Delayed`] to the transport, with the receiver inside. Messages of a lane stay in order, those of
//! several lanes overtake each other. Credits are held while messages are on their way, as on a slow network. A break is seen by the receiver; the
//! sender sees it when that one drops its transport, as an engine does. When something comes depends on the clock, what is decided does not.

use crate::random::Random;
use crate::transport::{Credit, Inbound, lost};
use bytes::Bytes;
use millstream_types::Diagnostic;
use parking_lot::{Condvar, Mutex};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How slow a network is, and how often it breaks.
#[derive(Debug, Clone, Default)]
pub struct Delays {
    /// What all decisions follow from.
    pub seed: u64,
    /// Of each message.
    pub latency: Duration,
    /// At most that much is added, evenly spread.
    pub jitter: Duration,
    /// Of each lane, in bytes per second.
    pub bandwidth: Option<u64>,
    /// A lane breaks with one message of so many, on average.
    pub one_breaks_of: Option<u64>,
}

/// What happens to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fate {
    /// Beside the time that the bandwidth takes.
    pub delay: Duration,
    /// The lane breaks instead.
    pub breaks: bool,
}

impl Delays {
    /// What happens to a message of a lane, by its number from 0.
    pub fn fate(&self, from: usize, to: usize, number: u64) -> Fate {
        let lane = Random::new(self.seed ^ ((from as u64) << 32 | to as u64)).next();
        let mut random = Random::new(lane.wrapping_add(number));
        let jitter = self.jitter.as_nanos().min(u128::from(u64::MAX)) as u64;
        let delay = self.latency + Duration::from_nanos(random.below(jitter.saturating_add(1)));
        Fate { delay, breaks: self.one_breaks_of.is_some_and(|messages| random.below(messages) == 0) }
    }

    fn transfer(&self, bytes: usize) -> Duration {
        let seconds = |rate: u64| Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        self.bandwidth.map_or(Duration::ZERO, seconds)
    }
}

/// See the module.
pub struct Delayed {
    network: Arc<Network>,
    thread: Option<JoinHandle<()>>,
}

struct Network {
    me: usize,
    delays: Delays,
    state: Mutex<Traffic>,
    changed: Condvar,
}

#[derive(Default)]
struct Traffic {
    lanes: BTreeMap<usize, Line>,
    on_the_way: BinaryHeap<Reverse<OnTheWay>>,
    /// Of arrivals, so that those of one moment stay in order.
    count: u64,
    is_over: bool,
}

/// What a lane goes through.
#[derive(Default)]
struct Line {
    messages: u64,
    is_broken: bool,
    /// When it can take the next message.
    free: Option<Instant>,
    /// When the last message comes.
    last: Option<Instant>,
}

struct OnTheWay {
    due: Instant,
    order: u64,
    from: usize,
    event: Event,
}

enum Event {
    Message(Bytes, Credit),
    Lost(Diagnostic),
}

impl PartialEq for OnTheWay {
    fn eq(&self, other: &OnTheWay) -> bool {
        self.order == other.order
    }
}

impl Eq for OnTheWay {}

impl PartialOrd for OnTheWay {
    fn partial_cmp(&self, other: &OnTheWay) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OnTheWay {
    fn cmp(&self, other: &OnTheWay) -> std::cmp::Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}

impl Delayed {
    /// In front of what receives on the node `me`.
    ///
    /// # Errors
    /// When its thread cannot be started.
    pub fn new(delays: Delays, me: usize, inbound: Arc<dyn Inbound>) -> io::Result<Delayed> {
        let network = Arc::new(Network { me, delays, state: Mutex::default(), changed: Condvar::new() });
        let running = Arc::clone(&network);
        let thread = std::thread::Builder::new().name("delayed".into()).spawn(move || running.run(&*inbound))?;
        Ok(Delayed { network, thread: Some(thread) })
    }
}

impl Network {
    fn run(&self, inbound: &dyn Inbound) {
        let mut state = self.state.lock();
        while !state.is_over {
            match state.on_the_way.peek().map(|Reverse(next)| next.due) {
                None => self.changed.wait(&mut state),
                Some(due) if due > Instant::now() => drop(self.changed.wait_until(&mut state, due)),
                Some(_) => {
                    let Some(Reverse(OnTheWay { from, event, .. })) = state.on_the_way.pop() else { continue };
                    drop(state);
                    match event {
                        Event::Message(message, credit) => inbound.receive(from, message, credit),
                        Event::Lost(why) => inbound.lost(from, why),
                    }
                    state = self.state.lock();
                }
            }
        }
        let rest = std::mem::take(&mut state.on_the_way);
        // Credits go back without the lock.
        drop(state);
        drop(rest);
    }

    /// Puts something on the way from a node, unless that lane has broken.
    fn put(&self, from: usize, event: Event) {
        let mut locked = self.state.lock();
        let state = &mut *locked;
        let lane = state.lanes.entry(from).or_default();
        let dropped = if state.is_over || lane.is_broken {
            Some(event)
        } else {
            let now = Instant::now();
            let (due, event, dropped) = match event {
                Event::Lost(why) => (now, Event::Lost(why), None),
                Event::Message(message, credit) => {
                    let fate = self.delays.fate(from, self.me, lane.messages);
                    lane.messages += 1;
                    let free = lane.free.unwrap_or(now).max(now) + self.delays.transfer(message.len());
                    lane.free = Some(free);
                    match fate.breaks {
                        true => {
                            (free, Event::Lost(lost(from, "so the seed wills")), Some(Event::Message(message, credit)))
                        }
                        false => (free + fate.delay, Event::Message(message, credit), None),
                    }
                }
            };
            lane.is_broken = matches!(event, Event::Lost(_));
            let due = lane.last.map_or(due, |last| last.max(due));
            lane.last = Some(due);
            state.on_the_way.push(Reverse(OnTheWay { due, order: state.count, from, event }));
            state.count += 1;
            self.changed.notify_one();
            dropped
        };
        drop(locked);
        // What a broken lane brings gives its credit back at once, and without the lock.
        drop(dropped);
    }
}

impl Inbound for Delayed {
    fn receive(&self, from: usize, message: Bytes, credit: Credit) {
        self.network.put(from, Event::Message(message, credit));
    }

    fn lost(&self, from: usize, why: Diagnostic) {
        self.network.put(from, Event::Lost(why));
    }
}

impl Drop for Delayed {
    fn drop(&mut self) {
        self.network.state.lock().is_over = true;
        self.network.changed.notify_one();
        // Its own thread may be the last to drop it.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::Local;
    use crate::recording::{Recorder, exchange_random_messages};
    use crate::transport::{Sent, Transport};

    fn delays(seed: u64) -> Delays {
        Delays {
            seed,
            latency: Duration::from_micros(200),
            jitter: Duration::from_millis(2),
            bandwidth: Some(20 << 20),
            one_breaks_of: None,
        }
    }

    fn nodes(window: u64, delays: &Delays, recorders: &[Arc<Recorder>]) -> Vec<Local> {
        let delayed = recorders.iter().enumerate().map(|(me, recorder)| {
            Arc::new(Delayed::new(delays.clone(), me, Arc::clone(recorder) as _).unwrap()) as Arc<dyn Inbound>
        });
        Local::nodes(window, delayed.collect()).unwrap()
    }

    #[test]
    fn order_is_kept_whatever_the_seed() {
        for seed in 0..8 {
            let recorders = Recorder::several(3);
            let nodes = nodes(20_000, &delays(seed), &recorders);
            exchange_random_messages(&nodes, &recorders, seed, 20_000);
        }
    }

    #[test]
    fn decisions_follow_from_the_seed() {
        let fates = |seed, to| -> Vec<Fate> {
            let delays = Delays { one_breaks_of: Some(50), ..delays(seed) };
            (0..1000).map(|number| delays.fate(0, to, number)).collect()
        };
        assert_eq!(fates(1, 1), fates(1, 1));
        assert_ne!(fates(1, 1), fates(2, 1));
        assert_ne!(fates(1, 1), fates(1, 2));
        assert!((5..60).contains(&fates(1, 1).iter().filter(|fate| fate.breaks).count()));
        assert!(fates(3, 1).iter().all(|fate| (200..=2200).contains(&fate.delay.as_micros())));
    }

    #[test]
    fn a_break_comes_at_the_message_that_the_seed_says() {
        for seed in 0..4 {
            let delays = Delays { one_breaks_of: Some(20), ..delays(seed) };
            let before = (0..).find(|&number| delays.fate(0, 1, number).breaks).unwrap() as usize;
            let recorders = Recorder::several(2);
            let nodes = nodes(1 << 20, &delays, &recorders);
            for _ in 0..before + 20 {
                nodes[0].send(1, Bytes::from_static(b"x"), Sent::Data, None).unwrap();
            }
            recorders[1].wait(|seen| !seen.lost.is_empty());
            assert_eq!((recorders[1].count(0), recorders[1].lost().len()), (before, 1));
            // What came later has given its credit back.
            assert!(nodes[0].close(Duration::from_secs(60)));
            assert_eq!(recorders[1].count(0), before);
        }
    }
}
