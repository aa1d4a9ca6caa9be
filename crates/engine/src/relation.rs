//! Queries that have been bound and can be run any number of times.

use crate::environment::{Description, Environment};
use crate::job::Job;
use crate::monitor::RunMonitor;
use millstream_sql::ParsedStatement;
use millstream_types::{Diagnostic, Schema};

/// A query with all that it needs: nothing that is defined, dropped or set in its session afterwards changes it.
///
/// ```no_run
/// # use millstream::{Session, SessionConfig};
/// # let session = Session::new(SessionConfig::default());
/// let statement = &session.parse("SELECT auction, price FROM bid WHERE price > 100")?[0];
/// let relation = session.relation(statement, &mut |_name| Ok(None))?;
/// let job = relation.submit()?;
/// # Ok::<(), millstream::Diagnostic>(())
/// ```
#[derive(Debug, Clone)]
pub struct Relation {
    /// What it was bound in.
    pub(crate) environment: Environment,
    pub(crate) statement: ParsedStatement,
    description: Description,
}

impl Relation {
    pub(crate) fn new(environment: Environment, statement: ParsedStatement) -> Result<Relation, Diagnostic> {
        let description = environment.describe(&statement)?;
        Ok(Relation { environment, statement, description })
    }

    /// Its columns.
    pub fn schema(&self) -> &Schema {
        &self.description.schema
    }

    /// The text of the query.
    pub fn text(&self) -> &str {
        &self.statement.text
    }

    /// Whether it reads a table that does not end by itself, and has no LIMIT.
    pub fn is_endless(&self) -> bool {
        self.description.is_endless
    }

    /// Whether it can run more than once: no table of it is a reader, which gives its rows once.
    pub fn is_repeatable(&self) -> bool {
        self.description.is_repeatable
    }

    /// Runs it in the background.
    pub fn submit(&self) -> Result<Job, Diagnostic> {
        self.environment.prepared(&self.statement, &mut |_| Ok(None))?.submit()
    }

    /// What EXPLAIN prints for it; with `codegen` what EXPLAIN CODEGEN does.
    pub fn explain(&self, codegen: bool) -> Result<String, Diagnostic> {
        self.environment.explanation(&self.statement.statement, codegen)
    }

    /// Its pipelines as a picture: SVG. With a monitor it is run, and the picture has what EXPLAIN ANALYZE says of each part.
    pub fn picture(&self, monitor: Option<&RunMonitor>) -> Result<String, Diagnostic> {
        self.environment.picture(&self.statement.statement, monitor)
    }

    /// Runs it and returns what EXPLAIN ANALYZE prints.
    pub fn analyze(&self, monitor: &RunMonitor) -> Result<String, Diagnostic> {
        self.environment.analysis(&self.statement.statement, monitor)
    }
}
