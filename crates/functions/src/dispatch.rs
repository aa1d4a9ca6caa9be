//! From a [`RuntimeFn`] to the address of its body in the common signature.

use crate::context::{Failure, FunctionContext};
use crate::strings;
use millstream_abi::{CallStatus, RuntimeFn, RuntimeFnPtr, Slot, Str};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An argument as a body takes it.
trait Argument<'a>: Sized {
    /// Reads the value at the start of a slot.
    ///
    /// # Safety
    /// The slot holds a value of this type that lives for `'a`.
    unsafe fn read(slot: &'a Slot) -> Self;
}

macro_rules! plain_arguments {
    ($($ty:ty),*) => {$(
        impl<'a> Argument<'a> for $ty {
            unsafe fn read(slot: &'a Slot) -> $ty {
                <$ty>::from_le_bytes(slot.bytes())
            }
        }
    )*};
}
plain_arguments!(i8, i16, i32, i64, i128, f32, f64);

impl<'a> Argument<'a> for bool {
    unsafe fn read(slot: &'a Slot) -> bool {
        slot.0[0] != 0
    }
}

/// Strings are UTF-8 by construction: decoders check it, and every function keeps it.
impl<'a> Argument<'a> for &'a str {
    unsafe fn read(slot: &'a Slot) -> &'a str {
        // SAFETY: STRING values are checked to be UTF-8 where they enter the engine.
        unsafe { std::str::from_utf8_unchecked(Argument::read(slot)) }
    }
}

impl<'a> Argument<'a> for &'a [u8] {
    unsafe fn read(slot: &'a Slot) -> &'a [u8] {
        // SAFETY: a slot is laid out like a `Str` and at least as aligned; the caller promises that its bytes live.
        unsafe { (*(&raw const *slot).cast::<Str>()).as_bytes() }
    }
}

/// A result as a body gives it.
trait Return {
    /// Writes the value, if any, and says what there is.
    fn write(self, context: &mut FunctionContext, out: &mut Slot) -> CallStatus;
}

macro_rules! plain_returns {
    ($($ty:ty),*) => {$(
        impl Return for $ty {
            fn write(self, _: &mut FunctionContext, out: &mut Slot) -> CallStatus {
                *out = Slot::of(self.to_le_bytes());
                CallStatus::Value
            }
        }
    )*};
}
plain_returns!(i8, i16, i32, i64, i128, f32, f64);

impl Return for bool {
    fn write(self, _: &mut FunctionContext, out: &mut Slot) -> CallStatus {
        *out = Slot::of([self as u8]);
        CallStatus::Value
    }
}

/// A string that is in the arena already, or points into an argument.
impl Return for Str {
    fn write(self, _: &mut FunctionContext, out: &mut Slot) -> CallStatus {
        *out = Slot(self.bits().to_le_bytes());
        CallStatus::Value
    }
}

impl Return for String {
    fn write(self, context: &mut FunctionContext, out: &mut Slot) -> CallStatus {
        context.keep(self.as_bytes()).write(context, out)
    }
}

impl Return for Vec<u8> {
    fn write(self, context: &mut FunctionContext, out: &mut Slot) -> CallStatus {
        context.keep(&self).write(context, out)
    }
}

impl<T: Return> Return for Option<T> {
    fn write(self, context: &mut FunctionContext, out: &mut Slot) -> CallStatus {
        match self {
            Some(value) => value.write(context, out),
            None => CallStatus::Null,
        }
    }
}

impl<T: Return> Return for Result<T, Failure> {
    fn write(self, context: &mut FunctionContext, out: &mut Slot) -> CallStatus {
        match self {
            Ok(value) => value.write(context, out),
            Err(failure) => {
                context.fail(failure);
                CallStatus::Error
            }
        }
    }
}

/// Runs a body; a panic in it becomes a failure of the row, since nothing may unwind into generated code.
fn guarded(context: &mut FunctionContext, out: &mut Slot, body: impl FnOnce(&mut FunctionContext, &mut Slot) -> CallStatus) -> u32 {
    match catch_unwind(AssertUnwindSafe(|| body(context, out))) {
        Ok(status) => status as u32,
        Err(_) => {
            context.fail(Failure { code: millstream_types::code::BUG, message: "a built-in function panicked".into() });
            CallStatus::Error as u32
        }
    }
}

/// `wrap!(body, arity)`: an `extern "C"` function that reads the arguments, runs `body(context, …)`, writes the result.
macro_rules! wrap {
    ($body:path; $($index:literal),*) => {{
        unsafe extern "C" fn call(context: *mut c_void, args: *const Slot, out: *mut Slot) -> u32 {
            // SAFETY: generated code and interpreter pass the task's `FunctionContext`, as many argument slots as the
            // list in `abi` says, of the types it says, and a result slot.
            let (context, out) = unsafe { (&mut *context.cast::<FunctionContext>(), &mut *out) };
            let _ = args;
            guarded(context, out, |context, out| {
                // SAFETY: as above; the verifier has checked the types against the list.
                let result = $body(context, $(unsafe { Argument::read(&*args.add($index)) }),*);
                Return::write(result, context, out)
            })
        }
        call as RuntimeFnPtr
    }};
}

/// Address of the body of a function.
pub fn address(function: RuntimeFn) -> RuntimeFnPtr {
    match function {
        RuntimeFn::StrCompare => wrap!(strings::compare; 0, 1),
        RuntimeFn::Upper => wrap!(strings::upper; 0),
        RuntimeFn::CharLength => wrap!(strings::char_length; 0),
    }
}
