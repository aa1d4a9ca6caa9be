//! Calls whose result is known beforehand: of constants alone, and of a column that mostly has one of a few values.
//!
//! A call of constants is made once, here. A call of constants and one column of strings becomes a comparison with each of the
//! few values, for which the result is a constant, and the call for any other value; so nothing is assumed that could break.
//! Only functions are called that cannot fail and have no effect. None of them looks at the settings of a session.

use super::{Constant, can_be_constant};
use crate::builder::Builder;
use crate::interpreter::update::dense_key;
use crate::program::{Call, Comparison, Op, Program, Statement, Value};
use millstream_abi::{CallStatus, Phys, RuntimeFn, Slot, Str};
use millstream_functions::{FunctionContext, FunctionSettings};
use std::collections::{BTreeMap, HashMap};

/// The values that a column of strings mostly has, each of at most [`Str::INLINE`] bytes.
pub type FewValues = Vec<Box<[u8]>>;

/// How many calls of a program could be answered from few values of a column, by column.
pub fn calls_of_one_column(program: &Program) -> BTreeMap<u32, usize> {
    let definitions: HashMap<Value, &Op> = program.ops().collect();
    let mut calls = BTreeMap::new();
    for statement in program.statements() {
        let Statement::Call(Call { function, arguments, .. }) = statement else { continue };
        let ops: Option<Vec<&Op>> = arguments.iter().map(|a| definitions.get(a).copied()).collect();
        if let Some(input) = ops.and_then(|ops| one_column(program, *function, &ops)) {
            *calls.entry(input).or_default() += 1;
        }
    }
    calls
}

/// The column of strings that a call reads besides constants, if its result can be known.
fn one_column(program: &Program, function: RuntimeFn, arguments: &[&Op]) -> Option<u32> {
    if !is_known(function) {
        return None;
    }
    let mut columns = arguments.iter().filter(|op| !op.is_constant());
    match (columns.next(), columns.next()) {
        (Some(Op::Load(input)), None) => can_be_constant(program, *input, &Constant::Str([].into())).then_some(*input),
        _ => None,
    }
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
    if is_known(function) && ops.iter().all(Op::is_constant) {
        let known = evaluate(builder, function, &ops)?;
        return Some(build(known, builder, function));
    }
    let input = one_column(program, function, &ops.iter().collect::<Vec<_>>())?;
    let values = few.get(&input).filter(|values| !values.is_empty())?;
    let known = values.iter().map(|value| {
        let text = builder.str(value);
        let text = builder.definition(text).cloned()?;
        let ops: Vec<Op> = ops.iter().map(|op| if op.is_constant() { op.clone() } else { text.clone() }).collect();
        evaluate(builder, function, &ops)
    });
    let known: Vec<Option<i64>> = known.collect::<Option<_>>()?;
    let view = builder.op(Op::LoadView(input), Phys::I128);
    let is_value = |value: &[u8], builder: &mut Builder<(), ()>| {
        let constant = builder.int(Str::new(value).bits() as i128, Phys::I128);
        builder.compare(Comparison::Eq, view, constant)
    };
    let matches: Vec<Value> = values.iter().map(|value| is_value(value, builder)).collect();
    let any = matches.iter().copied().reduce(|a, b| builder.or(a, b))?;
    builder.open();
    let (mut result, mut valid) = build(*known.last()?, builder, function);
    for (matches, known) in matches.iter().zip(&known).rev().skip(1) {
        let (own_result, own_valid) = build(*known, builder, function);
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

/// The result of a call, NULL or a number, as constants of a program: the result, and its validity.
fn build(known: Option<i64>, builder: &mut Builder<(), ()>, function: RuntimeFn) -> (Value, Value) {
    let result = match (known, function.result()) {
        (None, phys) => builder.default_of(phys),
        (Some(known), Phys::Bool) => builder.bool(known != 0),
        (Some(known), phys) => builder.int(known.into(), phys),
    };
    (result, builder.bool(known.is_some()))
}

/// Calls a function with constants: NULL or a number; `None` if that cannot be done.
fn evaluate(builder: &Builder<(), ()>, function: RuntimeFn, arguments: &[Op]) -> Option<Option<i64>> {
    let slot = |(op, phys): (&Op, &Phys)| match op {
        Op::Bool(b) => Some(Slot::of([*b as u8])),
        Op::Int(n) => Some(Slot::of(n.to_le_bytes())),
        Op::Float(bits) if *phys == Phys::F32 => Some(Slot::of((f64::from_bits(*bits) as f32).to_le_bytes())),
        Op::Float(bits) => Some(Slot::of(bits.to_le_bytes())),
        Op::Str(index) => builder.string(*index).map(|bytes| Slot(Str::new(bytes).bits().to_le_bytes())),
        _ => None,
    };
    let slots: Vec<Slot> = arguments.iter().zip(function.arguments()).map(slot).collect::<Option<_>>()?;
    let (mut functions, mut out) = (FunctionContext::new(FunctionSettings::default()), Slot::ZERO);
    let body = millstream_functions::address(function);
    // SAFETY: the verifier has seen that the arguments have the function's types; the builder keeps the strings.
    let status = unsafe { body((&raw mut functions).cast(), slots.as_ptr(), &mut out) };
    match function.result() {
        _ if status == CallStatus::Null as u32 => Some(None),
        _ if status != CallStatus::Value as u32 => None,
        Phys::Bool => Some(Some(out.0[0].into())),
        phys => Some(Some(dense_key(phys, &out))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::{Flow, emit};
    use crate::interpreter::Interpreter;
    use crate::kernel::Kernel;
    use crate::lower::{Lowered, OutputSource};
    use crate::program::{Emit, FilterShape, Input, Site, Terminal};
    use crate::specialise::{Choices, specialise};
    use crate::verify::verify;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int32Type;
    use arrow_array::{Array, ArrayRef, StringViewArray};
    use millstream_types::DataType;
    use std::sync::Arc;

    /// `SELECT POSITION('o' IN text) WHERE text LIKE 'g%'`
    fn lowered() -> Lowered {
        use Phys::{Bool, I32, Str};
        let call = |result, valid, function, arguments: &[u32]| {
            let arguments = arguments.iter().map(|a| Value(*a)).collect();
            Statement::Call(Call { result: Value(result), valid: Value(valid), function, arguments, site: 0 })
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
            let compares = special.ops().any(|(_, op)| matches!(op, Op::LoadView(0)));
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
        let calls = special.statements().filter(|s| matches!(s, Statement::Call(_))).count();
        assert_eq!(calls, 0, "{special}");
        let column: ArrayRef = Arc::new(StringViewArray::from_iter_values(["google"; 3]));
        let kernel = Interpreter::new(Arc::new(special));
        assert_eq!(run(&lowered, &kernel, &column), [Some(2); 3]);
    }
}
