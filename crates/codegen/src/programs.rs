//! The programs of a plan, as one tree.
//!
//! A leaf is a lowered program at first ([`crate::lower::lower_plan`]), and what executes it in the runtime. Vectors are
//! parallel to those of the plan.

use millstream_plan::pipeline::{PipelineInput, QueryPlan};

/// Every program that a run may need.
#[derive(Debug, Clone)]
pub struct Programs<T> {
    /// Of each source, where event time or watermark have to be computed (`event_time_columns`).
    pub event_times: Vec<Option<T>>,
    /// The groups of each lookup table's rows by its keys, over its columns (`lower_keys`).
    pub lookups: Vec<T>,
    /// Of each pipeline.
    pub pipelines: Vec<Staged<T>>,
    /// Of each keyed operator.
    pub keyed: Vec<Keyed<T>>,
}

/// The programs of a pipeline: one stage more than it has flat maps.
#[derive(Debug, Clone)]
pub struct Staged<T> {
    /// In the order in which rows flow (`lower_pipeline`).
    pub stages: Vec<T>,
    /// One for each flat map.
    pub flat_maps: Vec<FlatMapped<T>>,
    /// The last stage, cut in two, for [`Tables::Partitioned`]; `None` if its rows cannot be partitioned or the run has
    /// other tables.
    pub partitioned: Option<Partitioned<T>>,
    /// The last stage for [`Tables::Shared`] (`Program::shared`); `None` if they cannot be shared or the run has other tables.
    pub shared: Option<T>,
}

/// The programs of a flat map: those of lookups, none for the others.
#[derive(Debug, Clone)]
pub struct FlatMapped<T> {
    /// Finds the group of a row's keys in the lookup table (`lower_keys`), over the flat map's arguments.
    pub probe: Option<T>,
    /// Selects the pairs for which the residual is TRUE (`lower_condition`), over the columns before the flat map, then
    /// those of the table.
    pub residual: Option<T>,
}

/// The two halves of a program that updates tables ([`crate::partition`]).
#[derive(Debug, Clone)]
pub struct Partitioned<T> {
    /// Emits what the other half needs, and the hash of the key as last column (BIGINT).
    pub scatter: T,
    /// Updates tables with the columns of `scatter` but for the last, in any order of rows.
    pub fold: T,
}

/// The programs of a keyed operator.
#[derive(Debug, Clone)]
pub struct Keyed<T> {
    /// For each input: the groups of its rows by key (`lower_keys`), over its columns. All have one entry layout.
    pub keys: Vec<T>,
    /// Selects the pairs for which the residual of a join is TRUE (`lower_condition`), over left, then right columns.
    pub residual: Option<T>,
    /// Updates the entries of slots (`lower_slots`), over the columns of the input, then the slot.
    pub slots: Option<T>,
}

/// Which tables the rows of windowed aggregations update, where the layout of their entries allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tables {
    /// Those of the worker.
    Own,
    /// Those of the partition of the key.
    Partitioned,
    /// Those of the worker, or of all workers of a NUMA node: the run chooses.
    Shared,
}

impl<T> Programs<T> {
    /// The tree with what `make` makes of each program, in the order of [`Programs::all`].
    pub fn try_map<U, E>(&self, make: &mut impl FnMut(&T) -> Result<U, E>) -> Result<Programs<U>, E> {
        let event_times = self.event_times.iter().map(|program| program.as_ref().map(&mut *make).transpose());
        Ok(Programs {
            event_times: event_times.collect::<Result<_, _>>()?,
            lookups: self.lookups.iter().map(&mut *make).collect::<Result<_, _>>()?,
            pipelines: self.pipelines.iter().map(|p| p.try_map(make)).collect::<Result<_, _>>()?,
            keyed: self.keyed.iter().map(|k| k.try_map(make)).collect::<Result<_, _>>()?,
        })
    }

    /// Every program, in the order in which rows meet them.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        let staged = self.pipelines.iter().flat_map(|p| p.all().chain(&p.shared));
        let keyed = self.keyed.iter().flat_map(Keyed::all);
        self.event_times.iter().flatten().chain(&self.lookups).chain(staged).chain(keyed)
    }

    /// The first program of each pipeline that reads a source.
    pub fn first_stages<'a>(&'a self, plan: &'a QueryPlan, source: usize) -> impl Iterator<Item = &'a T> {
        let staged = self.pipelines.iter().zip(&plan.pipelines);
        let reads = staged.filter(move |(_, pipeline)| pipeline.input == PipelineInput::Source(source));
        reads.filter_map(|(staged, _)| staged.stages.first())
    }

    /// The programs that read the buffers of a source: its own, and the first of each pipeline.
    pub fn readers<'a>(&'a self, plan: &'a QueryPlan, source: usize) -> impl Iterator<Item = &'a T> {
        self.event_times[source].iter().chain(self.first_stages(plan, source))
    }
}

impl<T> Staged<T> {
    fn try_map<U, E>(&self, make: &mut impl FnMut(&T) -> Result<U, E>) -> Result<Staged<U>, E> {
        let stages = self.stages.iter().map(&mut *make).collect::<Result<_, _>>()?;
        let mut flat_maps = Vec::with_capacity(self.flat_maps.len());
        for FlatMapped { probe, residual } in &self.flat_maps {
            let probe = probe.as_ref().map(&mut *make).transpose()?;
            flat_maps.push(FlatMapped { probe, residual: residual.as_ref().map(&mut *make).transpose()? });
        }
        let partitioned = match &self.partitioned {
            Some(Partitioned { scatter, fold }) => Some(Partitioned { scatter: make(scatter)?, fold: make(fold)? }),
            None => None,
        };
        Ok(Staged { stages, flat_maps, partitioned, shared: self.shared.as_ref().map(make).transpose()? })
    }

    /// Every program but the one for shared tables, in the order in which rows meet them.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        let flat_maps = self.flat_maps.iter().flat_map(|f| f.probe.iter().chain(&f.residual));
        let halves = self.partitioned.iter().flat_map(|halves| [&halves.scatter, &halves.fold]);
        self.stages.iter().chain(flat_maps).chain(halves)
    }

    /// Drops the programs for other tables than those of a run.
    pub fn leave_out(&mut self, tables: impl Into<Tables>) {
        let tables = tables.into();
        self.partitioned.take_if(|_| tables != Tables::Partitioned);
        self.shared.take_if(|_| tables != Tables::Shared);
    }

    /// Whether there are programs for such tables.
    pub fn suits(&self, tables: impl Into<Tables>) -> bool {
        match tables.into() {
            Tables::Own => true,
            Tables::Partitioned => self.partitioned.is_some(),
            Tables::Shared => self.shared.is_some(),
        }
    }
}

impl<T> Keyed<T> {
    fn try_map<U, E>(&self, make: &mut impl FnMut(&T) -> Result<U, E>) -> Result<Keyed<U>, E> {
        Ok(Keyed {
            keys: self.keys.iter().map(&mut *make).collect::<Result<_, _>>()?,
            residual: self.residual.as_ref().map(&mut *make).transpose()?,
            slots: self.slots.as_ref().map(make).transpose()?,
        })
    }

    /// Every program.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.keys.iter().chain(&self.residual).chain(&self.slots)
    }
}
