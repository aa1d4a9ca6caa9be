//! Readers that wait, continue, and give up.

use super::*;
use std::thread;

/// Workers that rest when it says so.
struct Resting<F>(F);

impl<F: Fn() -> bool> Others for Resting<F> {
    fn are_at_rest(&self) -> bool {
        self.0()
    }

    fn spill(&self) {}
}

fn flow(groups: Vec<Option<usize>>, limit: u64) -> Arc<Flow> {
    let splits = groups.len();
    let flow = Flow::new(16, groups, 2, false, MemoryBudget::new(limit));
    (0..splits).for_each(|split| flow.set_silent(StreamId::new(split), false));
    flow
}

#[test]
fn tables_that_grow_much_have_less_in_flight() {
    const MIB: u64 = 1 << 20;
    let flow = flow(vec![None], 64 * MIB);
    assert_eq!(flow.aim(), usize::MAX, "nothing is spilled");
    flow.expect_spilling();
    assert_eq!(flow.aim(), (64 * MIB / 8 / UNSEEN_GROWTH) as usize);
    let others = Resting(|| true);
    let mut tables = Charge::new(&flow.budget, MemoryClass::Tables, 0);
    let mut consume = |bytes: u64, growth: u64| {
        let permit = flow.acquire(StreamId::new(0), bytes, &others, &Waits::default()).unwrap();
        tables.set((bytes * growth) as usize);
        drop(permit);
        tables.set(0);
        drop(flow.acquire(StreamId::new(0), 0, &others, &Waits::default()).unwrap());
    };
    consume(MIB / 4, 2);
    assert_eq!(flow.aim(), 4 << 20, "as soon as it has been seen");
    consume(MIB / 4, 100);
    assert_eq!(flow.aim(), (64 * MIB / 800) as usize);
    consume(1000, 1);
    assert_eq!(flow.aim(), (64 * MIB / 800) as usize, "too little was consumed");
    (0..40).for_each(|_| consume(MIB / 4, 2));
    assert_eq!(flow.aim(), 4 << 20);
}

#[test]
fn what_is_in_flight_is_a_quarter_of_what_state_leaves() {
    let verdict = |state, in_flight| verdict(1000, state, in_flight, 200, || false);
    assert_eq!(
        (verdict(0, 200), verdict(0, 201)),
        (Verdict::Yes, Verdict::Wait(WaitCause::Memory)),
        "the absolute limit"
    );
    assert_eq!((verdict(600, 100), verdict(600, 101)), (Verdict::Yes, Verdict::Wait(WaitCause::Memory)));
    assert_eq!((verdict(800, 0), verdict(801, 0)), (Verdict::Yes, Verdict::Wait(WaitCause::Behind)), "the soft limit");
    assert_eq!(verdict(1001, 0), Verdict::Wait(WaitCause::Behind), "only the slowest can tell that nothing helps");
}

#[test]
fn splits_that_hold_chunks_back_do_not_keep_others_from_reading() {
    let (readers, budget) = (12, MemoryBudget::new(1 << 20));
    let flow = Flow::new(16, vec![None; readers], readers, true, Arc::clone(&budget));
    let others = Resting(|| true);
    let large = 1 << 20;
    let mut held: Vec<Permit> = Vec::new();
    for split in 0..readers - 1 {
        held.push(flow.acquire(StreamId::new(split), large, &others, &Waits::default()).unwrap());
    }
    assert!(budget.in_flight() > budget.limit(), "more than there is room for");
    held.push(flow.acquire(StreamId::new(readers - 1), large, &others, &Waits::default()).unwrap());
    assert_eq!(held.len(), readers);
}

#[test]
fn the_slowest_goes_on_until_state_alone_is_too_large() {
    let verdict = |state, in_flight| verdict(1000, state, in_flight, 200, || true);
    assert_eq!((verdict(900, 25), verdict(900, 26)), (Verdict::Yes, Verdict::Wait(WaitCause::Memory)));
    assert_eq!((verdict(1000, 0), verdict(1001, 0)), (Verdict::Yes, Verdict::Exhausted));
    assert_eq!(verdict(1001, 1), Verdict::Wait(WaitCause::Memory), "what is in flight may free something");
    let tiny = super::verdict(1, 0, 0, 200, || true);
    assert_eq!(tiny, Verdict::Yes, "any budget lets one chunk in");
}

#[test]
fn only_splits_that_speak_and_advance_windows_together_are_compared() {
    let flow = flow(vec![Some(0), Some(0), Some(1), None], 1000);
    (0..4).zip([50, 20, 10, i64::MIN]).for_each(|(split, watermark)| flow.advance(StreamId::new(split), watermark));
    let slowest = || (0..4).filter(|&split| flow.state.lock().is_slowest(StreamId::new(split))).collect::<Vec<_>>();
    assert_eq!(slowest(), [1, 2, 3]);
    flow.set_silent(StreamId::new(1), true);
    assert_eq!(slowest(), [0, 1, 2, 3], "one that was silent and is behind may speak");
    flow.set_silent(StreamId::new(1), false);
    flow.advance(StreamId::new(1), 60);
    assert_eq!(slowest(), [0, 2, 3]);
}

#[test]
fn a_split_that_is_ahead_waits_for_the_other_or_for_memory() {
    for frees_memory in [true, false] {
        let flow = flow(vec![Some(0), Some(0)], 1000);
        flow.advance(StreamId::new(0), 100);
        let mut state = Charge::new(&flow.budget, MemoryClass::Tables, 900);
        thread::scope(|scope| {
            let ahead =
                scope.spawn(|| flow.acquire(StreamId::new(0), 10, &Resting(|| false), &Waits::default()).map(drop));
            flow.acquire(StreamId::new(1), 10, &Resting(|| false), &Waits::default()).unwrap();
            match frees_memory {
                true => state.set(100),
                false => flow.advance(StreamId::new(1), 200),
            }
            ahead.join().unwrap().unwrap();
        });
    }
}

#[test]
fn a_state_that_grows_over_the_budget_is_an_error_once_the_workers_rest() {
    let flow = flow(vec![None], 1000);
    let mut tables = Charge::new(&flow.budget, MemoryClass::Tables, 1500);
    let _lookups = Charge::new(&flow.budget, MemoryClass::Lookups, 2000);
    let rounds = std::cell::Cell::new(0);
    let at_rest = || rounds.replace(rounds.get() + 1) == 2;
    flow.acquire(StreamId::new(0), 0, &Resting(at_rest), &Waits::default()).unwrap();
    assert_eq!(rounds.get(), 3, "nobody continues while workers may give memory back");
    tables.set(1700);
    flow.acquire(StreamId::new(0), 0, &Resting(|| true), &Waits::default()).unwrap();
    tables.set(1701);
    let error = flow.acquire(StreamId::new(0), 0, &Resting(|| true), &Waits::default()).unwrap_err();
    assert_eq!(error.code, code::OUT_OF_MEMORY);
    let expected =
        "the state of the query is larger than its memory budget of 1000 B: it holds lookups 2.0 KiB, tables 1.7 KiB";
    assert_eq!(error.message, expected);
    flow.open();
    flow.acquire(StreamId::new(0), 0, &Resting(|| true), &Waits::default()).unwrap();
}

#[test]
fn a_query_that_may_spill_gives_up_when_that_was_tried_again() {
    struct Spilling<'a>(&'a Flow, std::cell::RefCell<Charge>, std::cell::Cell<u32>);
    impl Others for Spilling<'_> {
        fn are_at_rest(&self) -> bool {
            true
        }
        fn spill(&self) {
            self.2.set(self.2.get() + 1);
            match self.2.get() {
                1 => self.0.note_spilled_in_vain(),
                // Tables that have just been frozen.
                2 => self.1.borrow_mut().set(100),
                _ => self.0.note_spilled_in_vain(),
            }
        }
    }
    let flow = flow(vec![None], 1000);
    flow.expect_spilling();
    let tables = std::cell::RefCell::new(Charge::new(&flow.budget, MemoryClass::Tables, 1100));
    let spilling = Spilling(&flow, tables, std::cell::Cell::new(0));
    for bytes in [1100, 1500] {
        spilling.1.borrow_mut().set(bytes);
        flow.acquire(StreamId::new(0), 0, &spilling, &Waits::default()).unwrap();
    }
    assert_eq!(spilling.2.get(), 2);
    for bytes in [1100, 1500] {
        spilling.1.borrow_mut().set(bytes);
        let acquired = flow.acquire(StreamId::new(0), 0, &spilling, &Waits::default());
        assert_eq!(acquired.is_err(), bytes == 1500);
    }
    assert_eq!(spilling.2.get(), 4, "twice in vain");
}

#[test]
fn a_small_container_is_not_overrun() {
    let mib = |limit: u64, available: u64| far_over(limit << 20, available << 20) >> 20;
    assert_eq!([mib(40, 128), mib(153, 256), mib(600, 1024), mib(600, 64000)], [64, 192, 960, 1456]);
}

#[test]
fn a_limit_that_falls_fails_nobody() {
    const MIB: u64 = 1 << 20;
    let flow = flow(vec![None], 1024 * MIB);
    let mut tables = Charge::new(&flow.budget, MemoryClass::Tables, 900 << 20);
    flow.budget.set_limit(64 * MIB);
    assert!(flow.overrun().is_none(), "it was within its limit");
    tables.set(usize::try_from(far_over(1024 * MIB, flow.available)).unwrap() + 1);
    assert!(flow.overrun().is_some());
}

#[test]
fn memory_that_was_exceeded_and_given_back_is_forgotten() {
    let flow = flow(vec![None], 1000);
    let mut tables = Charge::new(&flow.budget, MemoryClass::Tables, 1100);
    for bytes in [1100, 700, 2000] {
        tables.set(bytes);
        flow.acquire(StreamId::new(0), 0, &Resting(|| true), &Waits::default()).unwrap();
    }
}

#[test]
fn a_chunk_weighs_what_the_one_before_it_did() {
    let flow = flow(vec![None], 1000);
    let mut first = flow.acquire(StreamId::new(0), 10, &Resting(|| false), &Waits::default()).unwrap();
    assert_eq!(flow.budget.in_flight(), 10);
    first.decoded(90);
    assert_eq!(flow.budget.in_flight(), 100);
    let second = flow.acquire(StreamId::new(0), 10, &Resting(|| false), &Waits::default()).unwrap();
    assert_eq!(flow.budget.in_flight(), 200);
    drop((first, second));
    assert_eq!((flow.budget.in_flight(), flow.state.lock().total), (0, 0));
}

#[test]
fn the_only_reader_is_woken_when_half_of_the_permits_are_free() {
    let flow = Flow::new(8, vec![None], 1, false, MemoryBudget::new(1 << 30));
    flow.set_silent(StreamId::new(0), false);
    let acquire = |flow: &Arc<Flow>| flow.acquire(StreamId::new(0), 0, &Resting(|| false), &Waits::default()).unwrap();
    let mut permits: Vec<Permit> = (0..8).map(|_| acquire(&flow)).collect();
    let reader = thread::spawn({
        let flow = Arc::clone(&flow);
        move || acquire(&flow)
    });
    while flow.state.lock().queued == 0 {
        thread::yield_now();
    }
    permits.truncate(5);
    thread::sleep(Duration::from_millis(50));
    assert!(flow.state.lock().queued == 1 && !reader.is_finished(), "three are free");
    permits.truncate(4);
    drop(reader.join().unwrap());
    drop(permits);
    assert_eq!(flow.state.lock().total, 0);
}

#[test]
fn a_worker_is_refused_and_told_when_to_try_again() {
    let flow = flow(vec![None], 64 << 20);
    let calls = Arc::new(AtomicU64::new(0));
    let called = Arc::clone(&calls);
    flow.call_when_freed(move || {
        called.fetch_add(1, Ordering::Relaxed);
    });
    let (stream, waits) = (StreamId::new(0), Waits::default());
    let try_acquire = || {
        let mut refused = None;
        let permit = flow.try_acquire(stream, 10, &waits, |refusal| refused = Some(refusal));
        assert_eq!(permit.as_ref().err().copied(), refused);
        permit
    };
    let mut permits: Vec<Permit> = std::iter::from_fn(|| try_acquire().ok()).collect();
    assert_eq!(permits.len(), 8, "its share");
    assert_eq!(waits.snapshot().now, Some(WaitCause::InFlight));
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    permits.pop();
    assert_eq!(calls.load(Ordering::Relaxed), 1, "there is room");
    permits.pop();
    assert_eq!(calls.load(Ordering::Relaxed), 1, "nobody was refused since");
    let mut tables = Charge::new(&flow.budget, MemoryClass::Tables, 0);
    tables.set(65 << 20);
    assert_eq!(try_acquire().err(), Some(Refusal::Memory));
    let waited = waits.snapshot();
    assert!(waited.now == Some(WaitCause::Memory) && waited.behind.is_zero(), "{waited:?}");
    flow.open();
    assert!(try_acquire().is_ok(), "the query ends");
}
