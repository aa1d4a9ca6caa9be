//! A station of the simulation that is on all nodes: rows go to owners, and marks behind them. It checks what rows rely on.

use millstream_runtime::protocol::*;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Instant;

/// What all nodes of an attempt must agree on. It is known to the checks alone.
#[derive(Default)]
pub struct Agreed {
    /// Rows sent, by stage, owner and generation.
    sent: HashMap<(usize, usize, u32), u64>,
    /// Where a cut has come, by stage and generation.
    cuts: HashMap<(usize, u32), i64>,
}

impl Agreed {
    pub fn sends(&mut self, stage: usize, to: usize, generation: u32) {
        *self.sent.entry((stage, to, generation)).or_default() += 1;
    }
}

pub struct Stage {
    number: usize,
    me: usize,
    pub agreed: Rc<RefCell<Agreed>>,
    pub inputs: LocalInputs,
    /// The generation that the others have been told of.
    pub said: u32,
    /// By input: the generation that has been processed, and the watermark where it began.
    pub passed: Vec<(u32, i64)>,
    /// Of a node that owns a part of the stage's state.
    pub owner: Option<Owner>,
    /// When a mark that waits is looked at.
    pub looks_at: Option<Instant>,
    /// What comes out of it.
    pub output: VecDeque<Release>,
}

/// What the owner of a part has.
pub struct Owner {
    heard: Heard,
    progress: Progress,
    /// The last mark of each node.
    marks: Vec<Option<Mark>>,
    /// Rows that wait for the watermark: their time and generation.
    rows: BinaryHeap<Reverse<(i64, u32)>>,
    /// Rows that have come, by generation.
    received: BTreeMap<u32, u64>,
    generation: u32,
    cut: i64,
}

/// What follows.
#[derive(Default)]
pub struct Settled {
    pub marks: Vec<Mark>,
    /// Rows for the next stage: generation and time.
    pub rows: Vec<(u32, i64)>,
    pub releases: usize,
    /// Cuts that have passed.
    pub passed: Vec<Generation>,
}

impl Stage {
    pub fn new(
        (number, channels): (usize, usize),
        (me, count, owners): (usize, usize, usize),
        watermark: i64,
        agreed: &Rc<RefCell<Agreed>>,
    ) -> Stage {
        let owner = || {
            let mut progress = Progress::new(count);
            progress.restore(watermark);
            Owner {
                heard: Heard::new(me, count),
                progress,
                marks: vec![None; count],
                rows: BinaryHeap::new(),
                received: BTreeMap::new(),
                generation: 0,
                cut: i64::MIN,
            }
        };
        let mut inputs = LocalInputs::new(channels);
        inputs.progress.restore(watermark);
        Stage {
            number,
            me,
            agreed: Rc::clone(agreed),
            inputs,
            said: 0,
            passed: vec![(0, i64::MIN); channels],
            owner: (me < owners).then(owner),
            looks_at: None,
            output: VecDeque::new(),
        }
    }

    /// A cut waits for the stage, if it has to.
    pub fn await_cut(&mut self, generation: Generation) -> bool {
        match &mut self.owner {
            Some(owner) => owner.progress.await_cut(generation),
            None => self.inputs.progress.await_cut(generation),
        }
    }

    /// Where a cut has come; at the end, if the stage had come to that before.
    pub fn cut_at(&self, Generation(generation): Generation) -> i64 {
        self.agreed.borrow().cuts.get(&(self.number, generation)).copied().unwrap_or(i64::MAX)
    }

    /// A row comes to its owner.
    pub fn take(&mut self, generation: u32, time: i64) {
        let owner = self.owner.as_mut().expect("rows go to owners");
        assert!(time > owner.progress.watermark(), "a row is late: no mark may overtake what it covers");
        owner.rows.push(Reverse((time, generation)));
        *owner.received.entry(generation).or_default() += 1;
    }

    /// What a node sends is of the generation that it has said it has come to: by that partials are stored once, here or there.
    pub fn check_place(&self, from: usize, said: u32) {
        let owner = self.owner.as_ref().expect("rows go to owners");
        assert_eq!(owner.heard.reached(from).0, said, "what node {from} has sent does not stay between its marks");
    }

    /// A node has said how far it has come.
    pub fn hear(&mut self, from: usize, mark: Mark) {
        let owner = self.owner.as_mut().expect("marks go to owners");
        if let Some(before) = owner.marks[from].replace(mark) {
            let (now, before) = (mark.release, before.release);
            assert!(now.watermark >= before.watermark, "the watermark of node {from} falls");
            assert!(now.generation >= before.generation, "the generation of node {from} falls");
            assert!(now.generation <= before.generation + 1, "node {from} does not say that it has passed a cut");
            assert!(!before.ended, "node {from} speaks behind its end");
        }
        owner.heard.hear(from, mark);
        owner.progress.release(Port::new(from), mark.release);
        assert_eq!(owner.heard.reached(from).0, mark.release.generation);
    }

    /// Acts on what the inputs have come to.
    pub fn settle(&mut self, now: Instant) -> Settled {
        let mut settled = Settled::default();
        if let Some(owner) = &self.owner {
            owner.heard.follow(&mut self.inputs.progress);
        }
        let said = self.inputs.pass_on(now, |mark| {
            settled.marks.push(mark);
            Ok::<(), Infallible>(())
        });
        said.unwrap_or_else(|never| match never {});
        for &mark in &settled.marks {
            self.said = mark.release.generation;
            match self.owner.is_some() {
                true => self.hear(self.me, mark),
                false => {
                    self.output.push_back(mark.release);
                    settled.releases += 1;
                }
            }
        }
        match &mut self.owner {
            None => settled.passed.extend(self.inputs.progress.reached_cut()),
            Some(owner) => {
                let agreed = &mut self.agreed.borrow_mut();
                while owner.step((self.number, self.me), agreed, &mut self.output, &mut settled) {}
            }
        }
        settled
    }
}

impl Owner {
    /// The next step that all nodes have made together, if there is one.
    fn step(
        &mut self,
        (stage, me): (usize, usize),
        agreed: &mut Agreed,
        output: &mut VecDeque<Release>,
        settled: &mut Settled,
    ) -> bool {
        let before = self.progress.watermark();
        let Some(Forward { watermark, cut, end }) = self.progress.advance() else { return false };
        assert!(watermark >= before, "the watermark of an owner falls");
        let mut consumed = 0;
        while let Some(&Reverse((time, generation))) = self.rows.peek().filter(|Reverse((time, _))| *time <= watermark)
        {
            assert!(
                generation <= self.generation,
                "a row of {time} from behind the cut comes before it, at {watermark}"
            );
            self.rows.pop();
            consumed += 1;
        }
        if consumed > 0 {
            // Behind what was released before.
            settled.rows.push((self.generation, before.max(0) + 1 + consumed));
        }
        if let Some(Generation(generation)) = cut {
            assert_eq!(generation, self.generation + 1, "cuts are passed in order");
            let missing = self
                .marks
                .iter()
                .position(|mark| mark.is_none_or(|mark| mark.release.generation < generation && !mark.release.ended));
            assert_eq!(missing, None, "a node has not said that it has passed cut {generation}");
            let of_before = |of: u32| agreed.sent.get(&(stage, me, of)).copied().unwrap_or(0);
            let sent: u64 = (0..generation).map(of_before).sum();
            let received: u64 = self.received.range(..generation).map(|(_, rows)| rows).sum();
            assert_eq!(received, sent, "all rows from before cut {generation} have come to node {me}");
            let agreed = *agreed.cuts.entry((stage, generation)).or_insert(watermark);
            assert_eq!(watermark, agreed, "cut {generation} comes at one watermark on all nodes");
            (self.generation, self.cut) = (generation, watermark);
        }
        let ended = end.is_some();
        assert!(!ended || self.rows.is_empty(), "rows are left at the end");
        output.push_back(Release { watermark, generation: self.generation, cut: self.cut, ended });
        settled.releases += 1;
        settled.passed.extend(self.progress.reached_cut());
        true
    }
}
