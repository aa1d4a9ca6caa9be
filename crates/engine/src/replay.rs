//! A session like that of the first node, on another one: from the steps that have made it (`history`).

use crate::cluster::SessionStep;
use crate::local::LocalTable;
use crate::monitor::RunMonitor;
use crate::results::Collected;
use crate::session::{Session, SessionConfig};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema};
use millstream_sql::ParsedStatement;
use millstream_storage::{ByteReader, Damaged};
use millstream_types::{Diagnostic, code};

/// Makes what is code of a program on another node. It runs what it is given: give it nothing that did not come with the token of the cluster.
pub trait Loader: Send + Sync {
    /// Registers in the session what [`Portable::to_bytes`](crate::cluster::Portable::to_bytes) has given.
    ///
    /// # Errors
    /// When it cannot be made here.
    fn load(&self, bytes: &[u8], session: &mut Session) -> Result<(), Diagnostic>;

    /// Ends what such code does for a run that was cancelled ([`PartOfRun::number`](crate::cluster::PartOfRun::number)), if it can: is called
    /// until the run has ended.
    fn interrupt(&self, run: u64);

    /// The run has ended.
    fn forget(&self, run: u64);
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
                let batches = batches_of(batches).map_err(|Damaged(what)| {
                    Diagnostic::new(code::DAMAGED_FRAME, format!("the rows of `{name}` have arrived damaged: {what}"))
                })?;
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

/// The batches of [`SessionStep::Frame`]. Their columns have no names: a table has them by their order.
fn batches_of(bytes: &[u8]) -> Result<Vec<RecordBatch>, Damaged> {
    let mut from = ByteReader::new(bytes);
    let batch = |(columns, rows): (Vec<ArrayRef>, usize)| {
        let field = |(i, column): (usize, &ArrayRef)| Field::new(i.to_string(), column.data_type().clone(), true);
        let schema = Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let made = RecordBatch::try_new_with_options(schema.into(), columns, &options);
        made.map_err(|e| Damaged(format!("columns are no rows: {e}")))
    };
    let batches = (0..from.u64()?).map(|_| from.columns().and_then(batch)).collect::<Result<_, _>>()?;
    from.end()?;
    Ok(batches)
}

fn execute(session: &mut Session, statement: &ParsedStatement) -> Result<(), Diagnostic> {
    session.execute(statement, &mut Collected::new(), &RunMonitor::new()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, Distributed, FirstNode, RunPart, RunTask};
    use arrow_array::Int64Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use millstream_sql::{ParameterValue, Parameters};
    use std::sync::Arc;

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

    #[test]
    fn damaged_rows_are_refused() {
        let mut session = Session::new(SessionConfig::default());
        session.register("t", "x BIGINT", vec![batch(vec![1, 2])]).unwrap();
        let (steps, _) = sent(&session, "SELECT x FROM t").unwrap();
        let [SessionStep::Frame { name, columns, batches }] = &steps[..] else { panic!("it is one frame") };
        for at in 0..batches.len() {
            let (mut flipped, cut) = (batches.clone(), batches[..at].to_vec());
            flipped[at] ^= 1 << (at % 8);
            for batches in [flipped, cut] {
                let step = SessionStep::Frame { name: name.clone(), columns: columns.clone(), batches };
                let refused = session_of(&[step], &SessionConfig::default(), None).unwrap_err();
                assert_eq!(refused.code, code::DAMAGED_FRAME, "{at}");
            }
        }
    }
}
