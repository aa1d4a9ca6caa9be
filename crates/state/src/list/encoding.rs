//! Lists as bytes, each with all values of its runs. What a value is, is in the layout of the entry.

use super::{Element, List, PLACE_WORDS, Run, leaf};
use crate::arena::Arena;
use crate::object::{Ordinal, Values};
use millstream_abi::{Slot, Str};
use millstream_storage::{ByteReader, ByteWriter, Damaged};

impl List {
    /// Writes it; distinct values in ascending order.
    pub(crate) fn save(&mut self, out: &mut ByteWriter) {
        if self.element.is_distinct {
            self.sort();
            return self.values.save(out);
        }
        self.values.save(out);
        out.length(self.nulls.len());
        self.nulls.iter().for_each(|&null| out.length(null));
        self.ordinals.iter().for_each(|ordinal| ordinal.save(out));
    }
}

/// Reads a list, of text if that is so, as a run in an arena.
pub(crate) fn restore(
    element: Element,
    is_text: bool,
    from: &mut ByteReader<'_>,
    arena: &mut Arena,
) -> Result<Run, Damaged> {
    let values = Values::restore(element.phys, is_text, from)?;
    if element.is_distinct {
        let is_in_order = (1..values.len()).all(|i| values.compare(i - 1, &values, i).is_lt());
        Damaged::unless(is_in_order, "distinct values are not in order")?;
    }
    let nulls = if element.is_distinct { Vec::new() } else { from.i64s()? };
    let nulls: Vec<usize> = nulls.into_iter().map(|null| null as usize).collect();
    let are_values = nulls.is_sorted_by(|a, b| a < b) && nulls.last().is_none_or(|&null| null < values.len());
    Damaged::unless(are_values, "NULLs of a list are not among its values")?;
    Damaged::unless(element.is_placed || nulls.is_empty(), "there are NULLs in a bag")?;
    let mut words = Vec::with_capacity(values.len() * element.words());
    for i in 0..values.len() {
        let is_null = nulls.binary_search(&i).is_ok();
        let slot = match &values {
            Values::Words(_) => None,
            Values::Wides(wides) => Some(Slot(wides[i].to_le_bytes())),
            Values::Strings(..) => Some(Slot(Str::new(values.string(i)).bits().to_le_bytes())),
        };
        match &values {
            // They are written as they are in runs.
            Values::Words(values) if !is_null => words.push(values[i] as u64),
            // SAFETY: a value of the type, whose string is alive.
            _ => unsafe { element.push(slot.as_ref().filter(|_| !is_null), arena, &mut words) },
        }
        if element.is_placed {
            // Behind the values: where they are in the bytes.
            words.resize(words.len() + PLACE_WORDS, u64::from(is_null));
        }
    }
    if element.is_placed {
        let (value, all) = (element.value_words(), element.words());
        for place in words.chunks_exact_mut(all) {
            let (ordinal, is_null) = (Ordinal::restore(from)?, place[all - 1] != 0);
            let mut written = Vec::with_capacity(PLACE_WORDS);
            element.push_place(ordinal, is_null, &mut written);
            place[value..].copy_from_slice(&written);
        }
    }
    Ok(leaf(&words, element, arena))
}
