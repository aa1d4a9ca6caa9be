//! Damaged messages of every format: each gives a row or its own failure, and nothing else. `MILLSTREAM_FUZZ_SECONDS`
//! is how long they are tried, `MILLSTREAM_FUZZ_SEED` where it begins (`make fuzz` has both).

use super::testing::{decoder, encoder, messages};
use super::{MessageDecoder, Messages};
use crate::formats::FORMATS;
use crate::random::Random;
use millstream_types::{DataType, Field, code};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Columns of all kinds.
fn fields() -> Vec<Field> {
    let types = [
        ("i", DataType::Int),
        ("b", DataType::BigInt),
        ("d", DataType::Double),
        ("n", DataType::Decimal { precision: 20, scale: 3 }),
        ("s", DataType::STRING),
        ("f", DataType::Boolean),
        ("dt", DataType::Date),
        ("ts", DataType::Timestamp(3)),
        ("a", DataType::Array(Arc::new(DataType::STRING))),
        ("m", DataType::Map(Arc::new(DataType::STRING), Arc::new(DataType::BigInt))),
        ("nested", DataType::Array(Arc::new(DataType::Array(Arc::new(DataType::Int))))),
    ];
    types.into_iter().map(|(name, data_type)| Field::new(name, data_type, true)).collect()
}

/// Records as JSON, which are encoded in the other formats.
fn rows() -> Vec<String> {
    let row = |i: usize| {
        format!(
            r#"{{"i": {i}, "b": {}, "d": {i}.5, "n": {}.125, "s": "text \u00e4 {}", "f": {}, "dt": "2024-02-29", "ts": "2024-05-06 10:11:{:02}.345",
            "a": ["x", null, "{}"], "m": {{"k{i}": {i}}}, "nested": [[1, 2], [], null, [{i}]]}}"#,
            i * 1_000_000_007,
            i * 31 + 1,
            "long ".repeat(i % 7),
            i.is_multiple_of(2),
            i % 60,
            "y".repeat(i % 20)
        )
    };
    let mut rows: Vec<String> = (0..20).map(row).collect();
    rows.push("{}".into());
    rows
}

/// One more column that does not fit a format makes it useless: those that it has.
fn fields_of(format: &str) -> Vec<Field> {
    let mut fields = fields();
    match format {
        // Of one column of a plain type.
        "raw" => fields.retain(|field| field.name == "s"),
        // Without values in values.
        "csv" => fields.retain(|field| !matches!(field.data_type, DataType::Map(..))),
        _ => {}
    }
    fields
}

fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len() as u64) as usize;
        let end = (at + 1 + random.below(16) as usize).min(bytes.len());
        match random.below(7) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes[at..].reverse(),
            3 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again).for_each(drop);
            }
            4 => bytes[at..end].fill([0, 0x7F, 0x80, 0xFF][random.below(4) as usize]),
            5 => bytes[at] = [0, 1, 2, 0x7F, 0x80, 0xFF, b'"', b'{', b'[', b',', b'\n'][random.below(11) as usize],
            _ => bytes[at] ^= 1 << random.below(8),
        }
    }
}

/// A format with its messages.
struct Sample {
    name: &'static str,
    decoder: Box<dyn MessageDecoder>,
    whole: Messages,
}

fn samples() -> Vec<Sample> {
    let json = FORMATS.iter().find(|format| format.name == "json").and_then(|format| format.messages.as_ref()).unwrap();
    let mut samples = Vec::new();
    for format in FORMATS {
        let (name, Some(of_messages)) = (format.name, &format.messages) else { continue };
        // Records of fixed lengths have no NULL, and schemas of a registry need one: those have tests of their own. Others are only read.
        if name == "row" || name.ends_with("avro-confluent") || ["canal-json", "maxwell-json"].contains(&name) {
            continue;
        }
        let fields = fields_of(name);
        let rows = rows();
        let rows: Vec<Option<&[u8]>> = rows.iter().map(|row| Some(row.as_bytes())).collect();
        let columns = decoder(json, &fields, &[]).unwrap().decode(&messages(&rows)).unwrap();
        assert!(columns.failures.is_empty(), "{:?}", columns.failures);
        let whole = encoder(of_messages, &fields, &[]).unwrap().encode(&columns.columns, rows.len()).unwrap();
        samples.push(Sample { name, decoder: decoder(of_messages, &fields, &[]).unwrap(), whole });
    }
    samples
}

#[test]
fn damaged_messages_are_failures_of_their_own() {
    let number = |name: &str, default| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (seconds, seed) = (number("MILLSTREAM_FUZZ_SECONDS", 2), number("MILLSTREAM_FUZZ_SEED", 1));
    let samples = samples();
    assert!(samples.iter().any(|sample| sample.name == "avro") && samples.len() >= 5);
    let (started, mut case, mut failed) = (Instant::now(), 0, 0);
    while started.elapsed() < Duration::from_secs(seconds) {
        let mut random = Random::new(seed, case, 0);
        case += 1;
        let Sample { name, decoder, whole } = &samples[random.below(samples.len() as u64) as usize];
        let of = random.below(whole.len() as u64) as usize;
        let Some(mut bytes) = whole.bytes(of).map(<[u8]>::to_vec) else { continue };
        damage(&mut bytes, &mut random);
        // A neighbour, which nothing may happen to.
        let both = messages(&[Some(&bytes), whole.bytes(0)]);
        let decoded = catch_unwind(AssertUnwindSafe(|| decoder.decode(&both)));
        let what = || format!("case {case} from seed {seed}: {name}: {bytes:?}");
        let Ok(decoded) = decoded else { panic!("a panic in {}", what()) };
        let decoded = decoded.unwrap_or_else(|error| panic!("{}: {error}", what()));
        assert_eq!(decoded.rows.len() + decoded.failures.len(), 2, "{}", what());
        assert_eq!(decoded.rows.last(), Some(&1), "{}", what());
        assert!(decoded.columns.iter().all(|column| column.len() == decoded.rows.len()), "{}", what());
        assert!(decoded.failures.iter().all(|(_, failure)| failure.code != code::BUG), "{}", what());
        failed += decoded.failures.len();
    }
    eprintln!("{case} damaged messages from seed {seed}, {failed} failures");
    assert!(failed > 0);
}
