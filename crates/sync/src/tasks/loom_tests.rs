//! The protocol of the queues, under every order of what threads do.

use super::*;
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

/// A worker that goes to sleep while a task is pushed gets it.
#[test]
fn no_wake_up_is_lost() {
    loom::model(|| {
        let queues = Arc::new(TaskQueues::new(&[0], Choice::Urgent));
        let worker = {
            let queues = Arc::clone(&queues);
            thread::spawn(move || queues.next(0))
        };
        queues.push(None, [(Urgency { class: 1, time: 0 }, 5)]);
        assert_eq!(worker.join().unwrap(), Some(5));
    });
}

/// Two workers steal from each other: each task is done once, and both end.
#[test]
fn each_task_is_taken_once() {
    loom::model(|| {
        let queues = Arc::new(TaskQueues::new(&[0, 1], Choice::Urgent));
        queues.push(None, [(Urgency { class: 1, time: 0 }, 1), (Urgency { class: 1, time: 1 }, 2)]);
        let other = {
            let queues = Arc::clone(&queues);
            thread::spawn(move || queues.take(1).unwrap_or(0))
        };
        let mut sum = queues.take(0).unwrap_or(0);
        sum += other.join().unwrap();
        while let Some(task) = queues.take(0) {
            sum += task;
        }
        assert_eq!(sum, 3);
    });
}

const READING: Urgency = Urgency { class: 2, time: 0 };
const CHUNKS: u32 = 2;

/// A split: how many chunks were read of it.
struct Split(UnsafeCell<u32>);

// SAFETY: only who has its task touches it.
unsafe impl Sync for Split {}
// SAFETY: as above.
unsafe impl Send for Split {}

/// Reads chunks until there are no more; how many.
fn read(queues: &TaskQueues<Arc<Split>>, worker: usize) -> u32 {
    let mut read = 0;
    while let Some(split) = queues.next(worker) {
        // SAFETY: this thread has the task of the split.
        let number = split.0.with_mut(|next| unsafe {
            *next += 1;
            *next
        });
        if number > CHUNKS {
            queues.close();
        } else {
            queues.offer(Some(worker), READING, split);
            read += 1;
        }
    }
    read
}

/// A split that workers read is a task that whoever has it gives back before it goes on: one reads it at a time, and sees what those
/// before it did; nobody sleeps while there is something to read.
#[test]
fn a_task_that_is_offered_again_belongs_to_one_at_a_time() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let queues = Arc::new(TaskQueues::new(&[0, 0], Choice::Urgent));
        queues.push(None, [(READING, Arc::new(Split(UnsafeCell::new(0))))]);
        let other = {
            let queues = Arc::clone(&queues);
            thread::spawn(move || read(&queues, 1))
        };
        assert_eq!(read(&queues, 0) + other.join().unwrap(), CHUNKS);
    });
}

/// A worker that is sent to rest while it is woken for a task passes the task on.
#[test]
fn a_worker_that_goes_to_rest_loses_no_task() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let queues = Arc::new(TaskQueues::new(&[0, 0], Choice::Urgent));
        let workers = [0, 1].map(|worker| {
            let queues = Arc::clone(&queues);
            thread::spawn(move || {
                let task = queues.next(worker);
                queues.close();
                task
            })
        });
        queues.push(None, [(Urgency { class: 1, time: 0 }, 7)]);
        queues.set_active(1);
        let done: Vec<_> = workers.into_iter().filter_map(|worker| worker.join().unwrap()).collect();
        assert_eq!(done, [7]);
    });
}

/// Closing while a worker goes to sleep and a task arrives: the worker ends, and no task stays.
#[test]
fn closing_reaches_everybody() {
    loom::model(|| {
        let queues = Arc::new(TaskQueues::new(&[0], Choice::Urgent));
        let worker = {
            let queues = Arc::clone(&queues);
            thread::spawn(move || while queues.next(0).is_some() {})
        };
        queues.close();
        queues.push(None, [(Urgency { class: 1, time: 0 }, 1)]);
        worker.join().unwrap();
        assert_eq!(queues.queued(), 0);
    });
}
