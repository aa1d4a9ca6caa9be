//! From a [`RuntimeFn`] to the address of its body in the common signature.

use crate::context::{Failure, FunctionContext};
use crate::text::Text;
use crate::{casts, datetime, decimal, encoding, hash, json, like, math, random, regex, search, strings, url};
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

impl<'a> Argument<'a> for Text<'a> {
    unsafe fn read(slot: &'a Slot) -> Text<'a> {
        // SAFETY: as for texts; a slot is laid out like a `Str`.
        Text::over(unsafe { *(&raw const *slot).cast::<Str>() }, unsafe { Argument::read(slot) })
    }
}

/// A result as a body gives it.
trait Return {
    /// Writes the value, if any, and says what there is.
    fn write(self, context: &mut FunctionContext, out: &mut Slot) -> CallStatus;
}

macro_rules! plain {
    ($($ty:ty),*) => {$(
        impl<'a> Argument<'a> for $ty {
            unsafe fn read(slot: &'a Slot) -> $ty {
                <$ty>::from_le_bytes(slot.bytes())
            }
        }

        impl Return for $ty {
            fn write(self, _: &mut FunctionContext, out: &mut Slot) -> CallStatus {
                *out = Slot::of(self.to_le_bytes());
                CallStatus::Value
            }
        }
    )*};
}
plain!(i8, i16, i32, i64, i128, f32, f64);

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

/// A body: a function of the arguments, with the context before them if it uses it. `Signature` only tells the kinds of
/// functions apart.
trait Body<'a, Signature> {
    /// Calls the function and writes its result.
    ///
    /// # Safety
    /// `args` has as many slots as the function has arguments, with values of their types that live for `'a`.
    unsafe fn call(self, context: &mut FunctionContext, args: *const Slot, out: &mut Slot) -> CallStatus;
}

macro_rules! bodies {
    ($($argument:ident $index:literal),*) => {
        impl<'a, F, R: Return, $($argument: Argument<'a>),*> Body<'a, ($($argument,)*)> for F
        where
            F: FnOnce($($argument),*) -> R,
        {
            unsafe fn call(self, context: &mut FunctionContext, args: *const Slot, out: &mut Slot) -> CallStatus {
                let _ = args;
                // SAFETY: the caller promises as many arguments of these types.
                self($(unsafe { $argument::read(&*args.add($index)) }),*).write(context, out)
            }
        }

        impl<'a, F, R: Return, $($argument: Argument<'a>),*> Body<'a, (FunctionContext, $($argument,)*)> for F
        where
            F: FnOnce(&mut FunctionContext, $($argument),*) -> R,
        {
            unsafe fn call(self, context: &mut FunctionContext, args: *const Slot, out: &mut Slot) -> CallStatus {
                let _ = args;
                // SAFETY: the caller promises as many arguments of these types.
                self(context, $(unsafe { $argument::read(&*args.add($index)) }),*).write(context, out)
            }
        }
    };
}
bodies!();
bodies!(A 0);
bodies!(A 0, B 1);
bodies!(A 0, B 1, C 2);
bodies!(A 0, B 1, C 2, D 3);
bodies!(A 0, B 1, C 2, D 3, E 4);
bodies!(A 0, B 1, C 2, D 3, E 4, G 5);

/// What [`Body::call`] does, for a body that is known.
type Call = unsafe fn(&mut FunctionContext, *const Slot, &mut Slot) -> CallStatus;

/// Runs a body; a panic in it becomes a failure of the row, since nothing may unwind into generated code. Behind a pointer, so
/// that what catches the panic is compiled once and not for each of some 300 bodies.
///
/// # Safety
/// `context` is a `FunctionContext` and `out` a slot that nobody else uses during the call; `args` is as [`Body::call`]
/// has it.
unsafe fn run(call: Call, context: *mut c_void, args: *const Slot, out: *mut Slot) -> u32 {
    // SAFETY: the caller promises both.
    let (context, out) = unsafe { (&mut *context.cast::<FunctionContext>(), &mut *out) };
    // SAFETY: the caller promises the arguments.
    match catch_unwind(AssertUnwindSafe(|| unsafe { call(context, args, out) })) {
        Ok(status) => status as u32,
        Err(_) => {
            context.fail(Failure { code: millstream_types::code::BUG, message: "a built-in function panicked".into() });
            CallStatus::Error as u32
        }
    }
}

macro_rules! addresses {
    ($($(#[$doc:meta])* $function:ident = $name:literal ($($type:ident),*) -> $result:ident, $value:ident $domain:ident, $body:path;)*) => {
        /// Address of the body of a function.
        pub fn address(function: RuntimeFn) -> RuntimeFnPtr {
            match function {
                $(RuntimeFn::$function => {
                    unsafe extern "C" fn call(context: *mut c_void, args: *const Slot, out: *mut Slot) -> u32 {
                        // SAFETY: generated code and interpreter pass the task's `FunctionContext`, as many argument
                        // slots as the list says, of the types it says (the verifier has checked them), and a result slot.
                        unsafe { run(|context, args, out| $body.call(context, args, out), context, args, out) }
                    }
                    call as RuntimeFnPtr
                })*
            }
        }
    };
}
millstream_abi::runtime_functions!(addresses);
