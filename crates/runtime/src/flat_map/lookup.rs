//! A row once for each row of a lookup table with its keys.
//!
//! The compiled probe finds the partners of all rows at once. Pairs of a row and a partner are *candidates* where there is
//! a residual: a program selects those for which it is TRUE, a slice of candidates at a time. Rows are passed on in their
//! order, and those of LEFT that have no partner in their place.

use super::Expansion;
use crate::columns::all_selected;
use crate::executable_plan::PipelineCode;
use crate::lookup::table::{LookupRows, NONE};
use crate::pipeline_stages::{Arrive, Staged, Tools, Wanted, emit_once};
use arrow_array::UInt32Array;
use arrow_buffer::NullBuffer;
use millstream_codegen::execute::RowNumbers;
use millstream_plan::logical::JoinKind;
use millstream_types::Diagnostic;
use std::ops::ControlFlow;

/// A pair of a row and one of the table that may be its partner.
type Candidate = (u32, u32);

impl<'a> Expansion<'_, 'a> {
    pub(super) fn look_up(&self, kind: JoinKind, tools: &mut Tools<'_>, arrive: &mut Arrive<'_, 'a>) -> Wanted {
        let table = self.table.ok_or_else(|| Diagnostic::bug("a lookup has no table"))?.get();
        let table = table.ok_or_else(|| Diagnostic::bug("a lookup table was used before it was complete"))?;
        let probe = self.code.probe.as_ref().ok_or_else(|| Diagnostic::bug("a lookup has no program to probe with"))?;
        let keys = &self.rows.columns[self.kept()..];
        if self.code.residual.is_none() && table.is_unique() {
            let partners = table.only_partners(probe, keys, self.rows.rows, tools.functions)?;
            let made = self.joined(kind, table, partners)?;
            return if made.rows == 0 { Ok(ControlFlow::Continue(())) } else { arrive(tools, made) };
        }
        let partners = table.partners(probe, keys, self.rows.rows, tools.functions)?;
        let partners = (0u32..).zip(&partners);
        let append = |partners: Vec<Option<u32>>| match kind.shows_right() {
            true => all_selected(&table.columns, &UInt32Array::from(partners)),
            false => Ok(vec![]),
        };
        let Some(residual) = &self.code.residual else {
            let made = partners.flat_map(|(row, partners)| {
                let shown = if kind.shows_right() { *partners } else { &[] };
                let alone = is_alone(kind, !partners.is_empty()).then_some(None);
                shown.iter().map(|&partner| Some(partner)).chain(alone).map(move |partner| (row, partner))
            });
            return self.make(made, append, tools, arrive);
        };
        let mut candidates = partners.flat_map(|(row, partners)| partners.iter().map(move |&partner| (row, partner)));
        let mut matching = Matching { kind, row: 0, has_partner: false };
        loop {
            let slice: Vec<Candidate> = candidates.by_ref().take(self.most).collect();
            // Others may come of the last row.
            let last = slice.last().filter(|_| slice.len() == self.most);
            let until = last.map_or(self.rows.rows as u32, |last| last.0);
            let made = matching.decide(self.select(table, residual, &slice, tools)?, until);
            if self.make(made, append, tools, arrive)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if last.is_none() {
                return Ok(ControlFlow::Continue(()));
            }
        }
    }

    /// Rows with their only partners, if they have one.
    fn joined(&self, kind: JoinKind, table: &LookupRows, partners: Vec<u32>) -> Result<Staged<'a>, Diagnostic> {
        let (all, alone) =
            (RowNumbers::All(partners.len()), partners.iter().filter(|&&partner| partner == NONE).count());
        let (of, shown): (RowNumbers, UInt32Array) = match kind {
            JoinKind::Left if alone > 0 => {
                let nulls = NullBuffer::from_iter(partners.iter().map(|&partner| partner != NONE));
                // Where there is none, any row stands.
                let shown = partners.into_iter().map(|partner| if partner == NONE { 0 } else { partner }).collect();
                (all, UInt32Array::new(shown, Some(nulls)))
            }
            JoinKind::Anti => {
                let of = (0u32..).zip(&partners).filter(|(_, partner)| **partner == NONE).map(|(row, _)| row);
                (RowNumbers::Some(of.collect()), UInt32Array::from(Vec::<u32>::new()))
            }
            _ if alone == 0 => (all, partners.into()),
            _ => {
                let (mut of, mut shown) = (Vec::with_capacity(partners.len()), Vec::with_capacity(partners.len()));
                for (row, partner) in (0u32..).zip(partners).filter(|(_, partner)| *partner != NONE) {
                    of.push(row);
                    shown.push(partner);
                }
                (RowNumbers::Some(of), shown.into())
            }
        };
        let appended = if kind.shows_right() { all_selected(&table.columns, &shown)? } else { vec![] };
        self.rows.extended(self.kept(), of, appended)
    }

    /// The candidates for which the residual is TRUE.
    fn select(
        &self,
        table: &LookupRows,
        residual: &PipelineCode,
        candidates: &[Candidate],
        tools: &mut Tools<'_>,
    ) -> Result<Vec<Candidate>, Diagnostic> {
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        let of = UInt32Array::from_iter_values(candidates.iter().map(|c| c.0));
        let partners = UInt32Array::from_iter_values(candidates.iter().map(|c| c.1));
        let mut columns = self.rows.take(self.kept(), &of)?;
        columns.extend(all_selected(&table.columns, &partners)?);
        let pairs: Staged<'_> = self.rows.made(columns, of.values());
        let emitted = emit_once(residual, &pairs, tools)?;
        Ok(emitted.selection.iter().map(|i| candidates[i as usize]).collect())
    }
}

/// Whether a row is passed on once, by itself, if it has a partner or not.
fn is_alone(kind: JoinKind, has_partner: bool) -> bool {
    match kind {
        JoinKind::Semi => has_partner,
        JoinKind::Left | JoinKind::Anti => !has_partner,
        _ => false,
    }
}

/// Rows that find their partners by and by.
struct Matching {
    kind: JoinKind,
    /// The first row of which not all candidates have been looked at.
    row: u32,
    /// Whether it has found a partner.
    has_partner: bool,
}

impl Matching {
    /// What is made of rows, now that some of their candidates have been chosen. All candidates of the rows before `until` have been
    /// looked at.
    fn decide(&mut self, chosen: Vec<Candidate>, until: u32) -> Vec<(u32, Option<u32>)> {
        let (mut made, mut chosen) = (Vec::with_capacity(chosen.len()), chosen.into_iter().peekable());
        loop {
            while let Some((row, partner)) = chosen.next_if(|candidate| candidate.0 == self.row) {
                let is_first = !std::mem::replace(&mut self.has_partner, true);
                if self.kind.shows_right() {
                    made.push((row, Some(partner)));
                } else if is_first && is_alone(self.kind, true) {
                    made.push((row, None));
                }
            }
            if self.row == until {
                return made;
            }
            if !std::mem::take(&mut self.has_partner) && is_alone(self.kind, false) {
                made.push((self.row, None));
            }
            self.row += 1;
        }
    }
}
