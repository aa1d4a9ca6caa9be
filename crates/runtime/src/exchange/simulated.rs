//! A thousand nodes without rows: marks on lanes of any speed, cuts that every node makes when it hears of them, nodes that die. The decisions
//! are those of [`Progress`] and [`LocalInputs`]; nothing else of a query is there.
//!
//! A node that dies ends the attempt, as it does in a cluster: what is on its way is refused, and all nodes begin again at the last checkpoint
//! that is complete.

use super::{LocalInputs, Mark};
use crate::ids::{Generation, Port};
use crate::station::progress::{Forward, Progress};
use millstream_sync::epoch_ring::Release;
use std::collections::VecDeque;

const NODES: usize = 1000;
/// Nodes that own a part of the state: each of them hears of all.
const OWNERS: usize = 4;
const CHECKPOINTS: u32 = 10;
/// Marks that come before an owner looks what they make possible.
const TOGETHER: usize = 16;

/// Numbers that are the same in every run (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize) % end
    }
}

/// A node that reads.
struct Reader {
    inputs: LocalInputs,
    watermark: i64,
    generation: u32,
    /// The watermark at the last cut.
    cut: i64,
    /// Whether it has been told of the next cut, and has not made it.
    is_told: bool,
    lanes: Vec<VecDeque<Mark>>,
}

/// A node that owns a part of the state.
struct Owner {
    progress: Progress,
    generation: u32,
    watermark: i64,
    /// The generation of the last mark of each node.
    heard: Vec<u32>,
}

/// From a start to a death, or to the end.
struct Attempt {
    readers: Vec<Reader>,
    owners: Vec<Owner>,
    /// The cut that has been ordered last.
    ordered: u32,
}

impl Reader {
    /// Goes on, and says so.
    fn step(&mut self, by: i64) {
        self.watermark += by;
        if std::mem::take(&mut self.is_told) {
            (self.generation, self.cut) = (self.generation + 1, self.watermark);
        }
        let release = Release { watermark: self.watermark, generation: self.generation, cut: self.cut, ended: false };
        self.inputs.progress.release(Port::new(0), release);
        while let Some((_, mark)) = self.inputs.step() {
            self.lanes.iter_mut().for_each(|lane| lane.push_back(mark));
        }
    }
}

impl Attempt {
    /// All nodes are at the watermarks of a checkpoint.
    fn begin(watermarks: &[i64]) -> Attempt {
        let lowest = watermarks.iter().copied().min().unwrap_or(i64::MIN);
        let reader = |&watermark: &i64| Reader {
            inputs: LocalInputs::new(1),
            watermark,
            generation: 0,
            cut: i64::MIN,
            is_told: false,
            lanes: (0..OWNERS).map(|_| VecDeque::new()).collect(),
        };
        let owner = |_| {
            let mut progress = Progress::new(NODES);
            progress.restore(lowest);
            Owner { progress, generation: 0, watermark: lowest, heard: vec![0; NODES] }
        };
        let readers = watermarks.iter().map(reader).collect();
        Attempt { readers, owners: (0..OWNERS).map(owner).collect(), ordered: 0 }
    }

    /// A cut is ordered when all owners have passed the one before; nodes hear of it one by one.
    fn order(&mut self) {
        if self.owners.iter().all(|owner| owner.generation == self.ordered) {
            self.ordered += 1;
        }
    }

    /// A node that is behind hears of the cut.
    fn tell(&mut self, node: usize) {
        let reader = &mut self.readers[node];
        reader.is_told |= reader.generation < self.ordered;
    }

    /// Marks come to an owner, each lane's in their order, and it does what they make possible.
    fn deliver(&mut self, to: usize, random: &mut Random) {
        let Attempt { readers, owners, .. } = self;
        let owner = &mut owners[to];
        for _ in 0..TOGETHER {
            let from = random.below(NODES);
            let Some(mark) = readers[from].lanes[to].pop_front() else { continue };
            assert!(
                mark.release.generation <= owner.generation + 1,
                "the next cut was ordered before this one was passed"
            );
            owner.heard[from] = mark.release.generation;
            owner.progress.release(Port::new(from), mark.release);
        }
        while let Some(Forward { watermark, cut, end }) = owner.progress.advance() {
            assert!(watermark >= owner.watermark && end.is_none());
            owner.watermark = watermark;
            let has_cut = |reader: &&Reader| reader.generation > owner.generation;
            let held = readers.iter().filter(has_cut).map(|reader| reader.cut).min().unwrap_or(i64::MAX);
            if let Some(Generation(generation)) = cut {
                assert_eq!(generation, owner.generation + 1, "cuts are passed in order");
                assert!(owner.heard.iter().all(|&heard| heard >= generation), "all nodes have said that they made it");
                assert!(watermark <= held, "what is complete at the cut has rows from before it alone");
                owner.generation = generation;
            } else if owner.heard.iter().any(|&heard| heard > owner.generation) {
                let said = (0..NODES).filter(|&node| owner.heard[node] > owner.generation);
                let held = said.map(|node| readers[node].cut).min().unwrap_or(i64::MAX);
                assert!(watermark <= held, "a node that has made the cut holds the watermark there");
            }
            assert!(readers.iter().all(|reader| reader.watermark >= watermark), "no node is behind the watermark");
        }
    }

    /// Where all nodes made the last cut, when all owners have passed it.
    fn complete(&self) -> Option<Vec<i64>> {
        let is_complete = self.ordered > 0 && self.owners.iter().all(|owner| owner.generation == self.ordered);
        is_complete.then(|| self.readers.iter().map(|reader| reader.cut).collect())
    }
}

#[test]
fn a_thousand_nodes_that_die_pass_every_cut_in_order() {
    for seed in 1..=3 {
        let mut random = Random(seed);
        let mut stored = vec![0i64; NODES];
        let (mut completed, mut deaths) = (0, 0);
        while completed < CHECKPOINTS {
            let mut attempt = Attempt::begin(&stored);
            let mut of_attempt = 0;
            // Some die before a checkpoint, some after a few.
            let dies = (deaths < 6).then(|| 2000 + random.below(60_000));
            for step in 0.. {
                if dies == Some(step) {
                    deaths += 1;
                    break;
                }
                match random.below(10) {
                    0 => attempt.order(),
                    1..=3 => {
                        let node = random.below(NODES);
                        attempt.tell(node);
                    }
                    4..=6 => {
                        let (node, by) = (random.below(NODES), random.below(100));
                        attempt.readers[node].step(by as i64);
                    }
                    _ => {
                        let owner = random.below(OWNERS);
                        attempt.deliver(owner, &mut random);
                    }
                }
                if attempt.ordered > of_attempt
                    && let Some(cuts) = attempt.complete()
                {
                    assert!(cuts.iter().zip(&stored).all(|(cut, before)| cut >= before), "nothing is read again");
                    (stored, of_attempt, completed) = (cuts, attempt.ordered, completed + 1);
                    if completed == CHECKPOINTS {
                        break;
                    }
                }
            }
        }
        assert!(deaths > 0, "seed {seed}");
    }
}
