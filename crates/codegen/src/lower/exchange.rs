//! Consume of a keyed operator's input: rows that are not late are emitted with the hash of their key, which says which
//! partition they go to.

use super::{Computed, Lowered, Lowering};
use crate::program::{Comparison, Op, Value};
use millstream_abi::{HASH_SEED, Phys, hash_finish};
use millstream_plan::expr::Expr;
use millstream_plan::pipeline::KeyedOperator;
use millstream_types::{Diagnostic, Field};

impl Lowering<'_> {
    /// Ends the program with the columns, followed by the hash of the key. Rows without time are errors; rows whose time
    /// plus the input's reach is not behind the watermark before them are late: dropped and counted.
    pub(super) fn exchange(mut self, name: &str, operator: &KeyedOperator, port: usize) -> Computed<Lowered> {
        let input = &operator.inputs[port];
        let columns = self.current_columns();
        let column = |index: usize| {
            let column = columns.get(index).cloned();
            column.ok_or_else(|| Diagnostic::bug("a pipeline does not fit the keyed operator that it ends in"))
        };
        if input.keys.len() != operator.keys.len() {
            return Err(Diagnostic::bug("a keyed operator has other keys than its input"));
        }
        let by = operator.partition_keys();
        let exprs = by.iter().map(|&key| column(input.keys[key])).collect::<Result<Vec<Expr>, _>>()?;
        let keys: Vec<Field> = by.iter().map(|&key| operator.keys[key].clone()).collect();
        match (input.time.map(column).transpose()?, input.reach_ms) {
            (Some(time), Some(reach_ms)) => {
                let time = self.event_time(&time)?;
                let last = self.saturating_add(time, reach_ms);
                self.drop_late(last, operator.timeline);
            }
            (Some(time), None) => self.require_time(&time)?,
            (None, Some(_)) => return Err(Diagnostic::bug("rows of a keyed operator can be late but have no time")),
            (None, None) => {}
        }
        let hash = self.hash(&exprs, &keys)?;
        self.emit_columns(name, &columns, &[], Some(hash))
    }

    /// A time plus a constant, saturating at the first and the last time.
    fn saturating_add(&mut self, time: Value, constant: i64) -> Value {
        if constant == 0 {
            return time;
        }
        let (wrapped, end) = if constant > 0 { (Comparison::Lt, i64::MAX) } else { (Comparison::Gt, i64::MIN) };
        let sum = self.with_constant(Op::Add, time, constant);
        let has_wrapped = self.builder.compare(wrapped, sum, time);
        let end = self.builder.int(end.into(), Phys::I64);
        self.builder.select(has_wrapped, end, sum)
    }

    /// The hash of a key, with the bits that table entries of the key fields have.
    fn hash(&mut self, exprs: &[Expr], keys: &[Field]) -> Computed<Value> {
        let layout = super::aggregate::key_layout(keys, &[])?;
        if keys.is_empty() {
            return Ok(self.builder.int((hash_finish(HASH_SEED) as i64).into(), Phys::I64));
        }
        let seed = self.builder.int((HASH_SEED as i64).into(), Phys::I64);
        let mut hash = seed;
        for ((expr, field), slot) in exprs.iter().zip(keys).zip(&layout.keys) {
            let (value, valid) = self.key(expr, field)?;
            if self.builder.type_of(value) != slot.phys {
                return Err(Diagnostic::bug("the keys of a keyed operator have several types"));
            }
            let folded = self.builder.op(Op::HashFold(hash, value), Phys::I64);
            hash = match valid {
                None => folded,
                Some(valid) => {
                    let null = self.builder.op(Op::HashFold(hash, seed), Phys::I64);
                    self.builder.select(valid, folded, null)
                }
            };
        }
        Ok(self.builder.op(Op::HashFinish(hash), Phys::I64))
    }
}
