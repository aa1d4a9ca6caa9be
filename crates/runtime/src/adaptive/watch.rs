//! Looking at samples of a program's rows: "instrumented execution" (Grizzly section 6.1.1).
//!
//! Workers give the first rows of a buffer when they are asked; the programs that look at them
//! ([`observe`](millstream_codegen::observe)) are run by the adviser's thread. So what is observed costs workers nothing, and a
//! pipeline whose observation fails continues.

use super::signals::{Observation, Profile};
use super::variant_switch::Sample;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BooleanArray};
use millstream_codegen::execute::{Emitted, Flow, emit};
use millstream_codegen::interpreter::Interpreter;
use millstream_codegen::kernel::Kernel;
use millstream_codegen::lower::Lowered;
use millstream_codegen::observe::{observed, prefixes};
use millstream_functions::{FunctionContext, FunctionSettings};
use std::sync::Arc;
use std::time::Instant;

/// The programs that look at the rows before a program.
pub(crate) struct SampleWatch {
    filters: Vec<Option<Probe>>,
    key: Option<Probe>,
    time: Option<Probe>,
    slice_ms: i64,
    functions: FunctionContext,
}

/// How often the cost of a program is measured; the least counts.
const MEASUREMENTS: usize = 32;

struct Probe {
    lowered: Lowered,
    kernel: Arc<dyn Kernel>,
    /// Least nanoseconds per row so far.
    nanos: f64,
}

impl Probe {
    fn new(lowered: Lowered) -> Probe {
        let kernel = Arc::new(Interpreter::new(Arc::new(lowered.program.clone())));
        Probe { lowered, kernel, nanos: f64::INFINITY }
    }

    /// What it emits, one row for each of the sample's; `None` if it fails.
    fn look(&mut self, sample: &Sample, functions: &mut FunctionContext) -> Option<Vec<ArrayRef>> {
        let emitted = self.emit(sample, functions)?;
        (emitted.rows == sample.rows).then_some(emitted.columns)
    }

    /// What it emits; `None` if it fails.
    fn emit(&mut self, sample: &Sample, functions: &mut FunctionContext) -> Option<Emitted> {
        let columns = &sample.columns[..self.lowered.program.inputs.len()];
        let started = Instant::now();
        let emitted =
            emit(&self.lowered, &*self.kernel, columns, sample.rows, &[i64::MIN], functions, &mut |_| Flow::Stop);
        let nanos = started.elapsed().as_nanos() as f64 / sample.rows as f64;
        let emitted = emitted.ok()?;
        self.nanos = self.nanos.min(nanos);
        Some(emitted)
    }
}

impl SampleWatch {
    /// For a generic program.
    pub(crate) fn new(lowered: &Lowered, settings: &FunctionSettings) -> SampleWatch {
        let observed = observed(lowered);
        let probe = |lowered: Option<Lowered>| lowered.map(Probe::new);
        SampleWatch {
            filters: observed.filters.into_iter().map(probe).collect(),
            key: probe(observed.key),
            time: probe(observed.time),
            slice_ms: observed.slice_ms,
            functions: FunctionContext::new(settings.clone()),
        }
    }

    /// Takes a sample into a profile.
    pub(crate) fn observe(&mut self, sample: &Sample, profile: &mut Profile) {
        let SampleWatch { filters, key, time, slice_ms, functions } = self;
        // Of a filter that cannot be observed nothing is known; it keeps its place.
        let unknown = || BooleanArray::from(vec![true; sample.rows]);
        let mut condition = |probe: &mut Option<Probe>| {
            let columns = probe.as_mut().and_then(|probe| probe.look(sample, functions));
            columns.map_or_else(unknown, |columns| columns[0].as_boolean().clone())
        };
        let conditions: Vec<BooleanArray> = filters.iter_mut().map(&mut condition).collect();
        let mut columns = |probe: &mut Option<Probe>| probe.as_mut()?.look(sample, functions);
        let (key, time) = (columns(key), columns(time));
        let integers = |columns: &'_ Option<Vec<ArrayRef>>, at: usize| {
            columns.as_ref().and_then(|columns| columns.get(at)).map(|c| c.as_primitive::<Int64Type>().clone())
        };
        let (hash, key, time) = (integers(&key, 0), integers(&key, 1), integers(&time, 0));
        profile.observe(&Observation {
            rows: sample.rows,
            filters: &conditions.iter().collect::<Vec<_>>(),
            key: key.as_ref(),
            key_hashes: hash.as_ref().filter(|_| key.is_none()),
            times: time.as_ref(),
            slice_ms: *slice_ms,
            columns: &sample.columns,
        });
    }

    /// What each filter of a program over the rows of a sample costs with these kernels, in nanoseconds per row of the sample:
    /// measured by programs that end behind it ("instrumented execution", Grizzly section 6.1.1). `None` if that cannot be.
    pub(crate) fn filter_costs(
        &mut self,
        lowered: &Lowered,
        sample: &Sample,
        make: &mut dyn FnMut(&Lowered) -> Option<Arc<dyn Kernel>>,
    ) -> Option<Vec<f64>> {
        let mut costs = Vec::new();
        for prefix in prefixes(lowered)? {
            let mut probe = Probe { kernel: make(&prefix)?, lowered: prefix, nanos: f64::INFINITY };
            for _ in 0..MEASUREMENTS {
                probe.emit(sample, &mut self.functions)?;
            }
            costs.push(probe.nanos);
        }
        Some(costs.windows(2).map(|pair| (pair[1] - pair[0]).max(0.0)).collect())
    }

    /// What a filter's condition costs an interpreter, in nanoseconds per row; `None` before it was observed.
    pub(crate) fn nanos(&self, filter: usize) -> Option<f64> {
        self.filters[filter].as_ref().map(|probe| probe.nanos).filter(|nanos| nanos.is_finite())
    }
}
