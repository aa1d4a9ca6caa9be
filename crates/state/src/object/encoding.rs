//! Objects as bytes. Which kind it is and of which type its values are, is in the layout of the entry, so it is not in the
//! bytes.

use super::sketch::{Cardinality, Quantiles};
use super::{Exact, Folded, Object, Ordinal, Single, Values, Weights};
use millstream_abi::{ObjectKind, Phys};
use millstream_storage::{ByteReader, ByteWriter, Damaged};

impl Ordinal {
    /// Bytes that it is written as.
    pub const ENCODED_BYTES: usize = 24;

    /// Writes it.
    pub fn save(&self, out: &mut ByteWriter) {
        out.i64(self.watermark);
        out.u64(self.position);
        out.u32(self.split);
        out.u32(u32::from(self.input) << 16 | u32::from(self.pipeline));
    }

    /// Reads what [`Ordinal::save`] has written.
    ///
    /// # Errors
    /// When there are not enough bytes.
    pub fn restore(from: &mut ByteReader<'_>) -> Result<Ordinal, Damaged> {
        let (watermark, position, split, numbers) = (from.i64()?, from.u64()?, from.u32()?, from.u32()?);
        Ok(Ordinal { watermark, input: (numbers >> 16) as u16, split, position, pipeline: numbers as u16 })
    }
}

impl Object {
    /// Writes it.
    pub(crate) fn save(&self, out: &mut ByteWriter) {
        match self {
            Object::Single(kept) => {
                kept.at.save(out);
                kept.value.save(out);
            }
            Object::Cardinality(sketch) => sketch.save(out),
            Object::Quantiles(sketch) => sketch.save(out),
            Object::Folded(folded) => folded.save(out),
            Object::Exact(sum) => sum.save(out),
            Object::Weights(weights) => weights.save(out),
        }
    }

    /// Reads an object of a kind with values of a type, which are text if that is so.
    pub(crate) fn restore(
        kind: ObjectKind,
        phys: Phys,
        is_text: bool,
        from: &mut ByteReader<'_>,
    ) -> Result<Object, Damaged> {
        Ok(match kind {
            ObjectKind::List { .. } | ObjectKind::Bag | ObjectKind::Distinct => {
                unreachable!("a list is no object")
            }
            ObjectKind::First | ObjectKind::Last => {
                let (at, value) = (Ordinal::restore(from)?, Values::restore(phys, is_text, from)?);
                let count = value.len();
                Damaged::unless(count == 1, format_args!("there are {count} values where one should be"))?;
                Object::Single(Single { is_last: kind == ObjectKind::Last, at, value })
            }
            ObjectKind::Cardinality => Object::Cardinality(Cardinality::restore(from)?),
            ObjectKind::Quantiles => Object::Quantiles(Quantiles::restore(from)?),
            ObjectKind::Exact => Object::Exact(Box::new(Exact::restore(from)?)),
            ObjectKind::Weights => Object::Weights(Weights::restore(phys, is_text, from)?),
            ObjectKind::Fold { number, rows } => Object::Folded(Folded::restore(number, rows, from)?),
        })
    }
}

impl Values {
    /// Writes them.
    pub(crate) fn save(&self, out: &mut ByteWriter) {
        match self {
            Values::Words(words) => out.i64s(words),
            Values::Wides(wides) => {
                out.length(wides.len());
                wides.iter().for_each(|wide| out.raw(&wide.to_le_bytes()));
            }
            Values::Strings(bytes, ends) => {
                out.length(ends.len());
                ends.iter().for_each(|&end| out.length(end));
                out.bytes(bytes);
            }
        }
    }

    /// Reads values of a type.
    pub(crate) fn restore(phys: Phys, is_text: bool, from: &mut ByteReader<'_>) -> Result<Values, Damaged> {
        match Values::new(phys) {
            Values::Words(_) => Ok(Values::Words(from.i64s()?)),
            Values::Wides(_) => {
                let wides = from.count(16).and_then(|count| from.raw(count * 16))?.as_chunks().0;
                Ok(Values::Wides(wides.iter().map(|&wide| i128::from_le_bytes(wide)).collect()))
            }
            Values::Strings(..) => {
                let ends: Vec<usize> = from.i64s()?.into_iter().map(|end| end as usize).collect();
                let bytes = from.bytes()?;
                let are_whole = |text: &str| ends.iter().all(|&end| text.is_char_boundary(end));
                let is_right = !is_text || std::str::from_utf8(bytes).is_ok_and(are_whole);
                let are_all = ends.is_sorted() && ends.last().map_or(0, |&end| end) == bytes.len();
                Damaged::unless(is_right && are_all, "strings do not end where they should")?;
                Ok(Values::Strings(bytes.to_vec(), ends))
            }
        }
    }
}
