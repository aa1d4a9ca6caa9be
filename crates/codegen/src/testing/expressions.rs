//! Random expressions of a wanted type over the columns of a schema, typed as the binder would.

use super::Random;
use millstream_abi::RuntimeFn;
use millstream_plan::expr::{ArithmeticOp, CompareOp, Expr, ExprKind};
use millstream_plan::window::Slicing;
use millstream_types::{DataType, Schema, Value};

/// Makes expressions over a schema.
#[derive(Debug)]
pub struct Expressions<'a> {
    random: &'a mut Random,
    schema: &'a Schema,
}

const ARITHMETIC: [ArithmeticOp; 5] =
    [ArithmeticOp::Add, ArithmeticOp::Subtract, ArithmeticOp::Multiply, ArithmeticOp::Divide, ArithmeticOp::Modulo];

const COMPARISONS: [CompareOp; 6] = [
    CompareOp::Equal,
    CompareOp::NotEqual,
    CompareOp::Less,
    CompareOp::LessEqual,
    CompareOp::Greater,
    CompareOp::GreaterEqual,
];

const NUMBERS: [DataType; 6] =
    [DataType::TinyInt, DataType::SmallInt, DataType::Int, DataType::BigInt, DataType::Float, DataType::Double];

impl<'a> Expressions<'a> {
    /// Expressions over the columns of `schema`.
    pub fn new(random: &'a mut Random, schema: &'a Schema) -> Expressions<'a> {
        Expressions { random, schema }
    }

    /// The randomness.
    pub fn random(&mut self) -> &mut Random {
        self.random
    }

    /// An expression of any type, nested at most `depth` deep.
    pub fn any(&mut self, depth: usize) -> Expr {
        let from_schema = self.random.below(self.schema.fields.len() as u64) as usize;
        let data_type = match self.random.below(3) {
            0 => DataType::Boolean,
            1 => self.random.pick(&NUMBERS).clone(),
            _ => self.schema.fields[from_schema].data_type.clone(),
        };
        self.of(&data_type, depth)
    }

    /// An expression of a type.
    pub fn of(&mut self, data_type: &DataType, depth: usize) -> Expr {
        if depth == 0 || self.random.chance(5) {
            return self.leaf(data_type);
        }
        if self.random.chance(6) {
            return self.case(data_type, depth - 1);
        }
        let depth = depth - 1;
        match data_type {
            DataType::Boolean => self.boolean(depth),
            t if t.is_integer() || t.is_floating() => self.number(t, depth),
            DataType::Decimal { .. } => self.decimal(data_type, depth),
            DataType::Varchar(_) if *data_type == DataType::STRING && self.random.chance(3) => {
                let from = self.random.pick(&[DataType::Boolean, DataType::Int, DataType::BigInt]).clone();
                self.of(&from, depth).cast_to(DataType::STRING)
            }
            DataType::Varchar(_) if *data_type == DataType::STRING && self.random.chance(2) => {
                let operand = self.of(&DataType::STRING, depth);
                let nullable = operand.nullable;
                Expr::new(ExprKind::Call(RuntimeFn::Upper, vec![operand]), DataType::STRING, nullable)
            }
            DataType::Timestamp(3) if self.random.chance(2) => {
                let operand = self.of(data_type, depth);
                let nullable = operand.nullable;
                let slicing = Slicing { size_ms: 100, offset_ms: self.random.below(100) as i64 };
                Expr::new(ExprKind::WindowStart(Box::new(operand), slicing), data_type.clone(), nullable)
            }
            DataType::Timestamp(_) | DataType::TimestampLtz(_) | DataType::Date | DataType::Time(_) => {
                let (time, interval) = (self.of(data_type, depth), self.of(&DataType::IntervalMilli, depth));
                let nullable = time.nullable || interval.nullable;
                Expr::new(ExprKind::AddInterval(Box::new(time), Box::new(interval)), data_type.clone(), nullable)
            }
            _ => self.leaf(data_type),
        }
    }

    /// A column of the type, or a constant.
    fn leaf(&mut self, data_type: &DataType) -> Expr {
        let fields = self.schema.fields.iter().enumerate();
        let columns: Vec<usize> = fields.filter(|(_, f)| f.data_type == *data_type).map(|(i, _)| i).collect();
        if !columns.is_empty() && !self.random.chance(4) {
            let column = *self.random.pick(&columns);
            return Expr::column(column, data_type.clone(), self.schema.fields[column].nullable);
        }
        if matches!(data_type, DataType::Timestamp(3) | DataType::TimestampLtz(3)) && self.random.chance(3) {
            return Expr::new(ExprKind::CurrentWatermark, data_type.clone(), true);
        }
        if self.random.chance(8) {
            return Expr::literal(Value::Null, data_type.clone());
        }
        Expr::literal(self.constant(data_type), data_type.clone())
    }

    fn constant(&mut self, data_type: &DataType) -> Value {
        match data_type {
            DataType::Null => Value::Null,
            DataType::Boolean => Value::Boolean(self.random.chance(2)),
            DataType::TinyInt => Value::Int(self.random.integer(8)),
            DataType::SmallInt => Value::Int(self.random.integer(16)),
            DataType::Int => Value::Int(self.random.integer(32)),
            DataType::BigInt => Value::Int(self.random.integer(64)),
            DataType::Float => Value::Float((self.random.float() as f32).into()),
            DataType::Double => Value::Float(self.random.float()),
            DataType::Decimal { precision, .. } => {
                let bound = 10i64.pow((*precision).min(18).into());
                Value::Decimal((self.random.integer(64) % bound).into())
            }
            DataType::Char(_) | DataType::Varchar(_) => Value::String(self.random.text()),
            DataType::Binary(_) | DataType::Varbinary(_) => Value::Bytes(self.random.text().into_bytes()),
            _ => Value::Int(self.random.below(2_000) as i64 - 1_000),
        }
    }

    fn case(&mut self, data_type: &DataType, depth: usize) -> Expr {
        let count = 1 + self.random.below(2);
        let branches: Vec<(Expr, Expr)> =
            (0..count).map(|_| (self.of(&DataType::Boolean, depth), self.of(data_type, depth))).collect();
        let otherwise = self.of(data_type, depth);
        let nullable = otherwise.nullable || branches.iter().any(|(_, value)| value.nullable);
        Expr::new(ExprKind::Case(branches, Box::new(otherwise)), data_type.clone(), nullable)
    }

    fn boolean(&mut self, depth: usize) -> Expr {
        let make = |kind, nullable| Expr::new(kind, DataType::Boolean, nullable);
        match self.random.below(8) {
            0 | 1 => {
                let count = 2 + self.random.below(2);
                let operands: Vec<Expr> = (0..count).map(|_| self.of(&DataType::Boolean, depth)).collect();
                let nullable = operands.iter().any(|e| e.nullable);
                let kind = if self.random.chance(2) { ExprKind::And(operands) } else { ExprKind::Or(operands) };
                make(kind, nullable)
            }
            2 => {
                let operand = self.of(&DataType::Boolean, depth);
                let nullable = operand.nullable;
                make(ExprKind::Not(Box::new(operand)), nullable)
            }
            3 => {
                let operand = Box::new(self.any(depth));
                make(
                    if self.random.chance(2) { ExprKind::IsNull(operand) } else { ExprKind::IsNotNull(operand) },
                    false,
                )
            }
            4 => {
                let operand = Box::new(self.of(&DataType::Boolean, depth));
                let truth = self.random.chance(2);
                make(ExprKind::IsBoolean(operand, truth), false)
            }
            5 => {
                let data_type = self.random.pick(&[DataType::Int, DataType::STRING, DataType::BigInt]).clone();
                let operand = self.of(&data_type, depth);
                let values = (0..1 + self.random.below(4)).map(|_| self.constant(&data_type)).collect();
                let nullable = operand.nullable;
                make(ExprKind::InList(Box::new(operand), values), nullable)
            }
            _ => {
                let left = self.any(depth);
                let right = self.of(&left.data_type.clone(), depth);
                let op = *self.random.pick(&COMPARISONS);
                let nullable = left.nullable || right.nullable;
                make(ExprKind::Compare(op, Box::new(left), Box::new(right)), nullable)
            }
        }
    }

    fn number(&mut self, data_type: &DataType, depth: usize) -> Expr {
        let make = |kind, nullable| Expr::new(kind, data_type.clone(), nullable);
        match self.random.below(8) {
            0 => {
                let operand = self.of(data_type, depth);
                let nullable = operand.nullable;
                make(ExprKind::Negate(Box::new(operand)), nullable)
            }
            1 | 2 => {
                let from = match self.random.below(3) {
                    0 if data_type.is_integer() => DataType::decimal(10, 2),
                    1 => DataType::Boolean,
                    _ => self.random.pick(&NUMBERS).clone(),
                };
                self.of(&from, depth).cast_to(data_type.clone())
            }
            3 if data_type.is_integer() && self.random.chance(2) => {
                let operand = Box::new(self.of(&DataType::STRING, depth));
                let fallible_to_null = self.random.chance(2);
                let nullable = operand.nullable || fallible_to_null;
                make(ExprKind::Cast { operand, fallible_to_null }, nullable)
            }
            3 if *data_type == DataType::Int => {
                let operand = self.of(&DataType::STRING, depth);
                let nullable = operand.nullable;
                make(ExprKind::Call(RuntimeFn::CharLength, vec![operand]), nullable)
            }
            _ => {
                let op = *self.random.pick(&ARITHMETIC);
                let (left, right) = (self.of(data_type, depth), self.of(data_type, depth));
                let nullable = left.nullable || right.nullable;
                make(ExprKind::Arithmetic(op, Box::new(left), Box::new(right)), nullable)
            }
        }
    }

    fn decimal(&mut self, data_type: &DataType, depth: usize) -> Expr {
        let operands = [DataType::decimal(10, 2), DataType::decimal(4, 0), DataType::decimal(18, 6)];
        if self.random.chance(3) {
            let from = self.random.pick(&[&operands[..], &NUMBERS[..4]].concat()).clone();
            let mut cast = self.of(&from, depth).cast_to(data_type.clone());
            cast.nullable = true;
            return cast;
        }
        let op = *self.random.pick(&ARITHMETIC);
        let (a, b) = (self.random.pick(&operands).clone(), self.random.pick(&operands).clone());
        let (left, right) = (self.of(&a, depth), self.of(&b, depth));
        Expr::new(ExprKind::Arithmetic(op, Box::new(left), Box::new(right)), data_type.clone(), true)
    }
}
