//! Every operation, over the values at which it could go wrong, against Rust's own arithmetic.

mod support;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, StringViewArray};
use millstream_abi::{Phys, Str};
use millstream_codegen::program::{Comparison, Op, Value};
use millstream_codegen::semantics;
use std::sync::Arc;
use support::{Sketch, run};

const INTEGERS: [i128; 17] = [
    0,
    1,
    -1,
    2,
    -2,
    7,
    -10,
    100,
    127,
    -128,
    12_345,
    i16::MIN as i128,
    i32::MAX as i128,
    i64::MIN as i128,
    i64::MAX as i128 + 1,
    i128::MIN,
    i128::MAX,
];
const FLOATS: [f64; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    2.5,
    0.1,
    1e-310,
    16_777_217.0,
    9.2e18,
    -9.3e18,
    3e38,
    1e39,
    -2e40,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];
const COMPARISONS: [Comparison; 6] =
    [Comparison::Eq, Comparison::Ne, Comparison::Lt, Comparison::Le, Comparison::Gt, Comparison::Ge];

fn compared<T: PartialOrd>(comparison: Comparison, a: T, b: T) -> bool {
    match comparison {
        Comparison::Eq => a == b,
        Comparison::Ne => a != b,
        Comparison::Lt => a < b,
        Comparison::Le => a <= b,
        Comparison::Gt => a > b,
        Comparison::Ge => a >= b,
    }
}

fn array<T: ArrowPrimitiveType>(values: impl IntoIterator<Item = T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter_values(values))
}

/// The one column that a program over the columns emits, made by `build` of the loaded inputs.
fn evaluate(inputs: &[Phys], columns: &[ArrayRef], build: impl Fn(&mut Sketch, &[Value]) -> Value) -> ArrayRef {
    let mut sketch = Sketch::new(inputs);
    let loaded: Vec<Value> = (0..inputs.len() as u32).map(|i| sketch.load(i)).collect();
    let result = build(&mut sketch, &loaded);
    let (outcome, arrays) = run(&sketch.emit(&[result]), columns, &[i64::MIN]);
    assert!(outcome.errors.is_empty());
    arrays[0].clone()
}

fn bools(array: &ArrayRef) -> Vec<bool> {
    array.as_boolean().iter().flatten().collect()
}

macro_rules! integer_operations {
    ($name:ident, $arrow:ty, $native:ty, $phys:expr) => {
        #[test]
        fn $name() {
            let values: Vec<$native> = INTEGERS.map(|i| i as $native).to_vec();
            let pairs: Vec<($native, $native)> =
                values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b))).collect();
            let columns = [array::<$arrow>(pairs.iter().map(|p| p.0)), array::<$arrow>(pairs.iter().map(|p| p.1))];
            let binary = |op: fn(Value, Value) -> Op| {
                let result = evaluate(&[$phys; 2], &columns, |s, v| s.op($phys, op(v[0], v[1])));
                result.as_primitive::<$arrow>().values().to_vec()
            };
            let expected = |f: fn($native, $native) -> $native| pairs.iter().map(|&(a, b)| f(a, b)).collect::<Vec<_>>();
            assert_eq!(binary(Op::Add), expected(<$native>::wrapping_add));
            assert_eq!(binary(Op::Sub), expected(<$native>::wrapping_sub));
            assert_eq!(binary(Op::Mul), expected(<$native>::wrapping_mul));
            let quotients = binary(Op::Div);
            let remainders = binary(Op::Rem);
            for (i, &(a, b)) in pairs.iter().enumerate().filter(|(_, p)| p.1 != 0) {
                assert_eq!((quotients[i], remainders[i]), (a.wrapping_div(b), a.wrapping_rem(b)), "{a} / {b}");
            }
            let negated = evaluate(&[$phys; 2], &columns, |s, v| s.op($phys, Op::Neg(v[0])));
            assert_eq!(negated.as_primitive::<$arrow>().values().to_vec(), expected(|a, _| a.wrapping_neg()));
            for comparison in COMPARISONS {
                let result =
                    evaluate(&[$phys; 2], &columns, |s, v| s.op(Phys::Bool, Op::Compare(comparison, v[0], v[1])));
                let expected: Vec<bool> = pairs.iter().map(|&(a, b)| compared(comparison, a, b)).collect();
                assert_eq!(bools(&result), expected);
            }
            let column = [array::<$arrow>(values.iter().copied())];
            macro_rules! converts_to {
                ($to:ty, $to_native:ty, $to_phys:expr) => {
                    if $to_phys != $phys {
                        let result = evaluate(&[$phys], &column, |s, v| s.op($to_phys, Op::Convert(v[0])));
                        let expected: Vec<$to_native> = values.iter().map(|&x| x as $to_native).collect();
                        assert_eq!(result.as_primitive::<$to>().values().to_vec(), expected);
                    }
                };
            }
            converts_to!(Int8Type, i8, Phys::I8);
            converts_to!(Int16Type, i16, Phys::I16);
            converts_to!(Int32Type, i32, Phys::I32);
            converts_to!(Int64Type, i64, Phys::I64);
            converts_to!(Decimal128Type, i128, Phys::I128);
            converts_to!(Float32Type, f32, Phys::F32);
            converts_to!(Float64Type, f64, Phys::F64);
        }
    };
}
integer_operations!(operations_on_i8, Int8Type, i8, Phys::I8);
integer_operations!(operations_on_i16, Int16Type, i16, Phys::I16);
integer_operations!(operations_on_i32, Int32Type, i32, Phys::I32);
integer_operations!(operations_on_i64, Int64Type, i64, Phys::I64);
integer_operations!(operations_on_i128, Decimal128Type, i128, Phys::I128);

macro_rules! float_operations {
    ($name:ident, $arrow:ty, $native:ty, $phys:expr) => {
        #[test]
        fn $name() {
            let values: Vec<$native> = FLOATS.map(|x| x as $native).to_vec();
            let pairs: Vec<($native, $native)> =
                values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b))).collect();
            let columns = [array::<$arrow>(pairs.iter().map(|p| p.0)), array::<$arrow>(pairs.iter().map(|p| p.1))];
            let same = |found: &ArrayRef, expected: Vec<$native>| {
                for (a, b) in found.as_primitive::<$arrow>().values().iter().zip(expected) {
                    assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{a} is not {b}");
                }
            };
            let check = |op: fn(Value, Value) -> Op, f: fn($native, $native) -> $native| {
                let result = evaluate(&[$phys; 2], &columns, |s, v| s.op($phys, op(v[0], v[1])));
                same(&result, pairs.iter().map(|&(a, b)| f(a, b)).collect());
            };
            check(Op::Add, |a, b| a + b);
            check(Op::Sub, |a, b| a - b);
            check(Op::Mul, |a, b| a * b);
            check(Op::Div, |a, b| a / b);
            check(Op::Rem, |a, b| a % b);
            let negated = evaluate(&[$phys; 2], &columns, |s, v| s.op($phys, Op::Neg(v[0])));
            same(&negated, pairs.iter().map(|p| -p.0).collect());
            for comparison in COMPARISONS {
                let result =
                    evaluate(&[$phys; 2], &columns, |s, v| s.op(Phys::Bool, Op::Compare(comparison, v[0], v[1])));
                let expected: Vec<bool> = pairs.iter().map(|&(a, b)| compared(comparison, a, b)).collect();
                assert_eq!(bools(&result), expected);
            }
            let column = [array::<$arrow>(values.iter().copied())];
            macro_rules! converts_to {
                ($to:ty, $to_native:ty, $to_phys:expr) => {{
                    let result = evaluate(&[$phys], &column, |s, v| s.op($to_phys, Op::Convert(v[0])));
                    let expected: Vec<$to_native> = values.iter().map(|&x| x as $to_native).collect();
                    assert_eq!(result.as_primitive::<$to>().values().to_vec(), expected);
                }};
            }
            converts_to!(Int8Type, i8, Phys::I8);
            converts_to!(Int16Type, i16, Phys::I16);
            converts_to!(Int32Type, i32, Phys::I32);
            converts_to!(Int64Type, i64, Phys::I64);
            converts_to!(Decimal128Type, i128, Phys::I128);
        }
    };
}
float_operations!(operations_on_f32, Float32Type, f32, Phys::F32);
float_operations!(operations_on_f64, Float64Type, f64, Phys::F64);

#[test]
fn conversions_between_floats_round() {
    let column = [array::<Float64Type>(FLOATS)];
    let single = evaluate(&[Phys::F64], &column, |s, v| s.op(Phys::F32, Op::Convert(v[0])));
    for (found, x) in single.as_primitive::<Float32Type>().values().iter().zip(FLOATS) {
        assert!(found.to_bits() == (x as f32).to_bits() || x.is_nan());
    }
    let double = evaluate(&[Phys::F32], &[single], |s, v| s.op(Phys::F64, Op::Convert(v[0])));
    for (found, x) in double.as_primitive::<Float64Type>().values().iter().zip(FLOATS) {
        assert!(found.to_bits() == f64::from(x as f32).to_bits() || x.is_nan());
    }
}

#[test]
fn operations_on_bool() {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from(vec![false, false, true, true])),
        Arc::new(BooleanArray::from(vec![false, true, false, true])),
    ];
    let inputs = [Phys::Bool; 2];
    let binary =
        |op: fn(Value, Value) -> Op| bools(&evaluate(&inputs, &columns, |s, v| s.op(Phys::Bool, op(v[0], v[1]))));
    assert_eq!(binary(Op::And), [false, false, false, true]);
    assert_eq!(binary(Op::Or), [false, true, true, true]);
    assert_eq!(binary(|a, _| Op::Not(a)), [true, true, false, false]);
    assert_eq!(binary(|a, b| Op::Select(a, b, a)), [false, false, false, true]);
    assert_eq!(binary(|a, b| Op::Compare(Comparison::Lt, a, b)), [false, true, false, false]);
    assert_eq!(binary(|a, b| Op::Compare(Comparison::Ge, a, b)), [true, false, true, true]);
    let number = evaluate(&inputs, &columns, |s, v| s.op(Phys::I8, Op::Convert(v[1])));
    assert_eq!(number.as_primitive::<Int8Type>().values().to_vec(), [0, 1, 0, 1]);
    let number = evaluate(&inputs, &columns, |s, v| s.op(Phys::F64, Op::Convert(v[1])));
    assert_eq!(number.as_primitive::<Float64Type>().values().to_vec(), [0.0, 1.0, 0.0, 1.0]);
}

#[test]
fn decimal_operations() {
    let mut values = INTEGERS.to_vec();
    values.extend([
        14,
        15,
        25,
        -14,
        -15,
        499,
        500,
        10i128.pow(18) / 2,
        -(10i128.pow(18)),
        10i128.pow(37),
        5 * 10i128.pow(36),
    ]);
    let column = [array::<Decimal128Type>(values.iter().copied())];
    for digits in [1, 2, 3, 9, 17, 18, 19, 37, 38] {
        let out = evaluate(&[Phys::I128], &column, |s, v| s.op(Phys::Bool, Op::OutOfDecimal(v[0], digits)));
        assert_eq!(bools(&out), values.iter().map(|&x| semantics::out_of_decimal(x, digits)).collect::<Vec<_>>());
        for (op, f) in [
            (Op::ScaleUp as fn(Value, u8) -> Op, semantics::scale_up as fn(i128, u8) -> i128),
            (Op::ScaleDown, semantics::scale_down),
        ] {
            let scaled = evaluate(&[Phys::I128], &column, |s, v| s.op(Phys::I128, op(v[0], digits)));
            let expected: Vec<i128> = values.iter().map(|&x| f(x, digits)).collect();
            assert_eq!(scaled.as_primitive::<Decimal128Type>().values().to_vec(), expected, "{digits} digits");
        }
    }
}

#[test]
fn slices_start_at_or_before_their_times() {
    let times = [0, 1, -1, 9_999, 10_000, -10_000, -10_001, i64::MIN, i64::MAX];
    let column = [array::<Int64Type>(times)];
    for (size_ms, offset_ms) in [(10_000, 0), (10_000, 4), (1, 0), (1024, 1023), (i64::MAX, 5)] {
        let found =
            evaluate(&[Phys::I64], &column, |s, v| s.op(Phys::I64, Op::SliceStart { time: v[0], size_ms, offset_ms }));
        let expected = times.map(|t| semantics::slice_start(t, size_ms, offset_ms));
        assert_eq!(found.as_primitive::<Int64Type>().values().to_vec(), expected);
    }
}

#[test]
fn constants_keep_their_bits() {
    let column = [array::<Int64Type>([0])];
    let float = |phys, x: f64| evaluate(&[Phys::I64], &column, |s, _| s.op(phys, Op::Float(x.to_bits())));
    for x in FLOATS {
        assert_eq!(float(Phys::F64, x).as_primitive::<Float64Type>().value(0).to_bits(), x.to_bits());
        assert_eq!(float(Phys::F32, x).as_primitive::<Float32Type>().value(0).to_bits(), (x as f32).to_bits());
    }
    for n in INTEGERS {
        let wide = evaluate(&[Phys::I64], &column, |s, _| s.op(Phys::I128, Op::Int(n)));
        assert_eq!(wide.as_primitive::<Decimal128Type>().value(0), n);
        let narrow = evaluate(&[Phys::I64], &column, |s, _| s.op(Phys::I16, Op::Int((n as i16).into())));
        assert_eq!(narrow.as_primitive::<Int16Type>().value(0), n as i16);
    }
}

#[test]
fn strings_are_equal_by_content() {
    let texts = ["", "view", "twelve bytes", "thirteen byte", "thirteen bytE", "thirteen byte, and more"];
    let pairs: Vec<(&str, &str)> = texts.iter().flat_map(|&a| texts.iter().map(move |&b| (a, b))).collect();
    let column = |pick: fn(&(&'static str, &'static str)) -> &'static str| -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values(pairs.iter().map(pick)))
    };
    let columns = [column(|p| p.0), column(|p| p.1)];
    for comparison in [Comparison::Eq, Comparison::Ne] {
        let expected: Vec<bool> = pairs.iter().map(|p| compared(comparison, p.0, p.1)).collect();
        let found = evaluate(&[Phys::Str; 2], &columns, |s, v| s.op(Phys::Bool, Op::Compare(comparison, v[0], v[1])));
        assert_eq!(bools(&found), expected);
    }
    for text in texts {
        let found = evaluate(&[Phys::Str; 2], &columns, |s, v| {
            let constant = s.string(text);
            s.op(Phys::Bool, Op::Compare(Comparison::Eq, v[0], constant))
        });
        assert_eq!(bools(&found), pairs.iter().map(|p| p.0 == text).collect::<Vec<_>>());
        let echoed = evaluate(&[Phys::Str; 2], &columns, |s, _| s.string(text));
        assert_eq!(echoed.as_string_view().value(0), text);
    }
    let views = evaluate(&[Phys::Str; 2], &columns, |s, _| {
        let view = s.op(Phys::I128, Op::LoadView(0));
        let constant = s.op(Phys::I128, Op::Int(Str::new(b"view").bits() as i128));
        s.op(Phys::Bool, Op::Compare(Comparison::Eq, view, constant))
    });
    assert_eq!(bools(&views), pairs.iter().map(|p| p.0 == "view").collect::<Vec<_>>());
}

#[test]
fn nulls_are_seen_and_null_strings_are_empty() {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringViewArray::from(vec![Some("a string of many bytes"), None, Some("c")])),
        Arc::new(arrow_array::Int64Array::from(vec![None, Some(5), None])),
    ];
    let inputs = [Phys::Str, Phys::I64];
    let valid = |input| bools(&evaluate(&inputs, &columns, |s, _| s.op(Phys::Bool, Op::IsValid(input))));
    assert_eq!(valid(0), [true, false, true]);
    assert_eq!(valid(1), [false, true, false]);
    let loaded = evaluate(&inputs, &columns, |_, v| v[0]);
    assert_eq!(loaded.as_string_view().iter().flatten().collect::<Vec<_>>(), ["a string of many bytes", "", "c"]);
    // Behind an offset that is not a multiple of eight, and without any NULL.
    let sliced: Vec<ArrayRef> = columns.iter().map(|c| c.slice(1, 2)).collect();
    assert_eq!(bools(&evaluate(&inputs, &sliced, |s, _| s.op(Phys::Bool, Op::IsValid(1)))), [true, false]);
    let full: Vec<ArrayRef> = columns.iter().map(|c| c.slice(1, 1)).collect();
    assert_eq!(bools(&evaluate(&inputs, &full, |s, _| s.op(Phys::Bool, Op::IsValid(1)))), [true]);
}

#[test]
fn divisibility_by_a_constant_is_that_of_the_remainder() {
    for phys in [Phys::I8, Phys::I16, Phys::I32, Phys::I64] {
        let (least, most) = match phys {
            Phys::I8 => (i8::MIN as i64, i8::MAX as i64),
            Phys::I16 => (i16::MIN as i64, i16::MAX as i64),
            Phys::I32 => (i32::MIN as i64, i32::MAX as i64),
            _ => (i64::MIN, i64::MAX),
        };
        let divisors = [2, 3, 5, 6, 7, 8, 10, 12, 48, 64, 96, 100, 120, 123, 127, 1000, 86_400, 1 << 40, (1 << 40) * 3];
        for divisor in divisors.into_iter().flat_map(|d: i64| [d, -d]).chain([least, least + 1, most]) {
            if divisor < least || divisor > most {
                continue;
            }
            let near = |x: i64| (-3..=3).map(move |step| x.saturating_add(step));
            let multiples = (-20..=20).map(|n| divisor.saturating_mul(n));
            let mut values: Vec<i64> =
                multiples.chain([0, least, most, most / divisor * divisor]).flat_map(near).collect();
            values.retain(|x| (least..=most).contains(x));
            let mut sketch = Sketch::new(&[phys]);
            let x = sketch.load(0);
            let d = sketch.op(phys, Op::Int(divisor.into()));
            let zero = sketch.op(phys, Op::Int(0));
            let remainder = sketch.op(phys, Op::Rem(x, d));
            let is_zero = sketch.op(Phys::Bool, Op::Compare(Comparison::Eq, remainder, zero));
            let is_other = sketch.op(Phys::Bool, Op::Compare(Comparison::Ne, remainder, zero));
            let mut tested = vec![is_zero, is_other];
            if phys == Phys::I64 {
                // Without the high bits, which only a small divisor makes superfluous.
                let low = sketch.op(Phys::I32, Op::Convert(remainder));
                let zero = sketch.op(Phys::I32, Op::Int(0));
                tested.push(sketch.op(Phys::Bool, Op::Compare(Comparison::Eq, low, zero)));
            }
            let program = sketch.emit(&tested);
            let column: ArrayRef = match phys {
                Phys::I8 => Arc::new(values.iter().map(|&x| Some(x as i8)).collect::<PrimitiveArray<Int8Type>>()),
                Phys::I16 => Arc::new(values.iter().map(|&x| Some(x as i16)).collect::<PrimitiveArray<Int16Type>>()),
                Phys::I32 => Arc::new(values.iter().map(|&x| Some(x as i32)).collect::<PrimitiveArray<Int32Type>>()),
                _ => Arc::new(PrimitiveArray::<Int64Type>::from(values.clone())),
            };
            let (_, columns) = run(&program, &[column], &[i64::MIN]);
            for (row, &value) in values.iter().enumerate() {
                let expected = value.wrapping_rem(divisor) == 0;
                let found = [columns[0].as_boolean().value(row), columns[1].as_boolean().value(row)];
                assert_eq!(found, [expected, !expected], "{value} % {divisor} as {phys:?}");
                if let Some(low) = columns.get(2) {
                    assert_eq!(
                        low.as_boolean().value(row),
                        value.wrapping_rem(divisor) as i32 == 0,
                        "{value} % {divisor}"
                    );
                }
            }
        }
    }
}
