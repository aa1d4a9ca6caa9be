//! The single list of functions that row programs call out to.
//!
//! Each entry names the function, its argument types and its result type. The functions crate matches every variant
//! to a body (so a missing body does not compile), the interpreter and LLVM call it through the same signature, and
//! the verifier checks calls against the list. To add one, see `docs/how-to/add-a-function.md`.

use crate::Phys;
use std::ffi::c_void;

/// An argument or result: 16 bytes, the value in its natural size at the start (Bool a byte 0 or 1), the rest
/// undefined.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct Slot(pub [u8; 16]);

impl Slot {
    /// All zero.
    pub const ZERO: Slot = Slot([0; 16]);

    /// A slot that starts with the bytes of `value`, which has at most 16.
    #[inline]
    pub fn of<const N: usize>(bytes: [u8; N]) -> Slot {
        let mut slot = Slot::ZERO;
        slot.0[..N].copy_from_slice(&bytes);
        slot
    }

    /// The first `N` bytes.
    #[inline]
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.0[..N]);
        bytes
    }
}

/// What a runtime function returns.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStatus {
    /// `out` holds the value.
    Value = 0,
    /// The result is NULL.
    Null = 1,
    /// The row is bad; the reason is in the function context.
    Error = 2,
}

/// The signature of every runtime function: context, arguments (none of them NULL), result. Returns a [`CallStatus`].
/// Never unwinds. Strings in the result live in the function context's arena until the end of the task.
pub type RuntimeFnPtr = unsafe extern "C" fn(context: *mut c_void, args: *const Slot, out: *mut Slot) -> u32;

macro_rules! runtime_functions {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal ($($arg:ident),*) -> $result:ident;)*) => {
        /// A function that row programs call out to. Arguments are never NULL: lowering guards the call.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum RuntimeFn {
            $($(#[doc = $doc])* $variant,)*
        }

        impl RuntimeFn {
            /// Every function, in the order of the list.
            pub const ALL: &[RuntimeFn] = &[$(RuntimeFn::$variant),*];

            /// Name in printed row programs and as a symbol in generated code.
            pub const fn name(self) -> &'static str {
                match self { $(RuntimeFn::$variant => $name,)* }
            }

            /// Types of the arguments.
            pub const fn arguments(self) -> &'static [Phys] {
                match self { $(RuntimeFn::$variant => &[$(Phys::$arg),*],)* }
            }

            /// Type of the result.
            pub const fn result(self) -> Phys {
                match self { $(RuntimeFn::$variant => Phys::$result,)* }
            }
        }
    };
}

runtime_functions! {
    /// Byte order: -1, 0 or 1.
    StrCompare = "str_compare" (Str, Str) -> I32;
    /// `UPPER(s)`
    Upper = "upper" (Str) -> Str;
    /// `CHAR_LENGTH(s)` in code points.
    CharLength = "char_length" (Str) -> I32;
}
