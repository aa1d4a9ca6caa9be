//! Clusters, and how code of the program comes to their nodes: pickled by `millstream._portable`, which also makes it again there.

use crate::calls;
use crate::error::OrRaise;
use crate::session::Session;
use crate::thread_state::attached;
use millstream::cluster::{Cluster as _, Loader, Portable};
use millstream::{Diagnostic, SessionConfig, code};
use millstream_cluster::coordinator::{Addresses, Coordinator, StaticNodes};
use millstream_cluster::flight::{TlsPaths, Token};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// See `millstream.Cluster`, which has one.
#[pyclass(frozen, module = "millstream._core")]
pub(crate) struct Cluster(Arc<Coordinator>);

impl Cluster {
    /// The cluster as sessions have it.
    pub(crate) fn coordinator(&self) -> Arc<dyn millstream::cluster::Cluster> {
        Arc::clone(&self.0) as _
    }
}

#[pymethods]
impl Cluster {
    /// Of the nodes that `nodes` says, as `--cluster` does. Nobody is spoken to yet.
    #[new]
    #[allow(clippy::too_many_arguments, reason = "they are named on the other side")]
    fn new(
        py: Python<'_>,
        nodes: &str,
        listen: String,
        token: &str,
        tls: Option<(PathBuf, PathBuf, PathBuf)>,
        server_name: Option<String>,
        insecure: bool,
        replacement_timeout: f64,
        most: Option<usize>,
    ) -> PyResult<Cluster> {
        let config = || {
            Ok(StaticNodes {
                nodes: Addresses::parse(nodes)?,
                listen,
                tls: tls.map(|(ca, certificate, key)| TlsPaths { ca, certificate, key, server_name }),
                insecure,
                token: Token::new(token)?,
                replacement_timeout: Duration::try_from_secs_f64(replacement_timeout)
                    .map_err(|e| Diagnostic::new(code::INVALID_OPTION, format!("replacement_timeout: {e}")))?,
                most,
            })
        };
        Ok(Cluster(Arc::new(Coordinator::new(config().or_raise(py, None)?))))
    }

    /// Where the nodes of the run are that has begun last, this process first.
    fn members(&self) -> Vec<String> {
        self.0.members()
    }
}

const MODULE: &str = "millstream._portable";

/// A call of a method of `millstream.Session` that registers something: its name, its arguments, and those by name.
pub(crate) struct Registration {
    /// What is registered.
    pub(crate) name: String,
    pub(crate) call: Py<PyAny>,
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registration").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Portable for Registration {
    fn to_bytes(&self) -> Result<Vec<u8>, Diagnostic> {
        let dumped =
            attached(|py| -> PyResult<Vec<u8>> { py.import(MODULE)?.getattr("dump")?.call1((&self.call,))?.extract() });
        dumped.ok_or_else(|| Diagnostic::bug("the interpreter is going away"))?.map_err(|raised| {
            let message = format!("`{}` cannot be sent to other nodes: {raised}", self.name);
            Diagnostic::new(code::UNSUPPORTED, message).advise(
                "what it uses must be importable on all nodes, or such that pickle takes it; open connections and files inside of it",
            )
        })
    }
}

/// Makes code of Python programs on this node.
pub(crate) struct PythonLoader;

impl Loader for PythonLoader {
    fn load(&self, bytes: &[u8], session: &mut millstream::Session) -> Result<(), Diagnostic> {
        let lent = Session::of(std::mem::replace(session, millstream::Session::new(SessionConfig::default())));
        let loaded = attached(|py| {
            let lent = Bound::new(py, lent)?;
            let loaded = py.import(MODULE).and_then(|module| module.getattr("load")?.call1((&lent, bytes)));
            *session = lent.get().take(py);
            loaded.map(drop)
        });
        loaded.ok_or_else(|| Diagnostic::bug("the interpreter is going away"))?.map_err(|raised: PyErr| {
            Diagnostic::new(
                code::NODES_DIFFER,
                format!("what the program has registered cannot be made on this node: {raised}"),
            )
            .advise("install the same Python, packages and modules on all nodes")
        })
    }

    fn interrupt(&self, run: u64) {
        attached(|py| calls::cancel(py, run));
    }

    fn forget(&self, run: u64) {
        calls::forget(run);
    }
}
