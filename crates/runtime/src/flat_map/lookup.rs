//! A row once for each row of a lookup table with its keys.
//!
//! The compiled probe finds the partners of all rows at once. Pairs of a row and a partner are *candidates* where there is
//! a residual: a program selects those for which it is TRUE, a slice of candidates at a time. Rows are passed on in their
//! order, and those of LEFT that have no partner in their place.

use super::Expansion;
use crate::columns::selected;
use crate::input::PipelineCode;
use crate::lookup::table::LookupRows;
use crate::staged::{Arrive, Staged, Tools, emit_once};
use arrow_array::UInt32Array;
use millstream_plan::logical::JoinKind;
use millstream_types::Diagnostic;
use std::ops::ControlFlow;

/// Rows that have been made and not passed on.
#[derive(Default)]
struct MadePairs {
    of: Vec<u32>,
    /// Rows of the table; `None` for rows that have no partner.
    partners: Vec<Option<u32>>,
}

/// A pair of a row and one of the table that may be its partner.
type Candidate = (u32, u32);

impl<'a> Expansion<'_, 'a> {
    pub(super) fn look_up(
        &self,
        kind: JoinKind,
        tools: &mut Tools<'_>,
        arrive: &mut Arrive<'_, 'a>,
    ) -> Result<ControlFlow<()>, Diagnostic> {
        let table = self.table.ok_or_else(|| Diagnostic::bug("a lookup has no table"))?.rows()?;
        let probe = self.code.probe.as_ref().ok_or_else(|| Diagnostic::bug("a lookup has no program to probe with"))?;
        let keys = &self.rows.columns[self.kept()..];
        let partners = table.partners(probe, keys, self.rows.rows, tools.functions)?;
        let mut probing = Probing { expansion: self, table, kind, made: MadePairs::default(), undecided: None };
        let Some(residual) = &self.code.residual else {
            for (row, partners) in partners.into_iter().enumerate() {
                let row = row as u32;
                probing.begin(row);
                for &partner in partners {
                    probing.matches(row, partner);
                    if probing.is_decided(row) {
                        break;
                    }
                    if probing.is_full() && probing.pass(tools, arrive)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                probing.end();
                if probing.is_full() && probing.pass(tools, arrive)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            return probing.pass(tools, arrive);
        };
        let mut candidates: Vec<Candidate> = Vec::new();
        // Rows from here on have not begun.
        let mut next = 0;
        for (row, partners) in partners.into_iter().enumerate() {
            for &partner in partners {
                candidates.push((row as u32, partner));
                if candidates.len() == self.most {
                    let chosen = self.select(table, residual, &candidates, tools)?;
                    probing.replay(&mut next, row as u32, &chosen, false);
                    candidates.clear();
                    if probing.pass(tools, arrive)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
        }
        let chosen = self.select(table, residual, &candidates, tools)?;
        probing.replay(&mut next, self.rows.rows as u32, &chosen, true);
        probing.pass(tools, arrive)
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
        for column in &table.columns {
            columns.push(selected(column, &partners)?);
        }
        let pairs: Staged<'_> = self.rows.made(columns, of.values());
        let emitted = emit_once(residual, &pairs, tools)?;
        Ok(emitted.selection.iter().map(|&i| candidates[i as usize]).collect())
    }
}

/// A run over the rows of one stage: which of them have found a partner.
struct Probing<'p, 'e, 'a> {
    expansion: &'p Expansion<'e, 'a>,
    table: &'p LookupRows,
    kind: JoinKind,
    made: MadePairs,
    /// The row whose candidates are being looked at, and whether it has found a partner.
    undecided: Option<(u32, bool)>,
}

impl<'a> Probing<'_, '_, 'a> {
    fn begin(&mut self, row: u32) {
        self.undecided = Some((row, false));
    }

    /// A partner of the row that has begun.
    fn matches(&mut self, row: u32, partner: u32) {
        let first = self.undecided.replace((row, true)) != Some((row, true));
        match self.kind {
            JoinKind::Semi if first => self.make(row, None),
            JoinKind::Semi | JoinKind::Anti => {}
            _ => self.make(row, Some(partner)),
        }
    }

    /// Whether further partners make no difference.
    fn is_decided(&self, row: u32) -> bool {
        !self.kind.shows_right() && self.undecided == Some((row, true))
    }

    /// No further partner comes for the row that has begun.
    fn end(&mut self) {
        if let Some((row, false)) = self.undecided.take()
            && matches!(self.kind, JoinKind::Left | JoinKind::Anti)
        {
            self.make(row, None);
        }
    }

    fn make(&mut self, of: u32, partner: Option<u32>) {
        self.made.of.push(of);
        self.made.partners.push(partner);
    }

    /// Goes through the rows from `next` on up to `last` with the partners that have been chosen for them. Only if all
    /// of its candidates have been looked at, a row ends: `last` itself does not unless `complete`, and then it is one row
    /// after the last.
    fn replay(&mut self, next: &mut u32, last: u32, chosen: &[Candidate], complete: bool) {
        let mut chosen = chosen.iter().peekable();
        loop {
            // The row that began before goes on first.
            let row = match self.undecided {
                Some((row, _)) => row,
                None if *next > last || (complete && *next == last) => return,
                None => {
                    self.begin(*next);
                    *next += 1;
                    *next - 1
                }
            };
            while let Some(&&(of, partner)) = chosen.peek().filter(|c| c.0 == row) {
                self.matches(of, partner);
                chosen.next();
            }
            if row == last && !complete {
                return;
            }
            self.end();
        }
    }

    fn is_full(&self) -> bool {
        self.made.of.len() >= self.expansion.most
    }

    /// Passes on what has been made, in slices.
    fn pass(&mut self, tools: &mut Tools<'_>, arrive: &mut Arrive<'_, 'a>) -> Result<ControlFlow<()>, Diagnostic> {
        let MadePairs { of, partners } = std::mem::take(&mut self.made);
        let (rows, most) = (self.expansion.rows, self.expansion.most);
        for (of, partners) in of.chunks(most).zip(partners.chunks(most)) {
            let indices = UInt32Array::from(of.to_vec());
            let mut columns = rows.take(self.expansion.kept(), &indices)?;
            if self.kind.shows_right() {
                let partners = UInt32Array::from(partners.to_vec());
                for column in &self.table.columns {
                    columns.push(selected(column, &partners)?);
                }
            }
            if arrive(tools, rows.made(columns, of))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
