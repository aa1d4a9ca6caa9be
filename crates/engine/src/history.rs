//! What has made a session what it is, so that another node makes one like it (`replay`).
//!
//! Statements go there as texts, and data frames as the columns that checkpoints have. What is code of the program goes as the bytes that [`Portable::to_bytes`]
//! gives: the engine does not look into them. Tables that a run does not read are declared only.

use crate::cluster::SessionStep;
use crate::memory::MemoryTables;
use crate::portable::{OtherNodes, Portable};
use millstream_sql::StatementText;
use millstream_storage::ByteWriter;
use millstream_types::{Diagnostic, code};
use std::sync::Arc;

/// The steps that have made a session what it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct History(Arc<Vec<Step>>);

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Statement(StatementText),
    /// A function of the program.
    Function {
        name: String,
        portable: Option<Arc<dyn Portable>>,
    },
    /// A table of the program, and its number.
    Table {
        name: String,
        columns: String,
        is_bounded: bool,
        number: u64,
    },
    /// A query of the program, of which the name is a view.
    View {
        name: String,
        history: History,
        query: StatementText,
    },
}

impl History {
    /// Adds the next step.
    pub(crate) fn note(&mut self, step: Step) {
        let steps = Arc::make_mut(&mut self.0);
        if let Step::Function { name: new, .. } = &step {
            // Of one that is replaced before anything can have used it nothing has to be told.
            let since = steps.iter().rposition(|step| matches!(step, Step::Statement(_) | Step::View { .. }));
            let mut place = 0..;
            steps.retain(|step| {
                let is_before = place.next() <= since;
                is_before || !matches!(step, Step::Function { name, .. } if name == new)
            });
        }
        steps.push(step);
    }

    /// What another node is told of it, for a run that reads the tables of these numbers.
    ///
    /// # Errors
    /// When something that the run needs is only in this process.
    pub(crate) fn told(&self, tables: &MemoryTables, read: &[u64]) -> Result<Vec<SessionStep>, Diagnostic> {
        self.0.iter().map(|step| step.told(tables, read)).collect()
    }
}

impl Step {
    fn told(&self, tables: &MemoryTables, read: &[u64]) -> Result<SessionStep, Diagnostic> {
        Ok(match self {
            Step::Statement(text) => SessionStep::Statement(text.clone()),
            Step::Function { name, portable } => match portable {
                Some(portable) => SessionStep::Object { name: name.clone(), bytes: portable.to_bytes()? },
                None => {
                    let advice = "say what makes it there (with_portable), or run without a cluster";
                    return Err(only_here(&format!("the function `{name}`"), advice));
                }
            },
            Step::Table { name, columns, is_bounded, number } => {
                let (name, columns) = (name.clone(), columns.clone());
                match tables.read(*number).filter(|_| read.contains(number)) {
                    None => SessionStep::Declared { name, columns, is_bounded: *is_bounded },
                    Some(table) => match table.on_other_nodes() {
                        OtherNodes::Nothing => {
                            let advice = "give the rows as a table in memory (pyarrow.Table, a data frame) or as a file that all nodes see, or \
                                          run without a cluster";
                            return Err(only_here(&format!("the table `{name}`"), advice));
                        }
                        OtherNodes::Object(portable) => SessionStep::Object { name, bytes: portable.to_bytes()? },
                        OtherNodes::Batches(batches) => {
                            let mut bytes = ByteWriter::new();
                            bytes.u64(batches.len() as u64);
                            batches.iter().for_each(|batch| bytes.columns(batch.columns(), batch.num_rows()));
                            SessionStep::Frame { name, columns, batches: bytes.into_bytes() }
                        }
                    },
                }
            }
            Step::View { name, history, query } => {
                let (name, query) = (name.clone(), query.clone());
                SessionStep::View { name, session: history.told(tables, read)?, query }
            }
        })
    }
}

fn only_here(what: &str, advice: &str) -> Diagnostic {
    Diagnostic::new(code::UNSUPPORTED, format!("{what} cannot be on other nodes: only this process has it"))
        .advise(advice)
}
