//! The queues of tasks: each worker has one, takes the most urgent task of its node, and steals where its own node has none.
//!
//! ```text
//! node 0                            node 1
//! ┌ worker 0 ┐ ┌ worker 1 ┐         ┌ worker 2 ┐          each queue shows the urgency of its first task,
//! │ tasks    │ │ tasks    │ ◄─steal─│ tasks    │          so that looking for work takes no lock
//! └──────────┘ └──────────┘         └──────────┘
//! ```
//!
//! # Order
//!
//! An [`Urgency`] is a class and, within the class, a time; equal ones go by arrival in their queue. A worker takes the
//! least urgency of class 0, on whatever node, its own first among equals. Of later classes it takes what its node has, the
//! least of the lowest class, and only then looks at other nodes. So urgent work is done first everywhere, and data stays on
//! its node as long as the node has work.
//!
//! # Protocol
//!
//! - `Queue::tasks`: an ordered map under a lock that is held for one push or pop; nothing is computed under it.
//! - `Queue::first`: an approximation of the urgency of the first task, `NONE` when there is none. Written under the lock,
//!   read by anyone (relaxed): who is misled finds the queue empty or its task less urgent, and looks again.
//! - `Sleep::sleepers`: number of workers that are going to sleep or asleep. Written under the lock of `Sleep`.
//!   A worker that finds nothing takes that lock, counts itself, and looks again before it waits; who pushes makes its task
//!   visible first, and then looks whether anybody is counted. The two fences are sequentially consistent: so either the
//!   worker sees the task, or the pusher sees the worker, and wakes it under the lock, which the worker gives up only
//!   by waiting. No wake-up is lost.
//! - `Sleep::searchers`: workers that have found nothing and look around for some microseconds before they go to sleep, so
//!   that tasks that come in quick succession need no system call. Who pushes leaves as many tasks to them. A searcher
//!   uncounts itself before it goes to sleep as described; so, by the same two fences, either the pusher sees that it does
//!   not search any more, or it sees the task when it looks for the last time.
//! - `Sleep::active`: workers with a higher number rest, asleep on `Sleep::rest`, whatever there is to do. Written under the
//!   lock of `Sleep`, after which all are woken, so that each finds its place. A worker that goes to rest may have been woken
//!   for a task: it wakes another one, if tasks are there.
//! - `Later`: tasks that wait for a moment, under a lock, and the earliest of these moments, which anyone may read (relaxed). A worker that
//!   looks for work takes those that are due into its queue. One sleeper, the watcher, wakes up at the earliest moment; who adds an earlier
//!   one wakes all. A watcher that is woken for something else has another sleeper take its place.
//! - `closed`: set under the lock of `Sleep` before all are woken.
//!
//! A worker that pushes the only task there is wakes nobody for it: it will take the task itself as soon
//! as it has finished what it is doing, and pipelines with little work share a worker. One that does more before that calls for help. A worker that takes a task and
//! leaves others behind wakes a sleeper for them. Sleeping workers burn no CPU.

mod later;

use crate::primitives::{AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence};
use later::Later;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

/// How urgent a task is; less is more urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Urgency {
    /// 0 to 2.
    pub class: u8,
    /// Within the class.
    pub time: i64,
}

/// How often a worker looks around before it goes to sleep.
const ROUNDS: usize = if cfg!(loom) { 1 } else { 8 };

/// About a microsecond. The core is not given away: other programs might keep it for milliseconds.
fn pause() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    (0..24).for_each(|_| std::hint::spin_loop());
}

/// Urgency of no task.
const NONE: u64 = u64::MAX;

impl Urgency {
    /// In one word: the class and the time to 4 units.
    fn approximate(self) -> u64 {
        (self.class as u64) << 62 | ((self.time as u64) ^ (1 << 63)) >> 2
    }
}

fn class_of(approximate: u64) -> u64 {
    approximate >> 62
}

/// How a worker chooses among tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// As the module says.
    Urgent,
    /// Any task of any queue, drawn from a sequence that this number begins: for tests of programs that must not depend on
    /// the order.
    Shuffled(u64),
}

/// See the module.
pub struct TaskQueues<T> {
    queues: Box<[Queue<T>]>,
    choice: Choice,
    draws: AtomicU64,
    /// Where the next task goes that comes from outside.
    next: AtomicUsize,
    later: Later<(Urgency, T)>,
    sleep: Sleep,
    closed: AtomicBool,
}

struct Queue<T> {
    first: AtomicU64,
    length: AtomicUsize,
    node: usize,
    tasks: Mutex<Tasks<T>>,
}

struct Tasks<T> {
    /// By urgency, then arrival.
    ordered: BTreeMap<(Urgency, u64), T>,
    arrivals: u64,
}

#[derive(Default)]
struct Sleep {
    searchers: AtomicUsize,
    sleepers: AtomicUsize,
    /// Workers at work, or asleep until there is work.
    active: AtomicUsize,
    /// Workers that are at rest.
    resting: AtomicUsize,
    /// Whether a sleeper wakes up when the next of the tasks that wait for a moment is due. Under the lock.
    is_watched: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
    rest: Condvar,
}

/// Nobody panics while holding one of these locks, so a poisoned one is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl<T> Queue<T> {
    fn push(&self, urgency: Urgency, task: T) {
        let mut tasks = lock(&self.tasks);
        tasks.arrivals += 1;
        let rank = (urgency, tasks.arrivals);
        tasks.ordered.insert(rank, task);
        self.show(&tasks);
    }

    fn pop(&self) -> Option<T> {
        let mut tasks = lock(&self.tasks);
        let popped = tasks.ordered.pop_first();
        self.show(&tasks);
        popped.map(|(_, task)| task)
    }

    /// Any task.
    fn draw(&self, number: u64) -> Option<T> {
        let mut tasks = lock(&self.tasks);
        let place = number.checked_rem(tasks.ordered.len() as u64)?;
        let rank = *tasks.ordered.keys().nth(place as usize)?;
        let drawn = tasks.ordered.remove(&rank);
        self.show(&tasks);
        drawn
    }

    fn show(&self, tasks: &Tasks<T>) {
        let first = tasks.ordered.first_key_value().map_or(NONE, |((urgency, _), _)| urgency.approximate());
        self.first.store(first, Ordering::Relaxed);
        self.length.store(tasks.ordered.len(), Ordering::Relaxed);
    }
}

impl<T> TaskQueues<T> {
    /// Empty queues: one for each worker, given the node that it runs on.
    ///
    /// # Panics
    /// Without workers.
    pub fn new(nodes: &[usize], choice: Choice) -> TaskQueues<T> {
        assert!(!nodes.is_empty(), "tasks need a worker");
        let queue = |&node: &usize| Queue {
            first: AtomicU64::new(NONE),
            length: AtomicUsize::new(0),
            node,
            tasks: Mutex::new(Tasks { ordered: BTreeMap::new(), arrivals: 0 }),
        };
        let seed = if let Choice::Shuffled(seed) = choice { seed } else { 0 };
        TaskQueues {
            queues: nodes.iter().map(queue).collect(),
            choice,
            draws: AtomicU64::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            next: AtomicUsize::new(0),
            later: Later::default(),
            sleep: Sleep { active: AtomicUsize::new(nodes.len()), ..Sleep::default() },
            closed: AtomicBool::new(false),
        }
    }

    /// Adds tasks: to the queue of worker `by`, or, from outside, to those of the workers in turns. When the queues are
    /// closed, the tasks are dropped.
    pub fn push(&self, by: Option<usize>, tasks: impl IntoIterator<Item = (Urgency, T)>) {
        self.add(by, tasks, false);
    }

    /// The same; `is_busy`: the worker does something else before it looks for tasks.
    fn add(&self, by: Option<usize>, tasks: impl IntoIterator<Item = (Urgency, T)>, is_busy: bool) {
        if self.closed.load(Ordering::Acquire) {
            return;
        }
        let mut pushed = 0;
        for (urgency, task) in tasks {
            let place = by.unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed) % self.queues.len());
            self.queues[place].push(urgency, task);
            pushed += 1;
        }
        let is_own = by.is_some() && !is_busy && self.queued() <= 1;
        if pushed > 0 && !is_own {
            self.wake(pushed);
        }
        if self.closed.load(Ordering::Acquire) {
            // Closed meanwhile, perhaps before these tasks were there to be dropped.
            self.clear();
        }
    }

    /// Adds a task of worker `by`, which does something else first: a sleeper takes it, if there is one.
    pub fn offer(&self, by: Option<usize>, urgency: Urgency, task: T) {
        self.add(by, [(urgency, task)], true);
    }

    /// Adds a task from a moment on. Dropped when the queues are closed.
    pub fn push_later(&self, at: Instant, urgency: Urgency, task: T) {
        if self.later.add(at, (urgency, task)) {
            fence(Ordering::SeqCst);
            if self.sleep.sleepers.load(Ordering::Relaxed) > 0 {
                // Whoever watches wakes up too late for it.
                self.tell_all(|| {});
            }
        }
        if self.closed.load(Ordering::Acquire) {
            self.clear();
        }
    }

    /// Has a sleeper look for work, if there is some: the worker that has pushed it does something else first.
    pub fn call_for_help(&self) {
        if self.queued() > 0 {
            self.wake(1);
        }
    }

    /// Whether a task of the most urgent class waits.
    pub fn has_urgent(&self) -> bool {
        self.queues.iter().any(|queue| class_of(queue.first.load(Ordering::Relaxed)) == 0)
    }

    /// Lets as many sleepers look for work.
    fn wake(&self, tasks: usize) {
        fence(Ordering::SeqCst);
        let sleepers = self.sleep.sleepers.load(Ordering::Relaxed);
        let tasks = tasks.saturating_sub(self.sleep.searchers.load(Ordering::Relaxed));
        if sleepers == 0 || tasks == 0 {
            return;
        }
        let guard = lock(&self.sleep.lock);
        match tasks < sleepers {
            true => (0..tasks).for_each(|_| self.sleep.wake.notify_one()),
            false => self.sleep.wake.notify_all(),
        }
        drop(guard);
    }

    /// The task that a worker shall do next; waits for one. `None` when the queues are closed.
    pub fn next(&self, worker: usize) -> Option<T> {
        loop {
            if self.closed.load(Ordering::Acquire) {
                return None;
            }
            if worker >= self.active() {
                self.rest(worker);
                continue;
            }
            for (urgency, task) in self.later.due() {
                self.queues[worker].push(urgency, task);
            }
            if let Some(task) = self.take(worker) {
                if self.idle() > 0 && (self.queued() > 0 || self.is_unwatched()) {
                    self.wake(1);
                }
                return Some(task);
            }
            if !self.search() {
                self.sleep(worker);
            }
        }
    }

    /// Workers that take tasks; those with higher numbers rest.
    pub fn active(&self) -> usize {
        self.sleep.active.load(Ordering::Relaxed)
    }

    /// Lets `workers` workers take tasks, one at least and all at most. The others go to rest after the task that they
    /// are at.
    pub fn set_active(&self, workers: usize) {
        self.tell_all(|| self.sleep.active.store(workers.clamp(1, self.queues.len()), Ordering::SeqCst));
    }

    /// Changes something under the lock of `Sleep` and wakes all workers, so that they see it.
    fn tell_all(&self, change: impl FnOnce()) {
        let _guard = lock(&self.sleep.lock);
        change();
        self.sleep.wake.notify_all();
        self.sleep.rest.notify_all();
    }

    /// Waits until the worker is to be active, or the queues are closed.
    fn rest(&self, worker: usize) {
        fence(Ordering::SeqCst);
        if self.queued() > 0 || self.is_unwatched() {
            self.wake(1);
        }
        let guard = lock(&self.sleep.lock);
        self.sleep.resting.fetch_add(1, Ordering::Relaxed);
        if worker >= self.active() && !self.closed.load(Ordering::Acquire) {
            // Waking for nothing does no harm: the caller looks again.
            drop(self.sleep.rest.wait(guard));
        }
        self.sleep.resting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Looks around for a while; whether there is something to do.
    fn search(&self) -> bool {
        self.sleep.searchers.fetch_add(1, Ordering::Relaxed);
        let found = (0..ROUNDS).any(|_| {
            pause();
            !self.is_idle() || self.later.is_due() || self.closed.load(Ordering::Relaxed)
        });
        self.sleep.searchers.fetch_sub(1, Ordering::Relaxed);
        found
    }

    /// Whether tasks wait for a moment at which nobody wakes up.
    fn is_unwatched(&self) -> bool {
        self.later.next().is_some() && !self.sleep.is_watched.load(Ordering::Relaxed)
    }

    fn is_idle(&self) -> bool {
        self.queues.iter().all(|q| q.first.load(Ordering::Relaxed) == NONE)
    }

    /// Sleeps unless there is something to do, or the worker is to rest.
    fn sleep(&self, worker: usize) {
        let guard = lock(&self.sleep.lock);
        self.sleep.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.is_idle() && worker < self.active() && !self.closed.load(Ordering::Acquire) {
            // Waking for nothing does no harm: the caller looks again.
            let until = self.later.next().filter(|_| !self.sleep.is_watched.load(Ordering::Relaxed));
            match until {
                None => drop(self.sleep.wake.wait(guard)),
                Some(until) => {
                    self.sleep.is_watched.store(true, Ordering::Relaxed);
                    let guard = later::wait_until(&self.sleep.wake, guard, until);
                    self.sleep.is_watched.store(false, Ordering::Relaxed);
                    let is_taken = worker < self.active() && self.later.is_due();
                    if self.later.next().is_some() && !is_taken {
                        // Woken for something else. Another one may have gone to sleep while this one watched.
                        self.sleep.wake.notify_one();
                    }
                    drop(guard);
                }
            }
        }
        self.sleep.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// The most urgent task for a worker, if there is any.
    pub fn take(&self, worker: usize) -> Option<T> {
        if let Choice::Shuffled(_) = self.choice {
            return self.draw();
        }
        loop {
            let task = self.queues[self.choose(worker)?].pop();
            if task.is_some() {
                return task;
            }
        }
    }

    /// The queue to take from.
    fn choose(&self, worker: usize) -> Option<usize> {
        let node = self.queues[worker].node;
        let rank = |place: usize, queue: &Queue<T>| {
            let first = queue.first.load(Ordering::Relaxed);
            let is_remote = queue.node != node;
            // Urgent work is the same on all nodes.
            let strange = is_remote && class_of(first) > 0;
            (first != NONE).then_some((strange, first, is_remote, place != worker, place))
        };
        let ranks = self.queues.iter().enumerate().filter_map(|(place, queue)| rank(place, queue));
        ranks.min().map(|(.., place)| place)
    }

    /// Any task, by the next number of the sequence.
    fn draw(&self) -> Option<T> {
        let number = self.draws.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        let mixed = (number ^ number >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = mixed ^ mixed >> 32;
        let count = self.queues.len();
        (0..count).find_map(|way| self.queues[(mixed as usize + way) % count].draw(mixed >> 16))
    }

    /// Drops all tasks and sends the workers home.
    pub fn close(&self) {
        self.tell_all(|| self.closed.store(true, Ordering::SeqCst));
        self.clear();
    }

    fn clear(&self) {
        drop(self.later.take_all());
        for queue in &self.queues {
            let mut tasks = lock(&queue.tasks);
            let dropped = std::mem::take(&mut tasks.ordered);
            queue.show(&tasks);
            drop(tasks);
            // Dropping tasks may take other locks.
            drop(dropped);
        }
    }

    /// Tasks that wait.
    pub fn queued(&self) -> usize {
        self.queues.iter().map(|q| q.length.load(Ordering::Relaxed)).sum()
    }

    /// Workers without work, those at rest among them.
    pub fn idle(&self) -> usize {
        self.sleep.sleepers.load(Ordering::Relaxed) + self.sleep.resting.load(Ordering::Relaxed)
    }
}

impl<T> fmt::Debug for TaskQueues<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskQueues({} workers, {} tasks)", self.queues.len(), self.queued())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn at(class: u8, time: i64) -> Urgency {
        Urgency { class, time }
    }

    #[test]
    fn the_approximation_keeps_the_order() {
        let ordered = [at(0, i64::MIN), at(0, 0), at(0, i64::MAX), at(1, i64::MIN), at(1, -8), at(1, 4), at(2, 0)];
        assert!(ordered.map(Urgency::approximate).is_sorted());
        assert!(ordered[6].approximate() < NONE);
    }

    #[test]
    fn the_oldest_of_the_lowest_class_is_first_whoever_has_it() {
        let queues = TaskQueues::new(&[0, 0], Choice::Urgent);
        queues.push(Some(0), [(at(2, 0), "read"), (at(1, 100), "new"), (at(1, 20), "old")]);
        queues.push(Some(1), [(at(1, 60), "middle"), (at(0, 500), "trigger")]);
        assert_eq!(queues.queued(), 5);
        let order: Vec<&str> = (0..5).map(|_| queues.take(0).unwrap()).collect();
        assert_eq!(order, ["trigger", "old", "middle", "new", "read"]);
        assert_eq!(queues.take(0), None);
    }

    #[test]
    fn other_nodes_are_robbed_only_of_urgent_work_or_by_idle_workers() {
        let queues = TaskQueues::new(&[0, 0, 1], Choice::Urgent);
        queues.push(Some(2), [(at(1, 1), "strange"), (at(0, 9), "trigger")]);
        queues.push(Some(1), [(at(1, 50), "neighbour"), (at(2, 0), "read")]);
        let order: Vec<&str> = (0..4).map(|_| queues.take(0).unwrap()).collect();
        assert_eq!(order, ["trigger", "neighbour", "read", "strange"]);
    }

    #[test]
    fn sleepers_wake_up_for_what_is_due() {
        let queues = Arc::new(TaskQueues::new(&[0, 0], Choice::Urgent));
        let worker = |number: usize| {
            let queues = Arc::clone(&queues);
            std::thread::spawn(move || {
                std::iter::from_fn(|| queues.next(number))
                    .map(|at: Instant| {
                        let late = Instant::now() - at;
                        queues.push(Some(number), []);
                        late
                    })
                    .count()
            })
        };
        let workers = [worker(0), worker(1)];
        let now = Instant::now();
        let dues = [30, 20, 5, 25].map(|ms| now + std::time::Duration::from_millis(ms));
        dues.iter().for_each(|due| queues.push_later(*due, at(2, 0), *due));
        while queues.later.next().is_some() || queues.queued() > 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        queues.close();
        assert_eq!(workers.map(|worker| worker.join().unwrap()).iter().sum::<usize>(), 4);
        assert!(now.elapsed() >= std::time::Duration::from_millis(30));
    }

    #[test]
    fn equal_tasks_go_by_arrival() {
        let queues = TaskQueues::new(&[0], Choice::Urgent);
        queues.push(Some(0), (0..5).map(|i| (at(1, 7), i)));
        assert_eq!((0..5).map(|_| queues.take(0).unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn shuffling_takes_each_task_once_in_another_order() {
        let order = |seed: u64| {
            let queues = TaskQueues::new(&[0, 0], Choice::Shuffled(seed));
            queues.push(None, (0..50).map(|i| (at(1, i), i)));
            (0..50).map(|_| queues.take(0).unwrap()).collect::<Vec<i64>>()
        };
        let (one, two) = (order(1), order(2));
        assert_eq!(one, order(1), "the same for the same seed");
        assert_ne!(one, two);
        let mut sorted = two;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn workers_sleep_until_there_is_work_or_the_end() {
        let queues = Arc::new(TaskQueues::new(&[0, 0], Choice::Urgent));
        let (done, results) = std::sync::mpsc::channel();
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                let (queues, done) = (Arc::clone(&queues), done.clone());
                std::thread::spawn(move || {
                    while let Some(task) = queues.next(worker) {
                        done.send(task).unwrap();
                    }
                })
            })
            .collect();
        for round in 0..200 {
            queues.push(None, [(at(1, 0), round)]);
            assert_eq!(results.recv().unwrap(), round);
        }
        queues.close();
        queues.push(None, [(at(1, 0), 0)]);
        assert_eq!(queues.queued(), 0);
        workers.into_iter().for_each(|w| w.join().unwrap());
    }

    #[test]
    fn workers_at_rest_take_no_tasks_and_no_task_waits_for_them() {
        let queues = Arc::new(TaskQueues::new(&[0, 0, 1], Choice::Urgent));
        let (done, results) = std::sync::mpsc::channel();
        let workers: Vec<_> = (0..3)
            .map(|worker| {
                let (queues, done) = (Arc::clone(&queues), done.clone());
                std::thread::spawn(move || {
                    while let Some(task) = queues.next(worker) {
                        done.send((worker, task)).unwrap();
                    }
                })
            })
            .collect();
        for round in 0..600 {
            let active = [1, 3, 2][round % 3];
            queues.set_active(active);
            queues.push(None, [(at(1, 0), round)]);
            assert_eq!(results.recv().unwrap().1, round);
        }
        queues.set_active(0);
        assert_eq!(queues.active(), 1, "one at least");
        while queues.idle() < 3 {
            std::thread::yield_now();
        }
        queues.push(None, (0..50).map(|task| (at(1, task), task as usize)));
        let mut taken: Vec<_> = (0..50).map(|_| results.recv().unwrap()).collect();
        taken.sort_unstable();
        assert!(taken.into_iter().eq((0..50).map(|task| (0, task))), "the others rest");
        queues.set_active(9);
        assert_eq!(queues.active(), 3, "all at most");
        queues.set_active(1);
        queues.close();
        workers.into_iter().for_each(|w| w.join().unwrap());
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
