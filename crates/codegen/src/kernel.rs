//! What the runtime runs: a row program made executable by one of the two back ends.

use millstream_abi::{ExecContext, Status};
use std::fmt;

/// How a kernel executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tier {
    /// By the vectorised interpreter.
    Interpreted,
    /// As machine code.
    Compiled,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tier::Interpreted => "interpreted",
            Tier::Compiled => "compiled",
        })
    }
}

/// An executable row program. Stateless: any number of workers may run it at once, each with its own context.
pub trait Kernel: Send + Sync {
    /// Processes rows `start..end` of the context's input columns, in order of rows as far as effects go.
    ///
    /// A run appends to the outputs from `context.out_rows` on, or updates tables. How it ends is described at
    /// [`Status`].
    ///
    /// # Safety
    /// - `context.columns` holds one valid column of at least `end` rows for each input of the program, of its type;
    ///   columns whose input is not nullable have no NULL in `start..end`;
    /// - `context.outputs` has one column for each emitted column, with room for `end - start` more rows, and
    ///   `context.out_selection` likewise if the program has filters;
    /// - `context.watermarks` has `end` elements when `watermark_stride` is 1, else one;
    /// - `context.functions` is a valid `FunctionContext`, and for programs that update tables `find_slice`,
    ///   `insert_key`, `keep_string` and `update_object` belong to tables of the program's entry layout, and `groups` has `end` elements if the layout has an `Accumulator::Group`;
    /// - no other thread uses the context.
    unsafe fn run(&self, context: &mut ExecContext, start: u64, end: u64) -> Status;

    /// How it executes.
    fn tier(&self) -> Tier;
}
