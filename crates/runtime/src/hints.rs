//! What runs have learned of programs, for the next run of the same program: it begins where the last one ended. Never rows,
//! results or partials; a hint that does not suit the data costs time, not rows.

use crate::adaptive::slice_facts::TableHints;
use crate::config::Adaptivity;
use millstream_codegen::program::Program;
use millstream_codegen::specialise::Choices;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

/// Programs of which hints are kept: those that ran last.
const KEPT: usize = 256;

/// See the module. A session has one for all of its runs.
#[derive(Debug, Default)]
pub struct Hints(Mutex<Programs>);

#[derive(Debug, Default)]
struct Programs {
    known: HashMap<Program, Entry>,
    uses: u64,
}

#[derive(Debug, Default)]
struct Entry {
    hints: ProgramHints,
    used: u64,
}

/// What is known of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProgramHints {
    /// What its variant was specialised for when a run with these settings ended.
    pub(crate) choices: Option<(Adaptivity, Choices)>,
    /// How long runs of it have taken together.
    pub(crate) spent: Duration,
    /// What the tables had that it updates.
    pub(crate) tables: TableHints,
}

impl Hints {
    /// Of a program, wherever in its statement it stands.
    pub(crate) fn of(&self, program: &Program) -> ProgramHints {
        let mut programs = self.0.lock();
        programs.uses += 1;
        let uses = programs.uses;
        let known = programs.known.get_mut(&without_places(program));
        known.map_or_else(ProgramHints::default, |known| {
            known.used = uses;
            known.hints.clone()
        })
    }

    /// Notes something for the next run of a program.
    pub(crate) fn note(&self, program: &Program, change: impl FnOnce(&mut ProgramHints)) {
        let mut programs = self.0.lock();
        programs.uses += 1;
        let uses = programs.uses;
        let known = programs.known.entry(without_places(program)).or_default();
        known.used = uses;
        change(&mut known.hints);
        if programs.known.len() > KEPT {
            let oldest = programs.known.values().map(|known| known.used).min();
            programs.known.retain(|_, known| Some(known.used) != oldest);
        }
    }
}

fn without_places(program: &Program) -> Program {
    Program { sites: Vec::new(), ..program.clone() }
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
            hints.note(&program(&number.to_string(), 1), |known| known.choices = choices.clone());
        }
        assert_eq!(hints.of(&program("0", 7)).choices, choices);
        hints.note(&program("one more", 1), |known| known.choices = choices.clone());
        assert_eq!(hints.of(&program("0", 1)).choices, choices, "it was used since");
        assert_eq!(hints.of(&program("1", 1)), ProgramHints::default());
    }
}
