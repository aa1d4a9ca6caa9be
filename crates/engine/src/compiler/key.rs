//! What a piece of machine code depends on, as text: two programs with one text have the same code on the same machine.

use millstream_codegen::program::Program;
use millstream_jit::CompileOptions;
use millstream_types::Diagnostic;
use xxhash_rust::xxh3::xxh3_128;

/// The text and its hash. Compared by the whole text, so that no collision does harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CodeKey {
    hash: u128,
    text: String,
}

impl CodeKey {
    /// The key of a program compiled with options by this build for this machine. The program is written with every
    /// field of its type, so that whatever a program says distinguishes keys. Of places in the query only the number
    /// counts: code knows them by number, and a statement that moves down by a line keeps its code.
    pub(super) fn new(program: &Program, options: &CompileOptions) -> Result<CodeKey, Diagnostic> {
        let (identity, sites) = (millstream_jit::identity(options)?, program.sites.len());
        let program = Program { sites: Vec::new(), ..program.clone() };
        Ok(CodeKey::of(format!("{identity}\n{sites} sites\n{program:?}")))
    }

    pub(super) fn of(text: String) -> CodeKey {
        CodeKey { hash: xxh3_128(text.as_bytes()), text }
    }

    /// The hash as 32 hexadecimal digits.
    pub(super) fn digits(&self) -> String {
        format!("{:032x}", self.hash)
    }

    /// Whether it is one of every `number` keys, at random.
    pub(super) fn is_one_of(&self, number: u128) -> bool {
        self.hash.is_multiple_of(number)
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_codegen::program::{Emit, Op, Site, Statement, Terminal, Value};

    fn program(constant: f64, line: u32) -> Program {
        Program {
            name: "pipeline 0".into(),
            inputs: vec![],
            types: vec![],
            strings: vec![],
            sites: vec![Site { what: "x".into(), line, column: 1, length: 1 }],
            body: vec![Statement::Let(Value(0), Op::Float(constant.to_bits()))],
            terminal: Terminal::Emit(vec![Emit { name: "x".into(), value: Value(0), valid: None }]),
        }
    }

    #[test]
    fn keys_tell_programs_apart_but_not_their_places() {
        let key = |program: &Program| CodeKey::new(program, &CompileOptions::default()).unwrap();
        let one = key(&program(0.0, 1));
        assert_eq!(one, key(&program(0.0, 7)));
        assert_ne!(one, key(&program(-0.0, 1)), "constants differ by their bits");
        assert_ne!(one, key(&Program { sites: vec![], ..program(0.0, 1) }));
        assert_ne!(one, CodeKey::new(&program(0.0, 1), &CompileOptions::unoptimised()).unwrap());
    }
}
