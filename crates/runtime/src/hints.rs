//! What runs have learned of programs, for the next run of the same program: it begins where the last one ended. Never rows,
//! results or partials; a hint that does not suit the data costs time, not rows.

use crate::adaptive::slice_facts::TableHints;
use crate::config::Adaptivity;
use millstream_codegen::program::Program;
use millstream_codegen::specialise::Choices;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Programs of which hints are kept: those that ran last.
const KEPT: usize = 256;
/// Of programs of more values, such as IN lists of thousands, nothing is kept: the programs themselves would take too much memory.
const MOST_VALUES: usize = 2_000;

/// See the module. A session has one for all of its runs.
#[derive(Debug, Default)]
pub struct Hints(Mutex<Programs>);

#[derive(Debug, Default)]
struct Programs {
    /// When each was used last, counted in uses, and what is known of it.
    known: HashMap<Program, (u64, Arc<Mutex<ProgramHints>>)>,
    uses: u64,
}

/// What is known of a program. Runs at the same time share it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramHints {
    /// What its variant was specialised for when a run with these settings ended.
    pub(crate) choices: Option<(Adaptivity, Choices)>,
    /// How long runs of it have taken together.
    pub(crate) spent: Duration,
    /// What the tables had that it updates.
    pub(crate) tables: TableHints,
}

impl Hints {
    /// Those of a program, wherever in its statement it stands: to be read, and to be changed for the next run.
    pub(crate) fn of(&self, program: &Program) -> Arc<Mutex<ProgramHints>> {
        if program.types.len() > MOST_VALUES {
            return Arc::default();
        }
        let mut programs = self.0.lock();
        programs.uses += 1;
        let uses = programs.uses;
        let entry = programs.known.entry(Program { sites: Vec::new(), ..program.clone() }).or_default();
        entry.0 = uses;
        let hints = Arc::clone(&entry.1);
        if programs.known.len() > KEPT {
            let oldest = programs.known.values().map(|(used, _)| *used).min();
            programs.known.retain(|_, (used, _)| Some(*used) != oldest);
        }
        hints
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_codegen::program::{Site, Terminal};

    fn program(name: &str, line: u32) -> Program {
        Program {
            name: name.into(),
            inputs: vec![],
            types: vec![],
            strings: vec![],
            sites: vec![Site { what: "x".into(), line, column: 1, length: 1 }],
            body: vec![],
            terminal: Terminal::Emit(vec![]),
        }
    }

    #[test]
    fn hints_are_of_a_program_wherever_it_stands_and_the_oldest_are_forgotten() {
        let (hints, choices) = (Hints::default(), Some((Adaptivity::default(), Choices::default())));
        for number in 0..KEPT {
            hints.of(&program(&number.to_string(), 1)).lock().choices = choices.clone();
        }
        assert_eq!(hints.of(&program("0", 7)).lock().choices, choices);
        hints.of(&program("one more", 1)).lock().choices = choices.clone();
        assert_eq!(hints.of(&program("0", 1)).lock().choices, choices, "it was used since");
        assert_eq!(*hints.of(&program("1", 1)).lock(), ProgramHints::default());
    }

    #[test]
    fn long_programs_are_not_kept() {
        let long = Program { types: vec![millstream_abi::Phys::I64; MOST_VALUES + 1], ..program("long", 1) };
        let hints = Hints::default();
        hints.of(&long).lock().spent = Duration::from_secs(1);
        assert_eq!(hints.of(&long).lock().spent, Duration::ZERO);
        assert!(hints.0.lock().known.is_empty());
    }
}
