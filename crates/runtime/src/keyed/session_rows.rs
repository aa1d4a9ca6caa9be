//! Rows with their session: kept until it ends, in a chain for each session.

use super::batch::Batch;
use super::encoding::Owned;
use super::key_share::{KeyShare, NewNumbers, of_same_operator};
use super::session::Sessions;
use super::state::{State, Work};
use super::store::{Doubling, NO_ROW, RowStore};
use crate::executable_plan::OperatorCode;
use millstream_plan::pipeline::KeyedOperator;
use millstream_storage::{ByteReader, ByteWriter};
use millstream_types::Diagnostic;
use std::sync::atomic::Ordering::Relaxed;

/// Rows with their session.
pub(crate) struct SessionRows {
    sessions: Sessions,
    rows: RowStore,
    /// The row before each in its session's chain.
    before: Vec<u32>,
    /// The first and the last row of each session's chain.
    chains: Vec<(u32, u32)>,
    doubling: Doubling,
}

impl SessionRows {
    /// No sessions.
    pub(crate) fn new(plan: &KeyedOperator, gap_ms: i64, code: &OperatorCode) -> Result<SessionRows, Diagnostic> {
        Ok(SessionRows {
            sessions: Sessions::new(plan, gap_ms, code)?,
            rows: RowStore::new(&plan.inputs[0].schema),
            before: Vec::new(),
            chains: Vec::new(),
            doubling: Doubling::default(),
        })
    }

    /// The rows of a session in merged order.
    fn rows_of(&self, session: u32) -> Vec<u32> {
        let mut rows = Vec::new();
        let mut row = self.chains[session as usize].1;
        while row != NO_ROW {
            rows.push(row);
            row = self.before[row as usize];
        }
        rows.sort_unstable();
        rows
    }

    /// Forgets rows whose sessions are over, when there are many.
    fn forget(&mut self, is_tight: bool) -> Result<(), Diagnostic> {
        if !self.doubling.is_due(self.rows.len(), is_tight) {
            return Ok(());
        }
        let mut is_free = vec![false; self.chains.len()];
        self.sessions.free.iter().for_each(|&s| is_free[s as usize] = true);
        let open: Vec<u32> = (0..self.chains.len() as u32).filter(|&s| !is_free[s as usize]).collect();
        let chains: Vec<Vec<u32>> = open.iter().map(|&s| self.rows_of(s)).collect();
        let mut kept: Vec<u32> = chains.iter().flatten().copied().collect();
        kept.sort_unstable();
        self.rows.keep(&kept)?;
        let mut numbers = vec![NO_ROW; self.before.len()];
        kept.iter().enumerate().for_each(|(i, &row)| numbers[row as usize] = i as u32);
        self.before = vec![NO_ROW; kept.len()];
        for (&session, chain) in open.iter().zip(&chains) {
            for pair in chain.windows(2) {
                self.before[numbers[pair[1] as usize] as usize] = numbers[pair[0] as usize];
            }
            if let [first, .., last] | [first @ last] = chain[..] {
                self.chains[session as usize] = (numbers[first as usize], numbers[last as usize]);
            }
        }
        self.doubling.done(kept.len());
        Ok(())
    }
}

impl State for SessionRows {
    fn advance(&mut self, inputs: Vec<Batch>, watermark: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        for mut batch in inputs {
            let assigned = self.sessions.assign(&mut batch, work)?;
            self.chains.resize(self.sessions.all.len(), (NO_ROW, NO_ROW));
            for &session in &assigned.begun {
                self.chains[session as usize] = (NO_ROW, NO_ROW);
            }
            let rows = batch.rows();
            let first = self.rows.push(batch.columns, rows)?;
            for (row, &session) in (first..).zip(&assigned.sessions) {
                let chain = &mut self.chains[session as usize];
                self.before.push(chain.1);
                *chain = (if chain.0 == NO_ROW { row } else { chain.0 }, row);
            }
            for &(into, from) in &assigned.merges {
                self.join_chains(into, from);
            }
            assigned.merges.iter().for_each(|&(_, from)| self.sessions.free(from));
        }
        let complete = self.sessions.complete(watermark);
        work.stats.windows_fired.fetch_add(complete.len() as u64, Relaxed);
        let (mut rows, mut owners) = (Vec::new(), Vec::new());
        for &session in &complete {
            rows.extend(self.rows_of(session));
            owners.resize(rows.len(), session);
        }
        for (rows, owners) in rows.chunks(work.most_rows).zip(owners.chunks(work.most_rows)) {
            let mut columns = self.rows.gather(rows)?;
            columns.extend(self.sessions.bounds(owners));
            work.emit_behind(columns, self.sessions.watermarks(owners, work.timeline));
        }
        complete.into_iter().for_each(|session| self.sessions.free(session));
        self.forget(work.is_tight)?;
        self.sessions.forget(work)
    }

    fn due(&self) -> i64 {
        self.sessions.due()
    }

    fn bytes(&mut self) -> usize {
        let chains = self.chains.capacity() * size_of::<(u32, u32)>();
        self.sessions.bytes() + self.rows.bytes() + self.before.capacity() * size_of::<u32>() + chains
    }

    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.sessions.save(out);
        self.rows.save(out)?;
        self.sessions.open().for_each(|session| out.u32s(&self.rows_of(session)));
        Ok(())
    }

    fn restore(&mut self, from: &mut ByteReader<'_>, _now_ms: i64) -> Result<(), Diagnostic> {
        self.sessions.restore(from)?;
        self.rows.restore(from)?;
        self.before = vec![NO_ROW; self.rows.len()];
        let mut owned = Owned::new(self.rows.len());
        for _ in 0..self.sessions.all.len() {
            let mut chain = (NO_ROW, NO_ROW);
            for row in from.u32s()? {
                owned.take(row as usize)?;
                self.before[row as usize] = chain.1;
                chain = (if chain.0 == NO_ROW { row } else { chain.0 }, row);
            }
            self.chains.push(chain);
        }
        self.doubling.done(self.rows.len());
        Ok(())
    }

    fn absorb(&mut self, other: &mut dyn State, share: &mut KeyShare<'_>) -> Result<(), Diagnostic> {
        let other = of_same_operator::<SessionRows>(other)?;
        let sessions = self.sessions.absorb(&other.sessions, share)?;
        let chains: Vec<Vec<u32>> = sessions.iter().map(|&session| other.rows_of(session)).collect();
        let mut taken: Vec<u32> = chains.iter().flatten().copied().collect();
        taken.sort_unstable();
        let first = self.rows.absorb(&other.rows, &taken)?;
        let numbers = NewNumbers::new(taken.iter().map(|&row| row as usize), other.rows.len(), first as usize);
        self.before.resize(self.rows.len(), NO_ROW);
        for chain in chains {
            let mut own = (NO_ROW, NO_ROW);
            for row in chain.into_iter().filter_map(|row| numbers.of(row as usize)) {
                self.before[row as usize] = own.1;
                own = (if own.0 == NO_ROW { row } else { own.0 }, row);
            }
            self.chains.push(own);
        }
        self.doubling.done(self.rows.len());
        Ok(())
    }
}

impl SessionRows {
    /// Puts the rows of one session behind those of another.
    fn join_chains(&mut self, into: u32, from: u32) {
        let (first, last) = self.chains[from as usize];
        if first == NO_ROW {
            return;
        }
        let chain = &mut self.chains[into as usize];
        self.before[first as usize] = chain.1;
        *chain = (if chain.0 == NO_ROW { first } else { chain.0 }, last);
    }
}
