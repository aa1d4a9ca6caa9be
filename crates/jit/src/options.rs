//! Choices of a compilation.

/// How a program is compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileOptions {
    /// How hard LLVM tries.
    pub optimization: Optimization,
    /// Width in bits of the vectors that LLVM prefers. 256 by default: wider ones lower the clock of many CPUs.
    pub vector_bits: u32,
}

/// How hard LLVM tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Optimization {
    /// Not at all: what the emitter wrote, for reading.
    None,
    /// The cheaper passes (`default<O1>`, without vectorisation).
    Less,
    /// All that pays in a few milliseconds (`default<O2>`).
    Full,
}

impl Default for CompileOptions {
    fn default() -> CompileOptions {
        CompileOptions { optimization: Optimization::Full, vector_bits: 256 }
    }
}

impl CompileOptions {
    /// No optimisation, for EXPLAIN of what the emitter wrote.
    pub fn unoptimised() -> CompileOptions {
        CompileOptions { optimization: Optimization::None, ..CompileOptions::default() }
    }
}
