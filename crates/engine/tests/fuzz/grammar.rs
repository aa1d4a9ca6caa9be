//! Statements over a catalog, typed, so that most of them run.

use crate::Random;
use std::fs;
use tempfile::TempDir;

/// A type of the grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Int,
    Big,
    Double,
    Decimal,
    Text,
    Bool,
    Time,
    Date,
}
use Type::{Big, Bool, Date, Decimal, Double, Int, Text, Time};

const TYPES: &[Type] = &[Int, Big, Double, Decimal, Text, Bool, Time, Date];

/// What makes a value of a type: `$` stands for an operand of each of the types, in order.
const FORMS: &[(Type, &str, &[Type])] = &[
    (Int, "$ + $", &[Int, Int]),
    (Int, "$ - $", &[Int, Int]),
    (Int, "MOD($, 7)", &[Int]),
    (Int, "ABS($)", &[Int]),
    (Int, "SIGN($)", &[Int]),
    (Int, "CHAR_LENGTH($)", &[Text]),
    (Int, "POSITION($ IN $)", &[Text, Text]),
    (Int, "CAST($ AS INT)", &[Decimal]),
    (Int, "TRY_CAST($ AS INT)", &[Text]),
    (Int, "ASCII($)", &[Text]),
    (Big, "$ * $", &[Big, Int]),
    (Big, "$ - $", &[Big, Big]),
    (Big, "CAST($ AS BIGINT)", &[Int]),
    (Big, "EXTRACT(YEAR FROM $)", &[Time]),
    (Big, "EXTRACT(DOW FROM $)", &[Date]),
    (Big, "EXTRACT(SECOND FROM $)", &[Time]),
    (Double, "$ / $", &[Double, Double]),
    (Double, "$ * 0.5E0", &[Double]),
    (Double, "SQRT(ABS($))", &[Double]),
    (Double, "FLOOR($)", &[Double]),
    (Double, "CAST($ AS DOUBLE)", &[Decimal]),
    (Decimal, "$ + $", &[Decimal, Decimal]),
    (Decimal, "$ * $", &[Decimal, Decimal]),
    (Decimal, "ROUND($, 1)", &[Decimal]),
    (Decimal, "CAST($ AS DECIMAL(10, 2))", &[Int]),
    (Decimal, "TRY_CAST($ AS DECIMAL(10, 2))", &[Text]),
    (Text, "$ || $", &[Text, Text]),
    (Text, "UPPER($)", &[Text]),
    (Text, "TRIM($)", &[Text]),
    (Text, "REVERSE($)", &[Text]),
    (Text, "SUBSTRING($ FROM $)", &[Text, Int]),
    (Text, "SUBSTRING($ FROM 2 FOR 3)", &[Text]),
    (Text, "REPLACE($, 'a', $)", &[Text, Text]),
    (Text, "LPAD($, 6, 'xy')", &[Text]),
    (Text, "REGEXP_REPLACE($, '[ab]+', '-')", &[Text]),
    (Text, "SPLIT_INDEX($, ' ', 0)", &[Text]),
    (Text, "CAST($ AS STRING)", &[Int]),
    (Text, "CAST($ AS STRING)", &[Decimal]),
    (Text, "CAST($ AS STRING)", &[Time]),
    (Text, "CAST($ AS STRING)", &[Bool]),
    (Text, "DATE_FORMAT($, 'yyyy-MM-dd HH')", &[Time]),
    (Text, "MD5($)", &[Text]),
    (Bool, "$ = $", &[Int, Int]),
    (Bool, "$ < $", &[Big, Big]),
    (Bool, "$ <> $", &[Text, Text]),
    (Bool, "$ >= $", &[Decimal, Decimal]),
    (Bool, "$ < $", &[Double, Double]),
    (Bool, "$ > $", &[Time, Time]),
    (Bool, "$ AND $", &[Bool, Bool]),
    (Bool, "$ OR $", &[Bool, Bool]),
    (Bool, "NOT $", &[Bool]),
    (Bool, "$ IS NULL", &[Text]),
    (Bool, "$ IS NOT TRUE", &[Bool]),
    (Bool, "$ IN (1, 5, 7)", &[Int]),
    (Bool, "$ NOT IN ('a', 'b c', '')", &[Text]),
    (Bool, "$ BETWEEN $ AND $", &[Int, Int, Int]),
    (Bool, "$ LIKE '%a_'", &[Text]),
    (Bool, "$ IS NOT DISTINCT FROM $", &[Int, Int]),
    (Time, "$ + INTERVAL '90' SECOND", &[Time]),
    (Time, "FLOOR($ TO HOUR)", &[Time]),
    (Time, "CAST($ AS TIMESTAMP(3))", &[Date]),
    (Date, "CAST($ AS DATE)", &[Time]),
    (Date, "$ + INTERVAL '2' MONTH", &[Date]),
];

/// Aggregates whose values do not depend on the order of rows.
const AGGREGATES: &[(&str, &[Type])] = &[
    ("COUNT(*)", &[]),
    ("COUNT($)", &[Text]),
    ("COUNT(DISTINCT $)", &[Text]),
    ("COUNT(DISTINCT $)", &[Int]),
    ("SUM($)", &[Int]),
    ("SUM($)", &[Decimal]),
    ("MIN($)", &[Text]),
    ("MAX($)", &[Double]),
    ("MIN($)", &[Time]),
    ("AVG($)", &[Int]),
    ("SUM($) FILTER (WHERE $)", &[Int, Bool]),
];

fn column(of: Type, random: &mut Random) -> String {
    let (column, literals): (&str, &[&str]) = match of {
        Int => ("i", &["0", "1", "-3", "2147483647", "CAST(NULL AS INT)"]),
        Big => ("b", &["CAST(0 AS BIGINT)", "CAST(-5 AS BIGINT)", "9223372036854775807"]),
        Double => ("d", &["1.5E0", "0E0", "-1E300", "CAST(NULL AS DOUBLE)"]),
        Decimal => ("n", &["CAST(1.25 AS DECIMAL(10, 2))", "CAST(-99999999.99 AS DECIMAL(10, 2))"]),
        Text => ("s", &["''", "'a'", "'b c'", "'\u{e4}\u{1f600}'", "CAST(NULL AS STRING)"]),
        Bool => ("f", &["TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"]),
        Time => ("ts", &["TIMESTAMP '2026-01-31 12:34:56.789'", "TIMESTAMP '1969-12-31 23:59:59.001'"]),
        Date => ("dt", &["DATE '2024-02-29'", "DATE '1969-12-31'"]),
    };
    match random.below(3) {
        0 => random.pick(literals).to_string(),
        _ => column.to_string(),
    }
}

fn expression(of: Type, depth: usize, random: &mut Random) -> String {
    if depth == 0 {
        return column(of, random);
    }
    match random.below(8) {
        0 => {
            let (condition, a, b) = (
                expression(Bool, depth - 1, random),
                expression(of, depth - 1, random),
                expression(of, depth - 1, random),
            );
            format!("CASE WHEN {condition} THEN {a} ELSE {b} END")
        }
        1 => format!("COALESCE({}, {})", expression(of, depth - 1, random), expression(of, depth - 1, random)),
        2 => format!("NULLIF({}, {})", expression(of, depth - 1, random), expression(of, depth - 1, random)),
        3 => column(of, random),
        _ => {
            let forms: Vec<_> = FORMS.iter().filter(|(result, ..)| *result == of).collect();
            let (_, form, operands) = forms[random.below(forms.len())];
            let made = filled(form, operands, depth - 1, random);
            // Sums and products of decimals grow; they are brought back to the type.
            if of == Decimal { format!("CAST({made} AS DECIMAL(10, 2))") } else { format!("({made})") }
        }
    }
}

/// A form with an expression for each `$`.
fn filled(form: &str, operands: &[Type], depth: usize, random: &mut Random) -> String {
    let mut operands = operands.iter();
    let mut text = String::new();
    for c in form.chars() {
        match c {
            '$' => text += &expression(*operands.next().unwrap(), depth, random),
            c => text.push(c),
        }
    }
    text
}

fn aggregate(random: &mut Random) -> String {
    let (form, operands) = random.pick(AGGREGATES);
    filled(form, operands, 1, random)
}

fn filter(random: &mut Random) -> String {
    if random.below(2) == 0 { String::new() } else { format!(" WHERE {}", expression(Bool, 2, random)) }
}

/// A query that ends.
pub(crate) fn statement(random: &mut Random) -> String {
    let table = random.pick(&["t", "u"]);
    match random.below(7) {
        0 | 1 => {
            let columns: Vec<String> =
                (0..=random.below(3)).map(|_| expression(random.pick(TYPES), 3, random)).collect();
            format!("SELECT id, {} FROM {table}{}", columns.join(", "), filter(random))
        }
        2 | 3 => {
            let seconds = random.pick(&["1", "10", "60"]);
            let window = match random.below(4) {
                0 => format!("TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '{seconds}' SECOND)"),
                1 => format!("HOP(TABLE {table}, DESCRIPTOR(ts), INTERVAL '{seconds}' SECOND, INTERVAL '2' MINUTE)"),
                2 => {
                    format!("CUMULATE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '{seconds}' SECOND, INTERVAL '1' MINUTE)")
                }
                _ => format!("SESSION(TABLE {table} PARTITION BY k, DESCRIPTOR(ts), INTERVAL '{seconds}' SECOND)"),
            };
            let (a, b) = (aggregate(random), aggregate(random));
            let rows = format!("SELECT k, window_start, window_end, {a}, {b} FROM TABLE({window}){}", filter(random));
            format!("{rows} GROUP BY k, window_start, window_end")
        }
        4 => {
            let frame = random.pick(&[
                "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
                "RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW",
                "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            ]);
            // Rows with the same time have no defined order within a ROWS frame.
            let aggregate = if frame.starts_with("ROWS") {
                "COUNT(*)"
            } else {
                random.pick(&["COUNT(*)", "SUM(i)", "MAX(s)", "AVG(b)"])
            };
            format!("SELECT id, {aggregate} OVER (PARTITION BY k ORDER BY ts {frame}) FROM {table}{}", filter(random))
        }
        5 => {
            let kind = random.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
            format!(
                "SELECT a.id, b.id FROM t AS a {kind} u AS b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '{}' SECOND AND b.ts",
                random.pick(&["1", "10"])
            )
        }
        _ => {
            let of = random.pick(TYPES);
            format!(
                "SELECT id, {} FROM t UNION ALL SELECT id, {} FROM u{}",
                expression(of, 2, random),
                expression(of, 2, random),
                filter(random)
            )
        }
    }
}

/// The tables of the catalog.
pub(crate) struct Tables {
    pub(crate) definitions: String,
    _folder: TempDir,
}

impl Tables {
    pub(crate) fn new() -> Tables {
        let folder = tempfile::tempdir().unwrap();
        let mut definitions = String::new();
        let mut random = Random::new(7);
        for (name, delay) in [("t", "20"), ("u", "2")] {
            let mut lines = String::new();
            for id in 0..200 {
                let second = (id as i64 / 3 - random.below(12) as i64).max(0);
                let mut field = |name: &str, value: String| match random.below(6) {
                    0 => String::new(),
                    _ => format!(", \"{name}\": {value}"),
                };
                let values = [
                    field("k", (id % 5).to_string()),
                    field("i", (id as i64 * 17 - 900).to_string()),
                    field("b", (id as i64 * 1_000_003 - 77).to_string()),
                    field("d", format!("{}.25", id as i64 - 100)),
                    field("n", format!("{}.75", id % 90)),
                    field("s", format!("\"{}\"", ["a", "b c", "", "\u{e4}a1", "12", "3.5", "aab"][id % 7])),
                    field("f", (id % 3 == 0).to_string()),
                    field("dt", format!("\"2026-0{}-1{}\"", id % 9 + 1, id % 10)),
                ]
                .concat();
                lines += &format!(
                    "{{\"id\": {id}, \"ts\": \"2026-01-01 00:{:02}:{:02}.{:03}\"{values}}}\n",
                    second / 60,
                    second % 60,
                    id % 4 * 250
                );
            }
            let path = folder.path().join(name);
            fs::write(&path, lines).unwrap();
            definitions += &format!(
                "CREATE TABLE {name} (id INT, k INT, i INT, b BIGINT, d DOUBLE, n DECIMAL(10, 2), s STRING, f BOOLEAN, dt DATE, \
                 ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND) WITH ('connector' = 'filesystem', \
                 'path' = '{}', 'format' = 'json');",
                path.display()
            );
        }
        Tables { definitions, _folder: folder }
    }
}
