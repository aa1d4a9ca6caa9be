//! Calls of runtime functions, lane by lane.

use super::Machine;
use super::lanes::{Lane, Lanes, Selection, with_type};
use crate::program::{Call, Value};
use millstream_abi::{CallStatus, ErrorKind, Phys, Slot, Str};

impl Machine<'_> {
    /// Calls a function for every lane of the selection, up to the first that fails.
    ///
    /// # Safety
    /// The context's function context is valid; the arguments have the function's types, and strings are alive.
    pub(super) unsafe fn call(&mut self, call: &Call, selection: &Selection) {
        let Call { result, valid, function, ref arguments, site } = *call;
        let body = millstream_functions::address(function);
        let (mut results, mut valids) = (self.take(result), self.take(valid));
        let mut slots = vec![Slot::ZERO; arguments.len()];
        let mut failed = None;
        let flags = bool::slice_mut(&mut valids);
        selection.each(|lane| {
            if failed.is_some() {
                return;
            }
            for (slot, argument) in slots.iter_mut().zip(arguments) {
                *slot = slot_of(&self.registers[argument.0 as usize], lane);
            }
            let mut out = Slot::ZERO;
            // SAFETY: promised by the caller.
            let status = unsafe { body(self.context.functions, slots.as_ptr(), &mut out) };
            flags[lane] = status == CallStatus::Value as u32;
            if !flags[lane] {
                out = Slot::ZERO;
                if status != CallStatus::Null as u32 {
                    failed = Some(lane);
                }
            }
            store(&mut results, lane, &out);
        });
        self.put(result, results);
        self.put(valid, valids);
        if let Some(lane) = failed {
            self.fail(lane, ErrorKind::FunctionFailed, site);
        }
    }
}

/// The value of a lane as an argument or key.
pub(super) fn slot_of(lanes: &Lanes, lane: usize) -> Slot {
    match lanes {
        Lanes::Bool(v) => Slot::of([v[lane] as u8]),
        Lanes::I8(v) => Slot::of(v[lane].to_le_bytes()),
        Lanes::I16(v) => Slot::of(v[lane].to_le_bytes()),
        Lanes::I32(v) => Slot::of(v[lane].to_le_bytes()),
        Lanes::I64(v) => Slot::of(v[lane].to_le_bytes()),
        Lanes::I128(v) => Slot::of(v[lane].to_le_bytes()),
        Lanes::F32(v) => Slot::of(v[lane].to_le_bytes()),
        Lanes::F64(v) => Slot::of(v[lane].to_le_bytes()),
        Lanes::Str(v) => Slot(v[lane].bits().to_le_bytes()),
    }
}

/// Writes a function's result to a lane.
fn store(lanes: &mut Lanes, lane: usize, slot: &Slot) {
    match lanes {
        Lanes::Bool(v) => v[lane] = slot.0[0] != 0,
        Lanes::I8(v) => v[lane] = i8::from_le_bytes(slot.bytes()),
        Lanes::I16(v) => v[lane] = i16::from_le_bytes(slot.bytes()),
        Lanes::I32(v) => v[lane] = i32::from_le_bytes(slot.bytes()),
        Lanes::I64(v) => v[lane] = i64::from_le_bytes(slot.bytes()),
        Lanes::I128(v) => v[lane] = i128::from_le_bytes(slot.bytes()),
        Lanes::F32(v) => v[lane] = f32::from_le_bytes(slot.bytes()),
        Lanes::F64(v) => v[lane] = f64::from_le_bytes(slot.bytes()),
        Lanes::Str(v) => v[lane] = Str::from_bits(u128::from_le_bytes(slot.0)),
    }
}

impl Machine<'_> {
    /// Copies lanes from one register to another of its type.
    pub(super) fn copy(&mut self, to: Value, from: Value, selection: &Selection) {
        let phys: Phys = self.program.type_of(to);
        with_type!(phys, T => self.map::<T, T>(to, from, selection, |x| x));
    }
}
