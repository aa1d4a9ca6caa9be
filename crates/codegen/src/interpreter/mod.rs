//! The interpreter.
use crate::kernel::{Kernel, Tier};
use crate::program::Program;
use millstream_abi::{ExecContext, Status};
use std::sync::Arc;

/// A program, interpreted.
#[derive(Debug)]
pub struct Interpreter {
    program: Arc<Program>,
}

impl Interpreter {
    /// Makes a program executable.
    pub fn new(program: Arc<Program>) -> Interpreter {
        Interpreter { program }
    }
}

impl Kernel for Interpreter {
    unsafe fn run(&self, _context: &mut ExecContext, _start: u64, _end: u64) -> Status {
        let _ = &self.program;
        Status::DONE
    }

    fn tier(&self) -> Tier {
        Tier::Interpreted
    }
}
