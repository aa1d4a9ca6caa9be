//! Functions that the program gives to SQL.

use crate::portable::Portable;
use arrow_array::ArrayRef;
use millstream_plan::expr::VectorFunction;
use millstream_sql::NativeFunction;
use millstream_types::{DataType, Diagnostic, code};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Computes a column from columns of equal length. The last two arguments are the number of rows and of the run (0 for constants).
pub type Evaluate = dyn Fn(&[ArrayRef], usize, u64) -> Result<ArrayRef, String> + Send + Sync;

/// A scalar function over whole columns.
///
/// ```
/// # use millstream::{DataType, ScalarFunction, Session, SessionConfig};
/// use arrow_array::{Array, ArrayRef, Int64Array, cast::AsArray, types::Int64Type};
/// use std::sync::Arc;
///
/// let mut session = Session::new(SessionConfig::default());
/// let twice = |columns: &[ArrayRef], _rows: usize, _run: u64| -> Result<ArrayRef, String> {
///     let column = columns[0].as_primitive::<Int64Type>();
///     Ok(Arc::new(column.unary::<_, Int64Type>(|x| x.wrapping_mul(2))))
/// };
/// session.register_function(ScalarFunction::new("twice", DataType::BigInt, twice).with_parameters(vec![DataType::BigInt]))?;
/// let rows = session.query("SELECT twice(21)")?;
/// assert_eq!(rows.column(0).as_primitive::<Int64Type>().value(0), 42);
/// # Ok::<(), millstream::Diagnostic>(())
/// ```
pub struct ScalarFunction {
    name: String,
    version: Option<String>,
    parameters: Option<Vec<DataType>>,
    returns: DataType,
    is_deterministic: bool,
    is_cancelled: fn(u64) -> bool,
    portable: Option<Arc<dyn Portable>>,
    evaluate: Box<Evaluate>,
}

impl ScalarFunction {
    /// A deterministic function of this name that takes any arguments as they are. `evaluate` gives a column of the Arrow type of `returns`,
    /// of as many rows as it is told; NULLs may be in it. An error means that at least one row is bad: it is called again for parts of the
    /// rows, down to the bad ones. Where no row alone is bad, all are.
    pub fn new(
        name: impl Into<String>,
        returns: DataType,
        evaluate: impl Fn(&[ArrayRef], usize, u64) -> Result<ArrayRef, String> + Send + Sync + 'static,
    ) -> ScalarFunction {
        let (version, parameters) = (None, None);
        ScalarFunction {
            name: name.into(),
            version,
            parameters,
            returns,
            is_deterministic: true,
            is_cancelled: |_| false,
            portable: None,
            evaluate: Box::new(evaluate),
        }
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What makes it on another node, if anything does.
    pub(crate) fn portable(&self) -> Option<Arc<dyn Portable>> {
        self.portable.clone()
    }

    /// Says what makes it on another node of a cluster: without, it is in this process only.
    #[must_use]
    pub fn with_portable(mut self, portable: Arc<dyn Portable>) -> ScalarFunction {
        self.portable = Some(portable);
        self
    }

    /// Types of the parameters: arguments are cast to them, as SQL casts implicitly.
    #[must_use]
    pub fn with_parameters(mut self, parameters: Vec<DataType>) -> ScalarFunction {
        self.parameters = Some(parameters);
        self
    }

    /// A version: a job does not resume with another one where state depends on the function.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> ScalarFunction {
        self.version = Some(version.into());
        self
    }

    /// Says that it may give another value for the same arguments: keys, times and conditions of joins must not come from it.
    #[must_use]
    pub fn not_deterministic(mut self) -> ScalarFunction {
        self.is_deterministic = false;
        self
    }

    /// Says which runs are over for it: their errors are not looked into.
    #[must_use]
    pub fn with_cancellation(mut self, is_cancelled: fn(u64) -> bool) -> ScalarFunction {
        self.is_cancelled = is_cancelled;
        self
    }

    /// Registers it: it is another function than all that were registered before.
    pub(crate) fn registered(self) -> Result<NativeFunction, Diagnostic> {
        let ScalarFunction { name, version, parameters, returns, is_deterministic, is_cancelled, evaluate, .. } = self;
        check_name(&name)?;
        let (shown, registration) = (Registered::shown_name(&name, version), Registered::next());
        let function = Registered { name: shown, registration, is_deterministic, is_cancelled, evaluate };
        Ok(NativeFunction { name, parameters, returns, function: Arc::new(function) })
    }
}

/// Fails for what is no name of a function.
pub(crate) fn check_name(name: &str) -> Result<(), Diagnostic> {
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_') && !name.starts_with(|c: char| c.is_numeric());
    if name.is_empty() || !is_name {
        let message = format!("'{name}' is not a name of a function");
        return Err(Diagnostic::new(code::INVALID_OPTION, message).advise("use letters, digits and _"));
    }
    Ok(())
}

/// A function of the program as plans have it.
pub(crate) struct Registered {
    /// What plans and states know it by.
    pub(crate) name: String,
    pub(crate) registration: u64,
    pub(crate) is_deterministic: bool,
    pub(crate) is_cancelled: fn(u64) -> bool,
    pub(crate) evaluate: Box<Evaluate>,
}

impl Registered {
    /// What plans and states know a function by.
    pub(crate) fn shown_name(name: &str, version: Option<String>) -> String {
        version.map_or_else(|| name.to_string(), |version| format!("{name}@{version}"))
    }

    /// Tells a function from all that were registered before.
    pub(crate) fn next() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{}", self.name, self.registration)
    }
}

impl VectorFunction for Registered {
    fn name(&self) -> &str {
        &self.name
    }

    fn registration(&self) -> u64 {
        self.registration
    }

    fn is_deterministic(&self) -> bool {
        self.is_deterministic
    }

    fn is_cancelled(&self, run: u64) -> bool {
        (self.is_cancelled)(run)
    }

    fn evaluate(&self, arguments: &[ArrayRef], rows: usize, run: u64) -> Result<ArrayRef, String> {
        (self.evaluate)(arguments, rows, run)
    }
}
