//! The JSON decoder: one pass over a chunk of records, reading the wanted columns and checking the rest.
//!
//! It is specialised when the table is opened: the wanted paths become a tree of objects with a [`KeyTable`] each.
//! Records are JSON objects, each within one line; several in a line and blank lines are fine. Strings without escapes
//! are views into the chunk. Of a key that occurs twice the last value counts.
//!
//! Bad records: bytes that are not JSON make a record malformed. With `json.ignore-parse-errors` malformed records are
//! skipped and counted, and a value of the wrong type is NULL, as in Flink; without it the first of either ends the query.

use super::keys::{KeyTable, START};
use super::scan::{self, Malformed, byte, skip_space, skip_value, string_end, unescape};
use super::value::{Shape, ValueReader};
use crate::format::RecordDecoder;
use crate::text_chunk::{TextChunk, excerpt};
use crate::values::ColumnBuilder;
use crate::{ColumnRequest, Decoded, RequestOrigin, SourceRequest};
use crate::{times, unfit};
use millstream_types::text::TimestampStyle;
use millstream_types::{Code, DataType, Diagnostic, Field, Options, Place, code};

/// What to do about bad records, and how values are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// `json.ignore-parse-errors`
    pub ignore_errors: bool,
    /// `json.fail-on-missing-field`
    pub fail_on_missing: bool,
    /// `json.timestamp-format.standard`
    pub timestamps: TimestampStyle,
    /// The format, as its options begin.
    pub format: &'static str,
}

impl Rules {
    fn of(options: &Options, format: &'static str) -> Result<Rules, Diagnostic> {
        let (ignore, fail) = (format!("{format}.ignore-parse-errors"), format!("{format}.fail-on-missing-field"));
        let rules = Rules {
            ignore_errors: options.boolean(&ignore, false)?,
            fail_on_missing: options.boolean(&fail, false)?,
            timestamps: times::timestamp_style(options, format)?,
            format,
        };
        if rules.ignore_errors && rules.fail_on_missing {
            return Err(options
                .invalid(&fail, &format!("possible together with '{ignore}' = 'true'"))
                .advise("set one of the two to 'false'"));
        }
        Ok(rules)
    }
}

/// Why a record cannot be used.
#[derive(Debug)]
pub(super) struct JsonFailure {
    pub code: Code,
    /// Where, in the text being decoded.
    pub at: usize,
    pub message: String,
    /// Dotted name of the column.
    pub column: String,
    /// A text that is no timestamp.
    pub unread_time: Option<UnreadTime>,
}

/// A text that is no timestamp.
#[derive(Debug)]
pub(super) struct UnreadTime {
    pub text: String,
    /// What it should have been.
    pub data_type: DataType,
    /// The format, as its options begin.
    pub format: &'static str,
}

impl From<Malformed> for Box<JsonFailure> {
    fn from(malformed: Malformed) -> Box<JsonFailure> {
        JsonFailure::new(code::MALFORMED_RECORD, malformed.at, malformed.what)
    }
}

impl JsonFailure {
    /// Of a value, which nobody knows the column of yet.
    pub(super) fn new(code: Code, at: usize, message: impl Into<String>) -> Box<JsonFailure> {
        Box::new(JsonFailure { code, at, message: message.into(), column: String::new(), unread_time: None })
    }

    /// The same failure, seen from the object that has the failed value in its field `name`.
    pub(super) fn below(mut self: Box<Self>, name: &str) -> Box<JsonFailure> {
        let dot = if self.column.is_empty() { "" } else { "." };
        self.column = format!("{name}{dot}{}", self.column);
        self
    }
}

/// Where the value of a field goes.
#[derive(Debug, Clone)]
enum FieldTarget {
    Column(usize),
    Object(usize),
    /// Several columns read the field: a row and a part of it.
    Many(Vec<FieldTarget>),
}

/// An object of which single fields are wanted; object 0 is the record.
struct ObjectPlan {
    name: String,
    fields: Vec<(String, FieldTarget)>,
    /// Every column that lies below.
    columns: Vec<usize>,
}

/// A decoder for one table and the columns that a query wants of it.
pub(crate) struct JsonDecoder {
    objects: Vec<ObjectPlan>,
    columns: Vec<ColumnRequest>,
    rules: Rules,
}

impl JsonDecoder {
    /// A decoder of the columns with a path, whose options begin with `format`; the others are not its business.
    pub(crate) fn new(request: &SourceRequest, format: &'static str) -> Result<JsonDecoder, Diagnostic> {
        let rules = Rules::of(&request.options, format)?;
        let record = ObjectPlan { name: String::new(), fields: Vec::new(), columns: Vec::new() };
        let mut decoder = JsonDecoder { objects: vec![record], columns: Vec::new(), rules };
        for column in &request.columns {
            let RequestOrigin::Path(path) = &column.origin else { continue };
            ColumnBuilder::new(&column.data_type, 0)?;
            check_map_keys(&column.data_type, &column.name)?;
            decoder.add_column(&request.schema.fields, path, column)?;
        }
        Ok(decoder)
    }

    fn add_column(&mut self, fields: &[Field], path: &[usize], request: &ColumnRequest) -> Result<(), Diagnostic> {
        let column = self.columns.len();
        self.columns.push(request.clone());
        let mut object = 0;
        let mut fields = fields;
        for (depth, &position) in path.iter().enumerate() {
            let unknown = || Diagnostic::bug(format!("path {path:?} of column {} leaves the schema", request.name));
            let field = fields.get(position).ok_or_else(unknown)?;
            self.objects[object].columns.push(column);
            if depth + 1 == path.len() {
                self.objects[object].add(&field.name, FieldTarget::Column(column));
                return Ok(());
            }
            let DataType::Row(nested) = &field.data_type else { return Err(unknown()) };
            fields = nested;
            object = self.object_below(object, &field.name);
        }
        Err(Diagnostic::bug(format!("column {} has an empty path", request.name)))
    }

    /// The object in the field `name` of `parent`, made if it is not there yet.
    fn object_below(&mut self, parent: usize, name: &str) -> usize {
        if let Some((_, target)) = self.objects[parent].fields.iter().find(|(n, _)| n == name) {
            let targets = if let FieldTarget::Many(many) = target { &many[..] } else { std::slice::from_ref(target) };
            if let Some(object) =
                targets.iter().find_map(|t| if let FieldTarget::Object(o) = t { Some(*o) } else { None })
            {
                return object;
            }
        }
        let object = self.objects.len();
        let dot = if parent == 0 { "" } else { "." };
        let full_name = format!("{}{dot}{name}", self.objects[parent].name);
        self.objects.push(ObjectPlan { name: full_name, fields: Vec::new(), columns: Vec::new() });
        self.objects[parent].add(name, FieldTarget::Object(object));
        object
    }
}

impl ObjectPlan {
    fn add(&mut self, name: &str, target: FieldTarget) {
        match self.fields.iter_mut().find(|(n, _)| n == name) {
            None => self.fields.push((name.to_string(), target)),
            Some((_, FieldTarget::Many(targets))) => targets.push(target),
            Some((_, present)) => *present = FieldTarget::Many(vec![present.clone(), target]),
        }
    }
}

/// Keys of JSON objects are strings, so those of MAPs must be, too.
pub(super) fn check_map_keys(data_type: &DataType, column: &str) -> Result<(), Diagnostic> {
    match data_type {
        DataType::Map(key, _) if !key.is_string() => Err(Diagnostic::new(
            code::UNSUPPORTED,
            format!("column {column}: the json format has only strings as keys of a MAP, not {key}"),
        )),
        DataType::Map(_, value) => check_map_keys(value, column),
        DataType::Array(element) => check_map_keys(element, column),
        DataType::Row(fields) => fields.iter().try_for_each(|f| check_map_keys(&f.data_type, column)),
        _ => Ok(()),
    }
}

impl RecordDecoder for JsonDecoder {
    fn decode(&self, chunk: &TextChunk) -> Decoded {
        let mut state = match JsonDecoding::new(self, chunk.data.len() / 256 + 16) {
            Ok(state) => state,
            Err(error) => return Decoded::failed(error),
        };
        let failure = match simdutf8::basic::from_utf8(&chunk.data) {
            Ok(text) => state.records(text, 0).err(),
            Err(_) => state.lines(chunk),
        };
        let diagnostic =
            |(start, failure): BadRecord| failure.diagnostic(&chunk.data, start, |column| chunk.place(start, column));
        let columns = state.columns.into_iter().map(|(builder, _)| builder.finish(&chunk.data)).collect();
        let skipped_for = state.first_skipped.map(diagnostic);
        Decoded::of(columns, state.rows, state.skipped, failure.map(diagnostic)).because(skipped_for)
    }
}

impl JsonFailure {
    /// The failure of the record at `start` of `data`, whose place is known by its column.
    pub(super) fn diagnostic(self, data: &[u8], start: usize, place: impl Fn(Option<String>) -> Place) -> Diagnostic {
        let advice =
            self.unread_time.and_then(|time| times::remedy(&time.text, &time.data_type, &self.column, time.format));
        let advice = advice.or_else(|| match self.message.split_once(" cannot be read as ") {
            Some((text, wanted)) if self.code == code::WRONG_TYPE => Some(unfit::remedy(text, wanted, &self.column)),
            _ if self.code == code::NULL_IN_NOT_NULL => Some(unfit::null_remedy(&self.column)),
            _ => None,
        });
        let place = place((!self.column.is_empty()).then_some(self.column));
        if self.code != code::MALFORMED_RECORD {
            let diagnostic = Diagnostic::new(self.code, self.message).at(place);
            return match advice {
                Some(advice) => diagnostic.advise(advice),
                None => diagnostic,
            };
        }
        malformed(data, start, self.at, &self.message, place)
    }
}

fn malformed(data: &[u8], start: usize, at: usize, what: &str, place: Place) -> Diagnostic {
    let position = at.saturating_sub(start);
    let from = if position > 30 { at - 20 } else { start };
    let line = &data[from.min(data.len())..];
    let line = &line[..memchr::memchr(b'\n', line).unwrap_or(line.len())];
    let message = format!("malformed JSON: {what} (byte {} of the record, near '{}')", position + 1, excerpt(line));
    Diagnostic::new(code::MALFORMED_RECORD, message).at(place).advise(
        "correct the record: each is one JSON object; 'json.ignore-parse-errors' = 'true' leaves such records out",
    )
}

/// Start of the bad record, and what is wrong with it; both relative to the chunk.
type BadRecord = (usize, Box<JsonFailure>);

/// The decoding of one chunk.
pub(super) struct JsonDecoding<'a> {
    plan: &'a JsonDecoder,
    objects: Vec<ObjectState>,
    pub(super) columns: Vec<(ColumnBuilder, Shape)>,
    rows: usize,
    skipped: u64,
    /// The first of those.
    first_skipped: Option<BadRecord>,
}

struct ObjectState {
    keys: KeyTable,
    /// The last row in which the object was entered, plus one.
    entered: usize,
}

impl<'a> JsonDecoding<'a> {
    pub(super) fn new(plan: &'a JsonDecoder, capacity: usize) -> Result<JsonDecoding<'a>, Diagnostic> {
        let keys = |object: &ObjectPlan| KeyTable::new(object.fields.iter().map(|(name, _)| name.as_str()));
        let objects = plan.objects.iter().map(|o| ObjectState { keys: keys(o), entered: 0 }).collect();
        let columns =
            plan.columns.iter().map(|c| Ok((ColumnBuilder::new(&c.data_type, capacity)?, Shape::of(&c.data_type))));
        Ok(JsonDecoding {
            plan,
            objects,
            columns: columns.collect::<Result<_, Diagnostic>>()?,
            rows: 0,
            skipped: 0,
            first_skipped: None,
        })
    }

    /// Decodes a chunk that is not UTF-8 line by line, so that only the lines in question suffer.
    fn lines(&mut self, chunk: &TextChunk) -> Option<BadRecord> {
        let mut start = 0;
        for line in chunk.data.split_inclusive(|b| *b == b'\n') {
            match std::str::from_utf8(line) {
                Ok(text) => {
                    if let Err(bad) = self.records(text, start) {
                        return Some(bad);
                    }
                }
                Err(e) => {
                    let malformed = Malformed { at: start + e.valid_up_to(), what: "a byte is not UTF-8" };
                    if !self.plan.rules.ignore_errors {
                        return Some((start, malformed.into()));
                    }
                    self.skip(|| (start, malformed.into()));
                }
            }
            start += line.len();
        }
        None
    }

    /// Decodes the records of `text`, which lies at `base` of the chunk.
    fn records(&mut self, text: &str, base: usize) -> Result<(), BadRecord> {
        let data = text.as_bytes();
        let mut at = 0;
        loop {
            while at < data.len() && matches!(data[at], b' ' | b'\t' | b'\r' | b'\n') {
                at += 1;
            }
            if at >= data.len() {
                return Ok(());
            }
            match self.record(text, base, at) {
                Ok(end) => {
                    self.rows += 1;
                    at = end;
                }
                Err(mut failure) => {
                    self.undo();
                    failure.at += base;
                    if !self.plan.rules.ignore_errors {
                        return Err((base + at, failure));
                    }
                    self.skip(|| (base + at, failure));
                    at = match skip_value(data, at, 0) {
                        Ok(end) => end,
                        Err(malformed) => {
                            let rest = data.get(malformed.at..).unwrap_or_default();
                            memchr::memchr(b'\n', rest).map_or(data.len(), |feed| malformed.at + feed + 1)
                        }
                    };
                }
            }
        }
    }

    /// Leaves a record out.
    fn skip(&mut self, bad: impl FnOnce() -> BadRecord) {
        self.skipped += 1;
        self.first_skipped.get_or_insert_with(bad);
    }

    /// Forgets what was decoded of a record that has failed.
    fn undo(&mut self) {
        for (builder, _) in &mut self.columns {
            builder.truncate(self.rows);
        }
        for object in &mut self.objects {
            object.entered = 0;
        }
    }

    /// Decodes a message, which is one record with nothing but space around it and lies at `base` of the buffer; none if
    /// it fails.
    pub(super) fn message(&mut self, text: &str, base: usize) -> Result<(), Box<JsonFailure>> {
        let start = skip_space(text.as_bytes(), 0);
        let outcome = self.record(text, base, start).and_then(|end| {
            let behind = skip_space(text.as_bytes(), end);
            let what = "something follows the record in its message";
            if behind == text.len() { Ok(()) } else { Err(Malformed { at: behind, what }.into()) }
        });
        self.ended(outcome).map_err(|mut failure| {
            failure.at += base;
            failure
        })
    }

    /// A row of NULLs, for a message that is absent.
    pub(super) fn absent(&mut self) -> Result<(), Box<JsonFailure>> {
        let plan = self.plan;
        let outcome = self.columns.iter_mut().zip(&plan.columns).try_for_each(|((builder, _), column)| {
            builder.push_null();
            let missing =
                || JsonFailure::new(code::NULL_IN_NOT_NULL, 0, "a NOT NULL column has no value in the message");
            if column.nullable { Ok(()) } else { Err(missing().below(&column.name)) }
        });
        self.ended(outcome)
    }

    fn ended(&mut self, outcome: Result<(), Box<JsonFailure>>) -> Result<(), Box<JsonFailure>> {
        match &outcome {
            Ok(()) => self.rows += 1,
            Err(_) => self.undo(),
        }
        outcome
    }

    /// Decodes the record at `at`; gives the position behind it.
    fn record(&mut self, text: &str, base: usize, at: usize) -> Result<usize, Box<JsonFailure>> {
        if byte(text.as_bytes(), at) != b'{' {
            return Err(Malformed { at, what: "a record must be an object in braces" }.into());
        }
        if self.plan.columns.is_empty() {
            return Ok(skip_value(text.as_bytes(), at, 0)?);
        }
        let reader = ValueReader { text, base, rules: self.plan.rules };
        let end = self.object(&reader, 0, at + 1)?;
        for ((builder, _), column) in self.columns.iter_mut().zip(&self.plan.columns) {
            if builder.len() == self.rows {
                reader.missing(at, column.nullable).map_err(|f| f.below(&column.name))?;
                builder.push_null();
            }
        }
        Ok(end)
    }

    /// Decodes the object whose inside starts at `at`; gives the position behind it.
    fn object(&mut self, reader: &ValueReader<'_>, object: usize, at: usize) -> Result<usize, Box<JsonFailure>> {
        let data = reader.text.as_bytes();
        let mut at = skip_space(data, at);
        if byte(data, at) == b'}' {
            return Ok(at + 1);
        }
        let plan = self.plan;
        let mut previous = START;
        loop {
            let (meaning, behind) = self.objects[object].keys.read(reader.text, at, &mut previous)?;
            let value = skip_space(data, behind);
            let end = match meaning {
                None => skip_value(data, value, 0)?,
                Some(field) => self.target(reader, &plan.objects[object].fields[field].1, value)?,
            };
            match scan::member_end(data, end)? {
                (next, false) => at = next,
                (behind, true) => return Ok(behind),
            }
        }
    }

    fn target(&mut self, reader: &ValueReader<'_>, target: &FieldTarget, at: usize) -> Result<usize, Box<JsonFailure>> {
        match target {
            FieldTarget::Column(column) => {
                let (builder, shape) = &mut self.columns[*column];
                if builder.len() > self.rows {
                    builder.truncate(self.rows);
                }
                let plan = &self.plan.columns[*column];
                reader.field(builder, shape, plan.nullable, at).map_err(|f| f.below(&plan.name))
            }
            FieldTarget::Object(object) => self.object_value(reader, *object, at),
            FieldTarget::Many(targets) => {
                let mut end = at;
                for target in targets {
                    end = self.target(reader, target, at)?;
                }
                Ok(end)
            }
        }
    }

    /// Decodes the value of an object of which single fields are wanted.
    fn object_value(&mut self, reader: &ValueReader<'_>, object: usize, at: usize) -> Result<usize, Box<JsonFailure>> {
        let data = reader.text.as_bytes();
        // Only the last one of several equal keys counts.
        if std::mem::replace(&mut self.objects[object].entered, self.rows + 1) == self.rows + 1 {
            for &column in &self.plan.objects[object].columns {
                self.columns[column].0.truncate(self.rows);
            }
            self.forget_entered_below(object);
        }
        match byte(data, at) {
            b'{' => self.object(reader, object, at + 1),
            b'n' => {
                let end = scan::literal_end(data, at, b"null")?;
                self.null_below(reader, object, at)?;
                Ok(end)
            }
            _ => {
                let failure = reader.wrong_type("an object", at)?;
                if !self.plan.rules.ignore_errors {
                    return Err(failure.below(&self.plan.objects[object].name));
                }
                self.null_below(reader, object, at)?;
                Ok(skip_value(data, at, 0)?)
            }
        }
    }

    fn forget_entered_below(&mut self, object: usize) {
        for (_, target) in &self.plan.objects[object].fields {
            let targets = if let FieldTarget::Many(many) = target { &many[..] } else { std::slice::from_ref(target) };
            for target in targets {
                if let FieldTarget::Object(below) = target {
                    self.objects[*below].entered = 0;
                    self.forget_entered_below(*below);
                }
            }
        }
    }

    /// Makes every column below a NULL object NULL.
    fn null_below(&mut self, reader: &ValueReader<'_>, object: usize, at: usize) -> Result<(), Box<JsonFailure>> {
        for &column in &self.plan.objects[object].columns {
            let plan = &self.plan.columns[column];
            if !plan.nullable {
                return Err(reader.null_in_not_null(at).below(&plan.name));
            }
            self.columns[column].0.push_null();
        }
        Ok(())
    }
}

/// The text of a string value whose quote stands at `at`, and the position behind it.
pub(super) fn string_text(text: &str, at: usize) -> Result<(std::borrow::Cow<'_, str>, usize), Malformed> {
    let end = string_end(text.as_bytes(), at + 1)?;
    let inside = &text[at + 1..end.quote];
    let inside = if end.escaped { unescape(inside).into() } else { inside.into() };
    Ok((inside, end.quote + 1))
}
