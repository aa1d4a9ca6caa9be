//! Typed scalar expressions.
//!
//! The binder has already inserted every cast: the operands of an arithmetic operation or a comparison have the type
//! that the operation works in, so later stages never coerce.

use arrow_array::ArrayRef;
use millstream_abi::RuntimeFn;
use millstream_types::{DataType, Value};
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
    /// The comparison that is TRUE where this one is FALSE. Not for NaN, of which all but `<>` are FALSE.
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
}

/// A vectorised function: the fallback for functions without a native body.
///
/// Implementations are stateless; any worker may call any of them at any time.
pub trait VectorFunction: fmt::Debug + Send + Sync {
    /// Name as SQL knows it.
    fn name(&self) -> &str;

    /// Evaluates the function over columns of equal length `rows`, of the Arrow types of its arguments, into a column
    /// of the Arrow type of its result. An error message means that at least one row is bad; the caller then
    /// evaluates row by row to find which.
    fn evaluate(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef, String>;
}

/// A [`VectorFunction`] in an expression; compared by name.
#[derive(Debug, Clone)]
pub struct VectorCall(pub Arc<dyn VectorFunction>);

impl PartialEq for VectorCall {
    fn eq(&self, other: &VectorCall) -> bool {
        self.0.name() == other.0.name()
    }
}

/// The name of column `i` of what expressions make: they have no names, so their number is it.
pub fn column_name(i: usize) -> String {
    format!("column{i}")
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
        match &self.kind {
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
            | ExprKind::WindowStart(e, _) => vec![e],
            ExprKind::Arithmetic(_, a, b) | ExprKind::AddInterval(a, b) | ExprKind::Compare(_, a, b) => vec![a, b],
            ExprKind::And(es) | ExprKind::Or(es) | ExprKind::Call(_, es) | ExprKind::Vector(_, es) => {
                es.iter().collect()
            }
            ExprKind::Case(branches, otherwise) => {
                branches.iter().flat_map(|(c, v)| [c, v]).chain([&**otherwise]).collect()
            }
        }
    }

    /// Direct operands, in order, to change in place.
    pub fn children_mut(&mut self) -> Vec<&mut Expr> {
        match &mut self.kind {
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
            | ExprKind::WindowStart(e, _) => vec![e],
            ExprKind::Arithmetic(_, a, b) | ExprKind::AddInterval(a, b) | ExprKind::Compare(_, a, b) => vec![a, b],
            ExprKind::And(es) | ExprKind::Or(es) | ExprKind::Call(_, es) | ExprKind::Vector(_, es) => {
                es.iter_mut().collect()
            }
            ExprKind::Case(branches, otherwise) => {
                branches.iter_mut().flat_map(|(c, v)| [c, v]).chain([&mut **otherwise]).collect()
            }
        }
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
            let taken = std::mem::replace(child, Expr::boolean(false));
            *child = taken.rewrite(change);
        }
        change(self)
    }

    /// Replaces every input column by the expression of that position: what a projection below computes.
    #[must_use]
    pub fn substitute(self, columns: &[Expr]) -> Expr {
        self.rewrite(&mut |e| match e.kind {
            ExprKind::Column(i) => {
                let span = e.span;
                let mut replacement = columns[i].clone();
                if replacement.span == Span::default() {
                    replacement.span = span;
                }
                replacement
            }
            _ => e,
        })
    }
}
