//! Jobs on up to a thousand nodes, without rows: what the nodes of a query decide, in virtual time, while they die, stop and come back late.
//!
//! ```text
//! seed ─► events ─► Member: LocalInputs, Heard, InTurn, Progress, Cuts, CheckpointSchedule, Collecting, Ending   (millstream_runtime::protocol)
//!            ▲         │ messages
//!            └─ Lane: Outgoing, Incoming (cluster::credit), fates of messages (cluster::delayed)
//!               World: attempts (cluster::attempts), manifests and owners (storage::Checkpoints, storage::Run)
//! ```
//!
//! All that decides anything is the engine's; what is simulated is what stands around it: threads, sources, the rows of stations as numbers, the network,
//! processes and a store. There is one thread, and no clock: equal seeds give equal runs.
//!
//! What is checked at every step: checkpoints are complete in the order of their numbers, with what all nodes of the attempt have stored in it, and nothing of
//! an older one; no old attempt commits; what can be seen of each split has no gap and nothing twice ([`ledger`]); marks never fall; no row is late or
//! from behind a cut that has not passed; all rows from before a cut have come when it passes; a cut comes at one watermark everywhere ([`stage`]); credits are
//! kept to, and nothing waits for ever ([`lane`], [`world`]).
//!
//! `MILLSTREAM_SIMULATION_SECONDS` has it go on with more seeds, and with more owners (`make simulation`); `MILLSTREAM_SEED` begins elsewhere.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod lane;
mod ledger;
mod member;
mod messages;
mod stage;
mod store;
mod world;

use millstream_cluster::delayed::Delays;
use std::time::{Duration, Instant};
use world::World;

/// Numbers that follow from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((u128::from(z ^ (z >> 31)) * u128::from(bound)) >> 64) as u64
    }
}

/// A job and what happens to it.
struct Config {
    /// Processes, with the first.
    nodes: usize,
    /// Nodes that own a part of each stage's state.
    owners: usize,
    /// Stations one after the other.
    stages: usize,
    /// By split: its units.
    units: Vec<u64>,
    /// Microseconds from one unit of a split to the next.
    pace: u64,
    /// How often of a hundred times a split is idle for a while.
    idles: u64,
    /// The process that takes ten times as long.
    slow: usize,
    /// Of a lane, in bytes.
    window: u64,
    /// The most that a message costs.
    largest: u64,
    delays: Delays,
    /// From one checkpoint to the next.
    interval: Duration,
    /// Whether there are cuts between those of checkpoints.
    cuts_tables: bool,
    disturbances: u64,
    /// The longest time from one to the next.
    gap: Duration,
}

fn delays(seed: u64) -> Delays {
    let (latency, jitter) = (Duration::from_micros(200), Duration::from_millis(2));
    Delays { seed, latency, jitter, ..Delays::default() }
}

/// A few nodes, all of which own something: what happens comes close together.
fn few(seed: u64) -> Config {
    let mut random = Random::new(seed);
    let nodes = 2 + random.below(6) as usize;
    let splits = 1 + random.below(2 * nodes as u64);
    // As little as one message, or as much as nodes have.
    let (window, largest) = [(1, 200), (150, 150), (400, 400), (1000, 400), (16 << 20, 400)][random.below(5) as usize];
    Config {
        nodes,
        owners: if random.below(4) == 0 { 1 } else { nodes },
        stages: 1 + random.below(2) as usize,
        units: (0..splits).map(|_| random.below(100)).collect(),
        pace: 1000,
        idles: random.below(2) * 15,
        slow: random.below(2 * nodes as u64) as usize,
        window,
        largest,
        delays: delays(seed),
        interval: Duration::from_millis(2 + random.below(8)),
        cuts_tables: random.below(2) == 0,
        disturbances: random.below(6),
        gap: Duration::from_millis(60),
    }
}

/// A thousand nodes, of which so many own something. A node is a port of each owner, and what an owner decides follows from its own ports alone; owners meet
/// again in the reports to the first node, which every node sends. So a few owners have all that is difficult about a thousand nodes. With a thousand of them
/// each cut is a million marks, after each of which an owner looks at a thousand ports: minutes for what a few owners do in a second.
fn many(seed: u64, owners: usize) -> Config {
    let mut random = Random::new(seed);
    Config {
        nodes: 1000,
        owners,
        stages: 1,
        // Some nodes have none.
        units: (0..900).map(|_| 10 + random.below(10)).collect(),
        pace: 8000,
        idles: 2,
        slow: random.below(900) as usize,
        window: if seed.is_multiple_of(2) { 200 } else { 16 << 20 },
        largest: 200,
        delays: delays(seed),
        interval: Duration::from_millis(10),
        cuts_tables: seed.is_multiple_of(2),
        disturbances: 5,
        gap: Duration::from_millis(80),
    }
}

fn first_seed() -> u64 {
    std::env::var("MILLSTREAM_SEED").map_or(1, |seed| seed.parse().unwrap())
}

/// How long it goes on.
fn more() -> Duration {
    Duration::from_secs(std::env::var("MILLSTREAM_SIMULATION_SECONDS").map_or(0, |seconds| seconds.parse().unwrap()))
}

/// Says which seed has failed.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("MILLSTREAM_SEED={}", self.0);
        }
    }
}

#[test]
fn a_few_nodes_commit_in_order_whatever_happens() {
    let (begun, mut refused, mut attempts, mut checkpoints) = (Instant::now(), 0, 0, 0);
    for seed in first_seed().. {
        if seed >= first_seed() + 300 && begun.elapsed() >= more() / 2 {
            println!("{} jobs, {attempts} attempts, {checkpoints} checkpoints", seed - first_seed());
            break;
        }
        let _seed = Seed(seed);
        let mut world = World::new(few(seed));
        checkpoints += world.run();
        (refused, attempts) = (refused + world.refused, attempts + world.attempts);
    }
    assert!(refused > 0, "no old attempt has ever been refused");
    assert!(attempts > 300 && checkpoints > 1000, "{attempts} attempts, {checkpoints} checkpoints");
}

#[test]
fn a_thousand_nodes_commit_in_order_whatever_happens() {
    let begun = Instant::now();
    for seed in first_seed().. {
        let _seed = Seed(seed);
        let owners = match seed % 16 {
            _ if more().is_zero() => 4,
            0 => 1000,
            4 | 8 | 12 => 100,
            _ => 4,
        };
        let mut world = World::new(many(seed, owners));
        let checkpoints = world.run();
        println!(
            "seed {seed}: {checkpoints} checkpoints, {} attempts, {} steps, {:?}",
            world.attempts,
            world.steps,
            begun.elapsed()
        );
        assert!(checkpoints >= 10, "{checkpoints} checkpoints");
        if seed > first_seed() && begun.elapsed() >= more() / 2 {
            break;
        }
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    let run = |seed| {
        let mut world = World::new(few(seed));
        (world.run(), world.steps, world.attempts, world.refused)
    };
    (1..=5).for_each(|seed| assert_eq!(run(seed), run(seed)));
}
