//! The columns of a case in packed records.

use super::{Case, Random};
use crate::lower::lower_pipeline;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, StringViewArray};
use arrow_buffer::Buffer;
use millstream_abi::Accumulator;
use millstream_plan::pipeline::{ColumnOrigin, QueryPlan, ScanKind, SourceColumn, SourcePlan};
use millstream_types::{DataType, Field, RecordField, RecordPlace};
use std::sync::Arc;

/// A column that goes into records.
struct Packed {
    number: usize,
    field: RecordField,
    /// Its bytes in each row, at most `field.width` of them.
    values: Vec<Vec<u8>>,
}

impl Case {
    /// The case with text cut to random widths, and the same with the columns in packed records that can be: those without
    /// NULLs and of a fixed width. `None` if there are none, or the program is not a pipeline's.
    pub fn in_records(&self, seed: u64) -> Option<(Case, Case)> {
        let mut random = Random::new(!seed);
        if self.lowered.layout().is_some_and(|l| l.accumulators.iter().any(|(a, _)| *a == Accumulator::Group)) {
            return None;
        }
        let schema = &self.plan.pipelines[0].schema;
        let mut columns = self.columns.clone();
        let mut packed: Vec<Packed> = Vec::new();
        // What other columns the records have.
        let mut length = random.below(5) as usize;
        for (number, field) in schema.fields.iter().enumerate().filter(|(_, f)| !f.nullable) {
            if random.chance(8) {
                continue;
            }
            let most = 1 + *random.pick(&[3, 7, 8, 11, 12, 19, 50]) as usize;
            let Some((column, width, values)) = bytes_of(field, &columns[number], most) else { continue };
            columns[number] = column;
            packed.push(Packed { number, field: RecordField { offset: length, width }, values });
            length += width + random.below(3) as usize;
        }
        if packed.is_empty() {
            return None;
        }
        let records = records(&mut random, &packed, length, self.rows);
        let arrays = Case { columns: columns.clone(), ..self.again(self.plan.clone()) };
        let mut plan = self.plan.clone();
        plan.sources.push(source(&schema.fields, &packed, length));
        packed.iter().for_each(|p| columns[p.number] = records.clone());
        Some((arrays, Case { columns, ..self.again(plan) }))
    }

    fn again(&self, plan: QueryPlan) -> Case {
        let lowered = lower_pipeline(&plan, 0).expect("the pipeline was lowered before").0.remove(0);
        let (columns, watermarks) = (self.columns.clone(), self.watermarks.clone());
        Case { plan, lowered, columns, rows: self.rows, watermarks }
    }
}

/// A column as it is in records, the width of its field, and its bytes.
fn bytes_of(field: &Field, column: &ArrayRef, most: usize) -> Option<(ArrayRef, usize, Vec<Vec<u8>>)> {
    if field.data_type.is_string() {
        let cut = |text: &str| {
            let end = (0..=most.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
            text[..end.unwrap_or(0)].to_string()
        };
        let texts: Vec<String> = column.as_string_view().iter().map(|text| cut(text.unwrap_or_default())).collect();
        let bytes = texts.iter().map(|text| text.clone().into_bytes()).collect();
        return Some((Arc::new(StringViewArray::from_iter_values(texts)), most, bytes));
    }
    let width = field.data_type.record_width()?;
    let data = column.to_data();
    let values = match field.data_type {
        DataType::Boolean => column.as_boolean().values().iter().map(|b| vec![b as u8]).collect(),
        DataType::Binary(_) => return None,
        _ => {
            let bytes = &data.buffers()[0][data.offset() * width..];
            bytes.chunks_exact(width).take(column.len()).map(<[u8]>::to_vec).collect()
        }
    };
    Some((column.clone(), width, values))
}

/// Records, with anything between their fields and behind the ends of texts.
fn records(random: &mut Random, packed: &[Packed], length: usize, rows: usize) -> ArrayRef {
    // Some records before the first row, so that the array is a slice.
    let skip = random.below(3) as usize;
    let mut bytes: Vec<u8> = (0..(skip + rows) * length).map(|_| random.bits() as u8).collect();
    for Packed { field, values, .. } in packed {
        for (record, value) in bytes.chunks_exact_mut(length).skip(skip).zip(values) {
            let place = &mut record[field.offset..field.offset + field.width];
            place[..value.len()].copy_from_slice(value);
            if let Some(end) = place.get_mut(value.len()) {
                *end = 0;
            }
        }
    }
    let all = FixedSizeBinaryArray::new(length as i32, Buffer::from_vec(bytes), None);
    Arc::new(all.slice(skip, rows))
}

fn source(fields: &[Field], packed: &[Packed], length: usize) -> SourcePlan {
    let column = |(number, field): (usize, &Field)| SourceColumn {
        name: field.name.clone(),
        origin: ColumnOrigin::Path(vec![number]),
        data_type: field.data_type.clone(),
        nullable: field.nullable,
        in_record: packed.iter().find(|p| p.number == number).map(|p| RecordPlace { length, field: p.field }),
    };
    let columns = fields.iter().enumerate().map(column).collect();
    SourcePlan { scan: ScanKind::Values(vec![]), columns, watermark: None, phase: 0 }
}
