//! Aggregates of the last elements of a sequence: two stacks (design section 5, idea 6).
//!
//! ```text
//! oldest                                              newest
//! front: each merged with those after it in front  |  back: each by itself, and the sum of them
//!        └ top                                     |
//! ```
//!
//! The aggregate of all is the top of the front merged with the sum of the back. When the front is empty, the back
//! becomes the front, merged from its newest to its oldest. So an element costs a constant number of merges, and nothing
//! has to be subtracted.

use millstream_state::Slots;
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use std::collections::BTreeMap;

/// An element, or several that were merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Element {
    /// Its aggregates.
    pub(crate) slot: i64,
    /// Smallest time in it.
    pub(crate) first: i64,
    /// Largest time in it.
    pub(crate) last: i64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Fifo {
    front: Vec<Element>,
    back: Vec<Element>,
    sum: Option<Element>,
}

impl Element {
    fn widen(&mut self, other: Element) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }

    /// Writes it.
    pub(crate) fn save(&self, out: &mut ByteWriter) {
        [self.slot, self.first, self.last].iter().for_each(|&number| out.i64(number));
    }

    /// Reads what [`Element::save`] has written.
    pub(crate) fn restore(from: &mut ByteReader<'_>) -> Result<Element, Damaged> {
        Ok(Element { slot: from.i64()?, first: from.i64()?, last: from.i64()? })
    }
}

/// Writes elements with their number before them.
pub(crate) fn save_elements(elements: &[Element], out: &mut ByteWriter) {
    out.length(elements.len());
    elements.iter().for_each(|element| element.save(out));
}

/// Reads what [`save_elements`] has written.
pub(crate) fn restore_elements(from: &mut ByteReader<'_>) -> Result<Vec<Element>, Damaged> {
    (0..from.count(24)?).map(|_| Element::restore(from)).collect()
}

impl Fifo {
    /// Bytes of memory, without the slots.
    pub(crate) fn bytes(&self) -> usize {
        (self.front.capacity() + self.back.capacity()) * size_of::<Element>()
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.front.len() + self.back.len()
    }

    /// Smallest time from the oldest element on.
    pub(crate) fn oldest(&self) -> Option<i64> {
        self.front.last().or(self.back.first()).map(|e| e.first)
    }

    /// Adds an element, whose slot belongs to the sequence from now on.
    pub(crate) fn push(&mut self, element: Element, slots: &mut Slots) {
        match &mut self.sum {
            Some(sum) => {
                slots.merge_into(sum.slot, element.slot);
                sum.widen(element);
            }
            None => {
                let slot = slots.allocate();
                slots.copy(slot, element.slot);
                self.sum = Some(Element { slot, ..element });
            }
        }
        self.back.push(element);
    }

    /// Forgets the oldest element.
    pub(crate) fn pop(&mut self, slots: &mut Slots) {
        if self.front.is_empty() {
            while let Some(mut element) = self.back.pop() {
                if let Some(top) = self.front.last() {
                    slots.merge_into(element.slot, top.slot);
                    element.widen(*top);
                }
                self.front.push(element);
            }
            if let Some(sum) = self.sum.take() {
                slots.remove(sum.slot);
            }
        }
        if let Some(oldest) = self.front.pop() {
            slots.remove(oldest.slot);
        }
    }

    /// All elements merged, in a slot of the caller's; `None` when there is none.
    pub(crate) fn query(&self, slots: &mut Slots) -> Option<Element> {
        let (first, second) = match (self.front.last(), &self.sum) {
            (Some(top), sum) => (top, sum.as_ref()),
            (None, Some(sum)) => (sum, None),
            (None, None) => return None,
        };
        let mut all = Element { slot: slots.allocate(), ..*first };
        slots.copy(all.slot, first.slot);
        if let Some(second) = second {
            slots.merge_into(all.slot, second.slot);
            all.widen(*second);
        }
        Some(all)
    }

    /// The slots that belong to it.
    pub(crate) fn slots(&self) -> impl Iterator<Item = i64> + use<'_> {
        self.front.iter().chain(&self.back).chain(&self.sum).map(|element| element.slot)
    }

    /// The same with other slots.
    pub(crate) fn with_slots(mut self, slots: &BTreeMap<i64, i64>) -> Fifo {
        let elements = self.front.iter_mut().chain(&mut self.back).chain(&mut self.sum);
        elements.for_each(|element| element.slot = slots[&element.slot]);
        self
    }

    /// Writes it.
    pub(crate) fn save(&self, out: &mut ByteWriter) {
        save_elements(&self.front, out);
        save_elements(&self.back, out);
        self.sum.iter().for_each(|sum| sum.save(out));
    }

    /// Reads what [`Fifo::save`] has written.
    pub(crate) fn restore(from: &mut ByteReader<'_>) -> Result<Fifo, Damaged> {
        let (front, back) = (restore_elements(from)?, restore_elements(from)?);
        let sum = if back.is_empty() { None } else { Some(Element::restore(from)?) };
        Ok(Fifo { front, back, sum })
    }

    /// Forgets all elements.
    pub(crate) fn clear(&mut self, slots: &mut Slots) {
        for element in self.front.drain(..).chain(self.back.drain(..)).chain(self.sum.take()) {
            slots.remove(element.slot);
        }
    }
}
