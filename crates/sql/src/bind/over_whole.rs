//! OVER for which all rows of a bounded input are sorted first.
//!
//! On a stream OVER is computed in the order of time. A bounded input can be put in any order: a rank over all of it numbers the rows of each
//! partition, and they leave it in that order, so frames of ROWS are those of rows as they arrive. LEAD is LAG in the opposite order, for which the
//! rows are numbered again, by the first number downwards: so rows of equal order stay opposite, too.

use super::over::numbered;
use super::over_list::{OverCall, OverFunction};
use super::place::error;
use super::relation::Relation;
use millstream_plan::expr::Expr;
use millstream_plan::logical::{Frame, Rel, SortKey};
use millstream_types::{DataType, Diagnostic, code};

/// The order that a call needs, without places, and what it computes in it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sorted {
    partition: Vec<Expr>,
    order: Vec<SortKey>,
    backwards: bool,
    /// Of an aggregate; `None`: the number of the row.
    frame: Option<Frame>,
}

impl Sorted {
    /// What a call over a bounded input needs.
    pub fn of(call: &OverCall) -> Result<Sorted, Diagnostic> {
        if call.order.is_empty() {
            return Err(
                error(code::INVALID_WINDOW, call.place, "OVER needs ORDER BY").advise("write ORDER BY within OVER")
            );
        }
        let frame = match call.function {
            OverFunction::Rank(_) => None,
            OverFunction::Aggregate(_) => Some(call.frame),
        };
        let plain = |key: &SortKey| SortKey { expr: key.expr.clone().unplaced(), ..key.clone() };
        Ok(Sorted {
            partition: call.partition.iter().cloned().map(Expr::unplaced).collect(),
            order: call.order.iter().map(plain).collect(),
            backwards: call.whole.as_ref().is_some_and(|whole| whole.backwards),
            frame,
        })
    }

    fn has_order_of(&self, other: &Sorted) -> bool {
        self.partition == other.partition && self.order == other.order
    }
}

/// The relation with columns for the calls that need a sorted input, whose numbers are put into `columns`.
pub(super) fn apply(
    mut relation: Relation,
    calls: &[OverCall],
    needs: &[Option<Sorted>],
    columns: &mut [usize],
) -> Relation {
    for (i, first) in needs.iter().enumerate() {
        let Some(first) = first else { continue };
        let is_of = |other: &Option<Sorted>| other.as_ref().is_some_and(|other| other.has_order_of(first));
        if needs[..i].iter().any(is_of) {
            continue;
        }
        let members: Vec<(usize, &Sorted)> =
            (i..needs.len()).filter(|&j| is_of(&needs[j])).filter_map(|j| Some((j, needs[j].as_ref()?))).collect();
        let number = relation.columns.len();
        relation = numbered(relation, first.partition.clone(), first.order.clone());
        relation = pass(relation, &members, false, calls, columns);
        if members.iter().any(|(_, sorted)| sorted.backwards) {
            let expr = Expr::column(number, DataType::BigInt, false);
            let downwards = vec![SortKey { expr, descending: true, nulls_first: false }];
            relation = numbered(relation, first.partition.clone(), downwards);
            relation = pass(relation, &members, true, calls, columns);
        }
        relation.forget_times();
    }
    relation
}

/// What is computed of numbered rows in one direction; the number is the last column.
fn pass(
    mut relation: Relation,
    members: &[(usize, &Sorted)],
    backwards: bool,
    calls: &[OverCall],
    columns: &mut [usize],
) -> Relation {
    let number = relation.columns.len() - 1;
    let members: Vec<&(usize, &Sorted)> = members.iter().filter(|(_, sorted)| sorted.backwards == backwards).collect();
    for (i, (member, sorted)) in members.iter().enumerate() {
        let Some(frame) = sorted.frame else {
            columns[*member] = number;
            continue;
        };
        if members[..i].iter().any(|(_, other)| other.frame == sorted.frame) {
            continue;
        }
        let (first, mut aggregates) = (relation.columns.len(), vec![]);
        for (other, _) in members.iter().filter(|(_, other)| other.frame == sorted.frame) {
            columns[*other] = first + aggregates.len();
            aggregates.push((calls[*other].aggregate(), format!("over{}", columns[*other])));
        }
        let (input, partition) = (Box::new(relation.rel), sorted.partition.clone());
        let rel = Rel::Over { input, time: None, partition, frame, aggregates };
        relation = Relation::with_added(rel, relation.columns);
    }
    relation
}
