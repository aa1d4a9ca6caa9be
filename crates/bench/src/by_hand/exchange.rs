//! Upfront partitioning: rows are exchanged by key before they are aggregated.
//!
//! Each thread produces and consumes. It selects rows of a chunk and puts key and input into a buffer for the thread that
//! the key belongs to; buffers hold rows of one window. A full buffer goes through a queue. After each chunk a thread
//! aggregates what has come for it, so no queue grows without bound for long.

use super::{Cell, Layout, Slices, Target, in_threads, take_chunks, windows};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Rows of a buffer.
const ROWS: usize = 4096;

/// Every thread has tables for its own keys.
pub(crate) fn partitioned<L: Layout>(layout: &L, threads: usize) -> Slices<L::Cell> {
    let next = AtomicUsize::new(0);
    let (senders, receivers): (Vec<Sender<Buffer<L::Cell>>>, Vec<_>) = (0..threads).map(|_| channel()).unzip();
    let ends: Vec<_> = receivers.into_iter().map(|receiver| Mutex::new(Some((senders.clone(), receiver)))).collect();
    // The threads' own senders are to be the last.
    drop(senders);
    let parts = in_threads(threads, |thread| {
        let ends = ends[thread].lock().expect("no thread panics").take().expect("each thread takes its ends once");
        let (senders, receiver): (_, Receiver<Buffer<L::Cell>>) = ends;
        let empty = || Buffer { window: 0, rows: Vec::with_capacity(ROWS) };
        let buffers = senders.iter().map(|_| empty()).collect();
        let mut producer = Producer { window: 0, senders, buffers };
        let mut own = Slices::new();
        take_chunks(layout, &next, &mut producer, |_| {
            receiver.try_iter().for_each(|buffer| buffer.aggregate(layout.keys(), &mut own));
        });
        producer.finish();
        receiver.iter().for_each(|buffer| buffer.aggregate(layout.keys(), &mut own));
        own
    });
    windows::merge(parts, threads)
}

/// Selected rows of a window.
struct Buffer<C: Cell> {
    window: i64,
    rows: Vec<(u32, C::Input)>,
}

impl<C: Cell> Buffer<C> {
    fn aggregate(self, keys: usize, slices: &mut Slices<C>) {
        let table = slices.entry(self.window).or_insert_with(|| vec![C::default(); keys]);
        for (key, input) in self.rows {
            table[key as usize].add(input);
        }
    }
}

struct Producer<C: Cell> {
    window: i64,
    senders: Vec<Sender<Buffer<C>>>,
    buffers: Vec<Buffer<C>>,
}

impl<C: Cell> Producer<C> {
    fn send(&mut self, thread: usize) {
        let full = Buffer { window: self.window, rows: Vec::with_capacity(ROWS) };
        let full = std::mem::replace(&mut self.buffers[thread], full);
        if !full.rows.is_empty() {
            self.senders[thread].send(full).expect("every thread consumes until all have produced");
        }
    }

    fn finish(mut self) {
        (0..self.senders.len()).for_each(|thread| self.send(thread));
    }
}

impl<C: Cell> Target<C> for Producer<C> {
    #[inline(always)]
    fn window(&mut self, number: i64) {
        if self.window != number {
            self.window = number;
            (0..self.senders.len()).for_each(|thread| self.send(thread));
        }
    }

    #[inline(always)]
    fn add(&mut self, key: usize, input: C::Input) {
        let thread = key % self.senders.len();
        let rows = &mut self.buffers[thread].rows;
        rows.push((key as u32, input));
        if rows.len() == ROWS {
            self.send(thread);
        }
    }
}
