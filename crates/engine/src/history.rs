//! What has made a session what it is, and how another node makes one like it.
//!
//! Statements go there as texts, and data frames as Arrow streams. What is code of the program is made again by the program's [`Loader`]
//! there, from what [`Portable::to_bytes`] gives here: the engine does not look into it. Tables that a run does not read are declared only.

use crate::cluster::{Loader, Portable, SessionStep};
use crate::local::LocalTable;
use crate::memory::{MemoryTables, OtherNodes};
use crate::monitor::RunMonitor;
use crate::results::Collected;
use crate::session::{Session, SessionConfig};
use millstream_connectors::{batch_from_bytes, batch_to_bytes};
use millstream_sql::{ParsedStatement, StatementText};
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
                None => return Err(only_here(&format!("the function `{name}`"))),
            },
            Step::Table { name, columns, is_bounded, number } => {
                let (name, columns) = (name.clone(), columns.clone());
                match tables.read(*number).filter(|_| read.contains(number)) {
                    None => SessionStep::Declared { name, columns, is_bounded: *is_bounded },
                    Some(table) => match table.on_other_nodes() {
                        OtherNodes::Nothing => return Err(only_here(&format!("the table `{name}`"))),
                        OtherNodes::Object(portable) => SessionStep::Object { name, bytes: portable.to_bytes()? },
                        OtherNodes::Batches(batches) => {
                            let batches = batches.iter().map(batch_to_bytes).collect::<Result<_, _>>()?;
                            SessionStep::Frame { name, columns, batches }
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

fn only_here(what: &str) -> Diagnostic {
    Diagnostic::new(code::UNSUPPORTED, format!("{what} cannot be on other nodes: only this process has it"))
        .advise("give the rows as a table in memory (pyarrow.Table, a data frame) or as a file that all nodes see, or run without a cluster")
}

/// A session like the one that these are of.
///
/// # Errors
/// When one of them fails here.
pub(crate) fn session_of(
    steps: &[SessionStep],
    config: &SessionConfig,
    loader: Option<&dyn Loader>,
) -> Result<Session, Diagnostic> {
    let mut session = Session::new(config.clone());
    for step in steps {
        match step {
            SessionStep::Statement(text) => execute(&mut session, &text.parse()?)?,
            SessionStep::Object { name, bytes } => {
                let loader = loader.ok_or_else(|| {
                    Diagnostic::new(
                        code::NODES_DIFFER,
                        format!("`{name}` is of a Python program, and this node has no Python"),
                    )
                    .advise("start the node with the command of the Python package: python -m millstream node …")
                })?;
                loader.load(bytes, &mut session)?;
            }
            SessionStep::Frame { name, columns, batches } => {
                let batches = batches.iter().map(|bytes| batch_from_bytes(bytes)).collect::<Result<_, _>>()?;
                session.register(name, columns, batches)?;
            }
            SessionStep::Declared { name, columns, is_bounded } => session.declare(name, columns, *is_bounded)?,
            SessionStep::View { name, session: steps, query } => {
                let relation = session_of(steps, config, loader)?.relation(&query.parse()?, &mut |_| Ok(None))?;
                session.register_local(name, LocalTable::Query(Box::new(relation)))?;
            }
        }
    }
    Ok(session)
}

fn execute(session: &mut Session, statement: &ParsedStatement) -> Result<(), Diagnostic> {
    session.execute(statement, &mut Collected::new(), &RunMonitor::new()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, Distributed, FirstNode, RunPart, RunTask};
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{Int64Array, RecordBatch};
    use millstream_sql::{ParameterValue, Parameters};

    fn batch(values: Vec<i64>) -> RecordBatch {
        RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from(values)) as _)]).unwrap()
    }

    #[derive(Debug)]
    struct Nowhere;

    impl Cluster for Nowhere {
        fn begin(&self, _: &RunPart, _: &RunMonitor) -> Result<FirstNode, Diagnostic> {
            Err(Diagnostic::bug("nothing runs"))
        }

        fn resize(&self, _: Option<usize>) -> Result<(), Diagnostic> {
            Ok(())
        }

        fn members(&self) -> Vec<String> {
            vec![]
        }
    }

    /// What another node gets for a query.
    fn sent(session: &Session, query: &str) -> Result<(Vec<SessionStep>, RunTask), Diagnostic> {
        let mut session = session.snapshot();
        session.join_cluster(Arc::new(Nowhere));
        let run = session.plan_with(&session.parse(query)?[0], &mut |_| Ok(None))?;
        let Distributed { session, task, .. } = run.distributed.unwrap();
        Ok(serde_json::from_slice(&serde_json::to_vec(&(&*session, task)).unwrap()).unwrap())
    }

    fn rows(session: &mut Session, query: &str) -> Vec<i64> {
        let batch = session.query(query).unwrap();
        batch.column(0).as_primitive::<Int64Type>().values().to_vec()
    }

    #[test]
    fn another_node_makes_a_session_like_it() {
        let mut session = Session::new(SessionConfig::default());
        session.set("execution.runtime-mode", "batch").unwrap();
        session.register("t", "x BIGINT", vec![batch(vec![1, 2]), batch(vec![3])]).unwrap();
        session.register("unread", "x BIGINT", vec![batch(vec![4])]).unwrap();
        let parameters = Parameters::Positional(vec![ParameterValue::Number("1".into())]);
        let script =
            "CREATE VIEW above AS SELECT x FROM t WHERE x > ?; CREATE VIEW twice AS SELECT 2 * x AS y FROM above";
        for statement in session.parse_with(script, &parameters).unwrap() {
            session.execute(&statement, &mut Collected::new(), &RunMonitor::new()).unwrap();
        }
        let relation = session.relation(&session.parse("SELECT y + 1 AS z FROM twice").unwrap()[0], &mut |_| Ok(None));
        session.register_local("q", LocalTable::Query(Box::new(relation.unwrap()))).unwrap();
        // What is there now is not what the query was bound to.
        session.register("t", "x BIGINT", vec![batch(vec![9])]).unwrap();
        let expected = rows(&mut session, "SELECT z FROM q ORDER BY z");
        assert_eq!(expected, [5, 7]);
        let (steps, task) = sent(&session, "SELECT z FROM q UNION ALL SELECT x FROM t").unwrap();
        let mut other = session_of(&steps, &SessionConfig::default(), None).unwrap();
        assert_eq!(rows(&mut other, "SELECT z FROM q ORDER BY z"), expected);
        assert_eq!(rows(&mut other, "SELECT x FROM t"), [9]);
        let RunTask::Statement(text) = task else { panic!("it is a statement") };
        assert!(text.parse().unwrap().is_query());
        assert!(other.query("SELECT x FROM unread").is_err(), "it is declared only");
    }

    #[test]
    fn a_statement_is_the_second_half_of_another() {
        let text = "CREATE TABLE t WITH ('connector' = 'blackhole') AS SELECT 1 AS x";
        let statements = millstream_sql::parse_script(text).unwrap();
        let again = |number: usize| {
            let task = RunTask::Statement(statements[number].to_text());
            let sent: RunTask = serde_json::from_slice(&serde_json::to_vec(&task).unwrap()).unwrap();
            let RunTask::Statement(text) = sent else { panic!("it is a statement") };
            text.parse().unwrap()
        };
        assert_eq!(
            [again(0).statement, again(1).statement],
            [statements[0].statement.clone(), statements[1].statement.clone()]
        );
        assert!(again(1).is_insert());
    }

    #[test]
    fn what_is_only_here_is_refused() {
        let mut session = Session::new(SessionConfig::default());
        let reader = Box::new([Ok(batch(vec![1]))].into_iter());
        session.register_local("r", LocalTable::Reader { columns: "x BIGINT".into(), reader }).unwrap();
        assert!(sent(&session, "SELECT 1").is_ok(), "nothing reads it");
        let refused = sent(&session, "SELECT * FROM r").map(drop).unwrap_err();
        assert!(refused.code == code::UNSUPPORTED && refused.message.contains("`r`"), "{refused}");
        let step = SessionStep::Object { name: "f".into(), bytes: vec![1] };
        let refused = session_of(&[step], &SessionConfig::default(), None).unwrap_err();
        assert_eq!(refused.code, code::NODES_DIFFER);
    }
}
