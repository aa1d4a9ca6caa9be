//! The variants of a program: what executes it now, and what is tried beside it.
//!
//! A [`VariantSlot`] is looked at once a buffer and changed by one atomic store, so a variant is replaced between two buffers.
//! While another variant is on trial, every other buffer is run by it: both see the same data, so that what they cost can be
//! compared.

use super::signals::meter::VariantMeter;
use arc_swap::ArcSwap;
use arrow_array::ArrayRef;
use millstream_codegen::kernel::{Kernel, Tier};
use millstream_codegen::specialise::{Choices, Specialised};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Instant;

/// Rows of a sample.
const SAMPLE_ROWS: usize = 1024;

/// A kernel of a program, and what its buffers cost.
pub struct Variant {
    /// In the order in which the program's variants came up.
    pub(crate) number: u32,
    kernel: Arc<dyn Kernel>,
    special: Option<Arc<Specialised>>,
    pub(crate) meter: VariantMeter,
}

impl Variant {
    /// Of the generic program.
    fn new(number: u32, kernel: Arc<dyn Kernel>, special: Option<Arc<Specialised>>) -> Arc<Variant> {
        Arc::new(Variant { number, kernel, special, meter: VariantMeter::default() })
    }

    /// How it executes.
    pub(crate) fn tier(&self) -> Tier {
        self.kernel.tier()
    }

    /// What it runs.
    pub(crate) fn kernel(&self) -> Arc<dyn Kernel> {
        Arc::clone(&self.kernel)
    }

    /// Its specialised program, if it has one.
    pub(crate) fn specialised(&self) -> Option<&Specialised> {
        self.special.as_deref()
    }

    /// What it is specialised for.
    pub(crate) fn choices(&self) -> Choices {
        self.special.as_ref().map(|special| special.choices().clone()).unwrap_or_default()
    }

    /// Runs its kernel over `rows` rows and counts what that costs.
    pub(crate) fn run<T>(&self, rows: usize, run: impl FnOnce(&dyn Kernel) -> T) -> T {
        let started = Instant::now();
        let result = run(&*self.kernel);
        self.meter.record(rows, started.elapsed());
        result
    }
}

/// The first rows of a buffer.
pub(crate) struct Sample {
    /// Columns before the program.
    pub(crate) columns: Vec<ArrayRef>,
    /// Rows of each.
    pub(crate) rows: usize,
}

/// The place of a program's current variant. Clones share it.
#[derive(Clone)]
pub struct VariantSlot(Arc<SlotPlace>);

struct SlotPlace {
    running: ArcSwap<Running>,
    /// Buffers since there is a trial.
    turn: AtomicU32,
    variants: AtomicU32,
    wants_sample: AtomicBool,
    sample: Mutex<Option<Sample>>,
}

struct Running {
    variant: Arc<Variant>,
    trial: Option<Arc<Variant>>,
}

impl VariantSlot {
    /// A slot whose first variant is a kernel of the generic program.
    pub fn new(kernel: Arc<dyn Kernel>) -> VariantSlot {
        let running = Running { variant: Variant::new(0, kernel, None), trial: None };
        VariantSlot(Arc::new(SlotPlace {
            running: ArcSwap::from_pointee(running),
            turn: AtomicU32::new(0),
            variants: AtomicU32::new(1),
            wants_sample: AtomicBool::new(false),
            sample: Mutex::new(None),
        }))
    }

    fn next_number(&self) -> u32 {
        self.0.variants.fetch_add(1, Relaxed)
    }

    /// A variant of the generic program.
    pub(crate) fn generic(&self, kernel: Arc<dyn Kernel>) -> Arc<Variant> {
        Variant::new(self.next_number(), kernel, None)
    }

    /// A specialised variant.
    pub(crate) fn special(&self, special: Specialised) -> Arc<Variant> {
        let special = Arc::new(special);
        Variant::new(self.next_number(), Arc::<Specialised>::clone(&special), Some(special))
    }

    /// Replaces the variant and ends a trial: buffers started after this run the new one. One atomic store; never blocks.
    pub(crate) fn swap(&self, variant: Arc<Variant>) {
        self.0.running.store(Arc::new(Running { variant, trial: None }));
    }

    /// Has every other buffer run by another variant.
    pub(crate) fn try_out(&self, trial: Arc<Variant>) {
        self.0.running.store(Arc::new(Running { variant: self.current(), trial: Some(trial) }));
    }

    /// The variant that is not on trial.
    pub(crate) fn current(&self) -> Arc<Variant> {
        Arc::clone(&self.0.running.load().variant)
    }

    /// The variant for the next buffer.
    pub(crate) fn load(&self) -> Arc<Variant> {
        let running = self.0.running.load();
        match &running.trial {
            Some(trial) if self.0.turn.fetch_add(1, Relaxed) % 2 == 1 => Arc::clone(trial),
            _ => Arc::clone(&running.variant),
        }
    }

    /// Asks for a sample of the next buffer.
    pub(crate) fn ask_for_sample(&self) {
        self.0.wants_sample.store(true, Relaxed);
    }

    /// The sample that was asked for, once it is there.
    pub(crate) fn take_sample(&self) -> Option<Sample> {
        self.0.sample.lock().take()
    }

    /// Gives a sample of the rows, if one was asked for. That costs a load of a flag otherwise.
    pub(crate) fn offer(&self, columns: &[ArrayRef], rows: usize) {
        if self.0.wants_sample.load(Relaxed) && rows > 0 && self.0.wants_sample.swap(false, Relaxed) {
            let rows = rows.min(SAMPLE_ROWS);
            let columns = columns.iter().map(|column| column.slice(0, rows)).collect();
            *self.0.sample.lock() = Some(Sample { columns, rows });
        }
    }
}
