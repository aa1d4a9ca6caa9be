//! Typed scalar expressions.
//!
//! The binder has already inserted every cast: the operands of an arithmetic operation or a comparison have the type
//! that the operation works in, so later stages never coerce.

use arrow_array::ArrayRef;
use millstream_abi::RuntimeFn;
use millstream_types::{DataType, Field, Value};
use std::fmt;
use std::sync::Arc;

/// A place in the SQL text: byte offsets are not kept, lines and columns (from 1) are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// Line, from 1; 0 when unknown.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Characters.
    pub length: u32,
}

/// An expression with its type.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// What it computes.
    pub kind: ExprKind,
    /// Type of the result.
    pub data_type: DataType,
    /// Whether the result can be NULL; `false` lets code generation drop null checks.
    pub nullable: bool,
    /// Where it stands in the SQL text, for run-time errors.
    pub span: Span,
}

/// What an expression computes. NULL in, NULL out, unless stated.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// Column of the input relation, by position.
    Column(usize),
    /// A constant of the expression's type.
    Literal(Value),
    /// A field of a ROW.
    Field(Box<Expr>, usize),
    /// Arithmetic. Operand types:
    /// - integers and floats: both operands and the result of the same type; integers wrap; integer division truncates
    ///   and fails on zero; modulo takes the sign of the dividend;
    /// - decimals: each operand of its own precision and scale; the result has the expression's (computed exactly, then
    ///   rounded half up to its scale, NULL when it does not fit its precision, as Flink does);
    /// - intervals: interval ± interval of the same type (as integers).
    Arithmetic(ArithmeticOp, Box<Expr>, Box<Expr>),
    /// `-x` of a number or interval; integers wrap.
    Negate(Box<Expr>),
    /// A timestamp, date or time plus an interval. DATE + INTERVAL DAY stays DATE; months clamp to the month's end.
    AddInterval(Box<Expr>, Box<Expr>),
    /// Comparison of two operands of the same type (same scale for decimals, strings of any length).
    Compare(CompareOp, Box<Expr>, Box<Expr>),
    /// Three-valued conjunction; at least two operands.
    And(Vec<Expr>),
    /// Three-valued disjunction; at least two operands.
    Or(Vec<Expr>),
    /// Three-valued negation.
    Not(Box<Expr>),
    /// `IS NULL`; never NULL itself.
    IsNull(Box<Expr>),
    /// `IS NOT NULL`; never NULL itself.
    IsNotNull(Box<Expr>),
    /// `IS TRUE` / `IS FALSE`; never NULL itself. (`IS NOT TRUE` is `NOT (… IS TRUE)`.)
    IsBoolean(Box<Expr>, bool),
    /// `CASE WHEN c THEN v … ELSE e END`, lazily; conditions are BOOLEAN, values have the expression's type.
    Case(Vec<(Expr, Expr)>, Box<Expr>),
    /// `x IN (constants)`; constants of the operand's type, none NULL.
    InList(Box<Expr>, Vec<Value>),
    /// A cast to the expression's type with Flink's rules. `TRY_CAST` gives NULL where `CAST` fails the row.
    Cast {
        /// Operand.
        operand: Box<Expr>,
        /// Whether this is TRY_CAST.
        fallible_to_null: bool,
    },
    /// A call of a function with a native body: fused into the loop. Argument types are those of the function.
    Call(RuntimeFn, Vec<Expr>),
    /// A call that is evaluated a buffer at a time before the fused loop.
    Vector(VectorCall, Vec<Expr>),
    /// Start of the tumbling window (or slice) of a time in milliseconds: a TIMESTAMP(3) or TIMESTAMP_LTZ(3).
    WindowStart(Box<Expr>, crate::window::Slicing),
    /// The watermark of the input before this row, a TIMESTAMP(3) or TIMESTAMP_LTZ(3); NULL before the first one.
    CurrentWatermark,
    /// `PROCTIME()`, a TIMESTAMP_LTZ(3): the processing time of the row. As a value it is the clock. As the time of a
    /// window, an OVER aggregate or a join it stands, once projections are inlined, where an event time would: a source
    /// whose pipelines need it as time has the watermark rule `ProcessingTime`.
    ProcessingTime,
}

/// Arithmetic operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArithmeticOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`, MOD
    Modulo,
}

/// Comparison operators. Floats compare as numbers, NaN equal to nothing; booleans FALSE < TRUE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
}

impl CompareOp {
    /// The comparison that is TRUE where this one is FALSE. Not for NaN, where all but `<>` are FALSE.
    #[must_use]
    pub fn negated(self) -> CompareOp {
        match self {
            CompareOp::Equal => CompareOp::NotEqual,
            CompareOp::NotEqual => CompareOp::Equal,
            CompareOp::Less => CompareOp::GreaterEqual,
            CompareOp::LessEqual => CompareOp::Greater,
            CompareOp::Greater => CompareOp::LessEqual,
            CompareOp::GreaterEqual => CompareOp::Less,
        }
    }

    /// The comparison with its operands exchanged.
    #[must_use]
    pub fn mirrored(self) -> CompareOp {
        match self {
            CompareOp::Less => CompareOp::Greater,
            CompareOp::LessEqual => CompareOp::GreaterEqual,
            CompareOp::Greater => CompareOp::Less,
            CompareOp::GreaterEqual => CompareOp::LessEqual,
            CompareOp::Equal | CompareOp::NotEqual => self,
        }
    }
}

/// A vectorised function: the fallback for functions without a native body.
///
/// Implementations are stateless; any worker may call any of them at any time.
pub trait VectorFunction: fmt::Debug + Send + Sync {
    /// Name as SQL knows it, with the version if it has one: what plans and states know it by.
    fn name(&self) -> &str;

    /// Tells functions of one name apart: 0 for those of the engine, else the number of a registration, unique in the process.
    fn registration(&self) -> u64 {
        0
    }

    /// Whether it gives the same value for the same arguments, always.
    fn is_deterministic(&self) -> bool {
        true
    }

    /// Whether a run is over for the function, so that an error of it says nothing of rows: asked after each.
    fn is_cancelled(&self, run: u64) -> bool {
        let _ = run;
        false
    }

    /// Evaluates the function over columns of equal length `rows`, of the Arrow types of its arguments, into a column
    /// of the Arrow type of its result. An error message means that at least one row is bad; the caller then
    /// evaluates parts of the rows to find which. `run` is the number of the run that calls, 0 for constants.
    fn evaluate(&self, arguments: &[ArrayRef], rows: usize, run: u64) -> Result<ArrayRef, String>;
}

/// A [`VectorFunction`] in an expression; compared by name and registration.
#[derive(Debug, Clone)]
pub struct VectorCall(pub Arc<dyn VectorFunction>);

impl PartialEq for VectorCall {
    fn eq(&self, other: &VectorCall) -> bool {
        self.0.name() == other.0.name() && self.0.registration() == other.0.registration()
    }
}

/// The name of column `i` of what expressions make: they have no names, so their number is it.
pub fn column_name(i: usize) -> String {
    format!("column{i}")
}

/// The direct operands of a kind of expression, in order.
macro_rules! operands {
    ($kind:expr, $each:ident, $inner:ident) => {
        match $kind {
            ExprKind::Column(_) | ExprKind::Literal(_) | ExprKind::CurrentWatermark | ExprKind::ProcessingTime => {
                vec![]
            }
            ExprKind::Field(e, _)
            | ExprKind::Negate(e)
            | ExprKind::Not(e)
            | ExprKind::IsNull(e)
            | ExprKind::IsNotNull(e)
            | ExprKind::IsBoolean(e, _)
            | ExprKind::InList(e, _)
            | ExprKind::Cast { operand: e, .. }
            | ExprKind::WindowStart(e, _) => vec![e.$inner()],
            ExprKind::Arithmetic(_, a, b) | ExprKind::AddInterval(a, b) | ExprKind::Compare(_, a, b) => {
                vec![a.$inner(), b.$inner()]
            }
            ExprKind::And(es) | ExprKind::Or(es) | ExprKind::Call(_, es) | ExprKind::Vector(_, es) => {
                es.$each().collect()
            }
            ExprKind::Case(branches, otherwise) => {
                branches.$each().flat_map(|(c, v)| [c, v]).chain([otherwise.$inner()]).collect()
            }
        }
    };
}

impl Expr {
    /// An expression without a place in the text.
    pub fn new(kind: ExprKind, data_type: DataType, nullable: bool) -> Expr {
        Expr { kind, data_type, nullable, span: Span::default() }
    }

    /// The same expression, placed.
    #[must_use]
    pub fn at(mut self, span: Span) -> Expr {
        self.span = span;
        self
    }

    /// Column `index` of the input.
    pub fn column(index: usize, data_type: DataType, nullable: bool) -> Expr {
        Expr::new(ExprKind::Column(index), data_type, nullable)
    }

    /// A constant.
    pub fn literal(value: Value, data_type: DataType) -> Expr {
        let nullable = value == Value::Null;
        Expr::new(ExprKind::Literal(value), data_type, nullable)
    }

    /// A BOOLEAN constant.
    pub fn boolean(value: bool) -> Expr {
        Expr::literal(Value::Boolean(value), DataType::Boolean)
    }

    /// NULL of a type.
    pub fn null(data_type: DataType) -> Expr {
        Expr::literal(Value::Null, data_type)
    }

    /// `left op right` in the type of the left.
    pub fn arithmetic(op: ArithmeticOp, left: Expr, right: Expr) -> Expr {
        let (data_type, nullable) = (left.data_type.clone(), left.nullable || right.nullable);
        Expr::new(ExprKind::Arithmetic(op, Box::new(left), Box::new(right)), data_type, nullable)
    }

    /// `left op right`
    pub fn compare(op: CompareOp, left: Expr, right: Expr) -> Expr {
        let nullable = left.nullable || right.nullable;
        Expr::new(ExprKind::Compare(op, Box::new(left), Box::new(right)), DataType::Boolean, nullable)
    }

    /// The conjunction of two or more conditions.
    pub fn all(conditions: Vec<Expr>) -> Expr {
        let nullable = conditions.iter().any(|e| e.nullable);
        Expr::new(ExprKind::And(conditions), DataType::Boolean, nullable)
    }

    /// This value if the condition is TRUE, else NULL.
    #[must_use]
    pub fn only_if(self, condition: Expr) -> Expr {
        let (data_type, null, span) = (self.data_type.clone(), Expr::null(self.data_type.clone()), self.span);
        Expr::new(ExprKind::Case(vec![(condition, self)], Box::new(null)), data_type, true).at(span)
    }

    /// `self IS NOT NULL`
    #[must_use]
    pub fn not_null(self) -> Expr {
        Expr::new(ExprKind::IsNotNull(Box::new(self)), DataType::Boolean, false)
    }

    /// This time, plus milliseconds.
    #[must_use]
    pub fn plus_ms(self, ms: i64) -> Expr {
        let (data_type, nullable) = (self.data_type.clone(), self.nullable);
        let interval = Expr::literal(Value::Int(ms), DataType::IntervalMilli);
        Expr::new(ExprKind::AddInterval(Box::new(self), Box::new(interval)), data_type, nullable)
    }

    /// The column that it is under a name.
    pub fn field(&self, name: impl Into<String>) -> Field {
        Field::new(name, self.data_type.clone(), self.nullable)
    }

    /// The same without places in the text: equal for equal computations.
    #[must_use]
    pub fn unplaced(self) -> Expr {
        self.rewrite(&mut |e| e.at(Span::default()))
    }

    /// How many nodes it has.
    pub fn size(&self) -> usize {
        let mut nodes = 0;
        self.walk(&mut |_| nodes += 1);
        nodes
    }

    /// Whether it calls nothing that gives another value each time.
    pub fn is_deterministic(&self) -> bool {
        let mut deterministic = true;
        self.walk(&mut |e| {
            deterministic &= match &e.kind {
                ExprKind::Call(function, _) => function.is_deterministic(),
                ExprKind::Vector(function, _) => function.0.is_deterministic(),
                _ => true,
            }
        });
        deterministic
    }

    /// The name of a registered function within it that gives another value each time.
    pub fn unstable_function(&self) -> Option<String> {
        let mut found = None;
        self.walk(&mut |e| {
            if let ExprKind::Vector(function, _) = &e.kind
                && !function.0.is_deterministic()
            {
                found.get_or_insert_with(|| function.0.name().to_string());
            }
        });
        found
    }

    /// Takes the expression out of a place where another one is put.
    #[must_use]
    pub fn take(&mut self) -> Expr {
        std::mem::replace(self, Expr::boolean(false))
    }

    /// `self` cast to `data_type`, or `self` when it has that type already.
    #[must_use]
    pub fn cast_to(self, data_type: DataType) -> Expr {
        if self.data_type == data_type {
            return self;
        }
        let (nullable, span) = (self.nullable, self.span);
        Expr::new(ExprKind::Cast { operand: Box::new(self), fallible_to_null: false }, data_type, nullable).at(span)
    }

    /// Direct operands, in order.
    pub fn children(&self) -> Vec<&Expr> {
        operands!(&self.kind, iter, as_ref)
    }

    /// Direct operands, in order, to change in place.
    pub fn children_mut(&mut self) -> Vec<&mut Expr> {
        operands!(&mut self.kind, iter_mut, as_mut)
    }

    /// Calls `visit` on this expression and everything below it, parents first.
    pub fn walk(&self, visit: &mut impl FnMut(&Expr)) {
        visit(self);
        for child in self.children() {
            child.walk(visit);
        }
    }

    /// Rewrites from the leaves up.
    #[must_use]
    pub fn rewrite(mut self, change: &mut impl FnMut(Expr) -> Expr) -> Expr {
        for child in self.children_mut() {
            *child = child.take().rewrite(change);
        }
        change(self)
    }

    /// Calls `visit` with every input column that it uses.
    pub fn each_column(&self, mut visit: impl FnMut(usize)) {
        self.walk(&mut |e| {
            if let ExprKind::Column(i) = e.kind {
                visit(i);
            }
        });
    }

    /// The same over an input whose columns have other positions.
    #[must_use]
    pub fn renumbered(self, position: impl Fn(usize) -> usize) -> Expr {
        self.rewrite(&mut |mut e| {
            if let ExprKind::Column(i) = &mut e.kind {
                *i = position(*i);
            }
            e
        })
    }

    /// Replaces every input column by the expression of that position: what a projection below computes.
    #[must_use]
    pub fn substitute(self, columns: &[Expr]) -> Expr {
        self.rewrite(&mut |e| match e.kind {
            ExprKind::Column(i) if columns[i].span == Span::default() => columns[i].clone().at(e.span),
            ExprKind::Column(i) => columns[i].clone(),
            _ => e,
        })
    }
}
