//! Tables with lists, whose values are in logs until the table is sealed (`crate::list`), and with objects.

use super::Table;
use crate::object::{self, Change};
use crate::parts::Parts;
use millstream_abi::{Accumulator, ObjectKind, Slot};

impl Table {
    /// Updates the object at `accumulator`, component `component` of an entry, with the value of a row; `None` is NULL. Strings are copied.
    /// Of a sum of doubles the value is one that is far, and it is negated if the row is taken back.
    ///
    /// # Safety
    /// `accumulator` points to the component in an entry of this table; the slot holds a value of the component's
    /// argument type, and its string is alive.
    ///
    /// # Panics
    /// When the component is neither an object nor a sum of doubles, or cannot forget the value of a row that is taken back.
    pub unsafe fn update_object(
        &mut self,
        accumulator: *mut u8,
        component: usize,
        value: Option<Slot>,
        change: Change,
    ) {
        match (self.layout.accumulators[component], value) {
            ((Accumulator::Object(kind, _), _), value) if kind.is_list() => {
                let keeps_nulls = kind == ObjectKind::List { keeps_nulls: true };
                let number = self.layout.list_number(component);
                if let Some(lists) = self.lists.as_mut().filter(|_| keeps_nulls || value.is_some()) {
                    // SAFETY: promised by the caller.
                    unsafe { lists.push(number, accumulator, value.as_ref(), change.place()) };
                }
            }
            ((Accumulator::Object(kind, phys), _), _) => {
                // SAFETY: promised by the caller.
                let grown = unsafe { object::update(accumulator, kind, phys, value.as_ref(), change) };
                self.object_bytes = self.object_bytes.saturating_add_signed(grown);
            }
            ((Accumulator::SumF64, offset), Some(value)) => {
                // SAFETY: promised by the caller.
                unsafe { self.add_far(accumulator.wrapping_sub(offset), component, value, change) };
            }
            (other, _) => unreachable!("component {component} is {other:?}"),
        }
    }

    /// Gives it other entries.
    pub(super) fn set_parts(&mut self, parts: Parts) {
        self.parts = parts;
        self.show_logs();
    }

    /// Tells code where the logs are.
    pub(super) fn show_logs(&mut self) {
        if let Some(lists) = &mut self.lists {
            self.parts.header.logs = lists.heads();
        }
    }

    /// Makes the lists runs, so that entries can be read. Call it when no one holds a pointer into the table, and no program
    /// updates it any more.
    pub(crate) fn seal_lists(&mut self) {
        if let Some(mut lists) = self.lists.take() {
            let entries: Vec<*mut u8> = self.occupied().map(<*const u8>::cast_mut).collect();
            // SAFETY: all entries of the table.
            unsafe { lists.seal(&entries, &mut self.arena) };
            self.lists = Some(lists);
            self.show_logs();
        }
    }
}
