//! Calls whose result is known beforehand: of constants alone, and of a column that mostly has one of a few values.
//!
//! A call of constants is made once, here. A call of constants and one column of strings becomes a comparison with each of the
//! few values, for which the result is a constant, and the call for any other value; so nothing is assumed that could break.
//! Only functions are called that cannot fail and have no effect. None of them looks at the settings of a session.

use super::{Constant, can_be_constant};
use crate::builder::Builder;
use crate::execute::{Flow, emit};
use crate::interpreter::Interpreter;
use crate::lower::{Lowered, OutputSource};
use crate::program::{Comparison, Emit, Op, Program, Site, Statement, Terminal, Value};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use millstream_abi::{Phys, RuntimeFn, Str};
use millstream_functions::{FunctionContext, FunctionSettings};
use millstream_types::DataType;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The values that a column of strings mostly has, each of at most [`Str::INLINE`] bytes.
pub type FewValues = Vec<Box<[u8]>>;

/// How many calls of a program could be answered from few values of a column, by column.
pub fn calls_of_one_column(program: &Program) -> BTreeMap<u32, usize> {
    let mut definitions = HashMap::new();
    program.body.iter().for_each(|statement| define(statement, &mut definitions));
    let mut calls = BTreeMap::new();
    program.body.iter().for_each(|statement| {
        each_call(statement, &mut |function, arguments| {
            let ops: Option<Vec<&Op>> = arguments.iter().map(|a| definitions.get(a).copied()).collect();
            if let Some(input) = ops.and_then(|ops| one_column(program, function, &ops)) {
                *calls.entry(input).or_default() += 1;
            }
        });
    });
    calls
}

fn define<'a>(statement: &'a Statement, definitions: &mut HashMap<Value, &'a Op>) {
    match statement {
        Statement::Let(value, op) => drop(definitions.insert(*value, op)),
        Statement::If { then, otherwise, .. } => {
            then.iter().chain(otherwise).for_each(|statement| define(statement, definitions));
        }
        _ => {}
    }
}

fn each_call(statement: &Statement, found: &mut dyn FnMut(RuntimeFn, &[Value])) {
    match statement {
        Statement::Call { function, arguments, .. } => found(*function, arguments),
        Statement::If { then, otherwise, .. } => {
            then.iter().chain(otherwise).for_each(|statement| each_call(statement, found));
        }
        _ => {}
    }
}

/// The column of strings that a call reads besides constants, if its result can be known.
fn one_column(program: &Program, function: RuntimeFn, arguments: &[&Op]) -> Option<u32> {
    if !is_known(function) {
        return None;
    }
    let mut columns = arguments.iter().filter(|op| !is_constant(op));
    match (columns.next(), columns.next()) {
        (Some(Op::Load(input)), None) => can_be_constant(program, *input, &Constant::Str([].into())).then_some(*input),
        _ => None,
    }
}

fn is_constant(op: &Op) -> bool {
    matches!(op, Op::Bool(_) | Op::Int(_) | Op::Float(_) | Op::Str(_))
}

/// Whether the function may be called beforehand, and its result be written into a program.
fn is_known(function: RuntimeFn) -> bool {
    let is_small = matches!(function.result(), Phys::Bool | Phys::I8 | Phys::I16 | Phys::I32 | Phys::I64);
    function.is_total() && function.is_pure() && is_small
}

/// The result of a call and its validity, where that is known: for all values of its arguments, or for few.
pub(super) fn known_call(
    builder: &mut Builder<(), ()>,
    program: &Program,
    few: &BTreeMap<u32, FewValues>,
    (function, arguments, site): (RuntimeFn, &[Value], u32),
) -> Option<(Value, Value)> {
    let ops: Vec<Op> = arguments.iter().map(|a| builder.definition(*a).cloned()).collect::<Option<_>>()?;
    if is_known(function) && ops.iter().all(is_constant) {
        let known = evaluate(builder, function, &ops)?;
        return Some(known.build(builder, function));
    }
    let input = one_column(program, function, &ops.iter().collect::<Vec<_>>())?;
    let values = few.get(&input).filter(|values| !values.is_empty())?;
    let known = values.iter().map(|value| {
        let text = builder.str(value);
        let text = builder.definition(text).cloned()?;
        let ops: Vec<Op> = ops.iter().map(|op| if is_constant(op) { op.clone() } else { text.clone() }).collect();
        evaluate(builder, function, &ops)
    });
    let known: Vec<Known> = known.collect::<Option<_>>()?;
    let view = builder.op(Op::LoadView(input), Phys::I128);
    let is_value = |value: &[u8], builder: &mut Builder<(), ()>| {
        let constant = builder.int(Str::new(value).bits() as i128, Phys::I128);
        builder.compare(Comparison::Eq, view, constant)
    };
    let matches: Vec<Value> = values.iter().map(|value| is_value(value, builder)).collect();
    let any = matches.iter().copied().reduce(|a, b| builder.or(a, b))?;
    builder.open();
    let (mut result, mut valid) = known.last()?.build(builder, function);
    for (matches, known) in matches.iter().zip(&known).rev().skip(1) {
        let (own_result, own_valid) = known.build(builder, function);
        result = builder.select(*matches, own_result, result);
        valid = builder.select(*matches, own_valid, valid);
    }
    let then = builder.close();
    builder.open();
    let called = builder.call(function, arguments, site);
    let otherwise = builder.close();
    match builder.branch(any, then, otherwise, &[(result, called.0), (valid, called.1)])[..] {
        [result, valid] => Some((result, valid)),
        _ => None,
    }
}

/// The result of a call.
enum Known {
    Null,
    Bool(bool),
    Int(i64),
}

impl Known {
    /// As constants of a program: the result, and its validity.
    fn build(&self, builder: &mut Builder<(), ()>, function: RuntimeFn) -> (Value, Value) {
        let result = match self {
            Known::Null => builder.default_of(function.result()),
            Known::Bool(b) => builder.bool(*b),
            Known::Int(n) => builder.int((*n).into(), function.result()),
        };
        (result, builder.bool(!matches!(self, Known::Null)))
    }
}

/// Calls a function with constants; `None` if that cannot be done.
fn evaluate(builder: &Builder<(), ()>, function: RuntimeFn, arguments: &[Op]) -> Option<Known> {
    let mut call = Builder::<(), ()>::new();
    let mut values = Vec::with_capacity(arguments.len());
    for (op, phys) in arguments.iter().zip(function.arguments()) {
        values.push(match op {
            Op::Str(index) => call.str(builder.string(*index)?),
            op => call.op(op.clone(), *phys),
        });
    }
    let site = call.site(Site { what: function.name().into(), line: 0, column: 0, length: 0 });
    let (result, valid) = call.call(function, &values, site);
    let output = match function.result() {
        Phys::Bool => DataType::Boolean,
        Phys::I8 => DataType::TinyInt,
        Phys::I16 => DataType::SmallInt,
        Phys::I32 => DataType::Int,
        _ => DataType::BigInt,
    };
    let emits = vec![Emit { name: "known".into(), value: result, valid: Some(valid) }];
    let program = call.finish("call of constants", Vec::new(), Terminal::Emit(emits));
    let kernel = Interpreter::new(Arc::new(program.clone()));
    let (outputs, output_types) = (vec![OutputSource::Emitted(0)], vec![output]);
    let lowered = Lowered { program, vectors: Vec::new(), outputs, output_types };
    let mut functions = FunctionContext::new(FunctionSettings::default());
    let emitted = emit(&lowered, &kernel, &[], 1, &[i64::MIN], &mut functions, &mut |_| Flow::Stop).ok()?;
    known(emitted.columns.first()?, function.result())
}

fn known(column: &ArrayRef, phys: Phys) -> Option<Known> {
    if column.len() != 1 {
        return None;
    }
    if column.is_null(0) {
        return Some(Known::Null);
    }
    Some(match phys {
        Phys::Bool => Known::Bool(column.as_boolean().value(0)),
        Phys::I8 => Known::Int(column.as_primitive::<Int8Type>().value(0).into()),
        Phys::I16 => Known::Int(column.as_primitive::<Int16Type>().value(0).into()),
        Phys::I32 => Known::Int(column.as_primitive::<Int32Type>().value(0).into()),
        Phys::I64 => Known::Int(column.as_primitive::<Int64Type>().value(0)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;
    use crate::program::{FilterShape, Input};
    use crate::specialise::{Choices, specialise};
    use crate::verify::verify;
    use arrow_array::StringViewArray;

    /// `SELECT POSITION('o' IN text) WHERE text LIKE 'g%'`
    fn lowered() -> Lowered {
        use Phys::{Bool, I32, Str};
        let call = |result, valid, function, arguments: &[u32]| Statement::Call {
            result: Value(result),
            valid: Value(valid),
            function,
            arguments: arguments.iter().map(|a| Value(*a)).collect(),
            site: 0,
        };
        let body = vec![
            Statement::Let(Value(0), Op::Load(0)),
            Statement::Let(Value(1), Op::Str(0)),
            call(2, 3, RuntimeFn::Like, &[0, 1]),
            Statement::Filter { condition: Value(2), counts_late: false, shape: FilterShape::Auto },
            Statement::Let(Value(4), Op::Str(1)),
            Statement::Let(Value(5), Op::Int(1)),
            call(6, 7, RuntimeFn::Position, &[4, 0, 5]),
        ];
        let program = Program {
            name: "pipeline 0".into(),
            inputs: vec![Input::array("text", Str, false)],
            types: vec![Str, Str, Bool, Bool, Str, I32, I32, Bool],
            strings: vec![b"g%".as_slice().into(), b"o".as_slice().into()],
            sites: vec![Site { what: "text".into(), line: 0, column: 0, length: 0 }],
            body,
            terminal: Terminal::Emit(vec![Emit { name: "at".into(), value: Value(6), valid: Some(Value(7)) }]),
        };
        let outputs = vec![OutputSource::Emitted(0)];
        Lowered { program, vectors: Vec::new(), outputs, output_types: vec![DataType::Int] }
    }

    fn run(lowered: &Lowered, kernel: &dyn Kernel, texts: &ArrayRef) -> Vec<Option<i32>> {
        let mut functions = FunctionContext::new(FunctionSettings::default());
        let columns = std::slice::from_ref(texts);
        let rows = texts.len();
        let emitted = emit(lowered, kernel, columns, rows, &[i64::MIN], &mut functions, &mut |_| Flow::Stop).unwrap();
        emitted.columns[0].as_primitive::<Int32Type>().iter().collect()
    }

    #[test]
    fn few_values_are_compared_and_others_are_called_for() {
        let lowered = lowered();
        assert_eq!(calls_of_one_column(&lowered.program), [(0, 2)].into());
        let texts = ["google", "go", "baidu", "gmail", "", "a text that is longer than a view holds", "gone"];
        let column: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
        let interpreter = |program: &Program| Interpreter::new(Arc::new(program.clone()));
        let expected = run(&lowered, &interpreter(&lowered.program), &column);
        assert_eq!(expected, [Some(2), Some(2), Some(0), Some(2)]);
        for few in [&["google", "baidu"][..], &["gmail"], &["", "go", "x"]] {
            let values = few.iter().map(|text| text.as_bytes().into()).collect();
            let choices = Choices { few: [(0, values)].into(), ..Choices::default() };
            assert!(!choices.is_generic() && !choices.assumes());
            let special = specialise(&lowered.program, &choices);
            assert_eq!(verify(&special), Ok(()), "{special}");
            let compares = special.has_op(|op| matches!(op, Op::LoadView(0)));
            assert!(compares, "{special}");
            assert_eq!(run(&lowered, &interpreter(&special), &column), expected, "{few:?}\n{special}");
        }
    }

    #[test]
    fn calls_of_a_constant_are_made_once() {
        let lowered = lowered();
        let constants = [(0, Constant::Str(b"google".as_slice().into()))].into();
        let special = specialise(&lowered.program, &Choices { constants, ..Choices::default() });
        assert_eq!(verify(&special), Ok(()), "{special}");
        let mut calls = 0;
        special.body.iter().for_each(|statement| each_call(statement, &mut |_, _| calls += 1));
        assert_eq!(calls, 0, "{special}");
        let column: ArrayRef = Arc::new(StringViewArray::from_iter_values(["google"; 3]));
        let kernel = Interpreter::new(Arc::new(special));
        assert_eq!(run(&lowered, &kernel, &column), [Some(2); 3]);
    }
}
