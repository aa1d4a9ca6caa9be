//! Which columns are in the key of a message and which in its value, and in which formats.

use super::options::VALUE_FIELDS;
use crate::declaration::PartFormat;
use crate::format::{Format, MessageFormat};
use crate::formats::FORMATS;
use crate::infer::{FormatInput, not_known};
use crate::option_table::{both_given, option_fault};
use millstream_types::{Diagnostic, Field, Inferred, Options, Schema, TakesChanges, code};

/// The formats of a table: of values, then of keys, if they have one.
pub(super) fn formats(options: &Options) -> Result<Vec<PartFormat>, Diagnostic> {
    let value = match (options.get("format"), options.get("value.format")) {
        (Some(_), Some(_)) => {
            return Err(both_given("there are both a format and a value.format", "format", "value.format"));
        }
        (None, Some(name)) => PartFormat { prefix: "value.", format: Format::named(name, "value.format")? },
        _ => PartFormat { prefix: "", format: Format::of(options)? },
    };
    let mut formats = vec![value];
    if let Some(name) = options.get("key.format") {
        formats.push(PartFormat { prefix: "key.", format: Format::named(name, "key.format")? });
    }
    for part in &formats {
        if part.format.messages.is_none() {
            let names = FORMATS.iter().filter(|format| format.messages.is_some()).map(|format| format.name);
            let advice = format!("formats of messages: {}", names.collect::<Vec<_>>().join(", "));
            let message = format!("the format '{}' is not for messages", part.format.name);
            return Err(option_fault(code::INVALID_OPTION, &format!("{}format", part.prefix), message, advice));
        }
    }
    Ok(formats)
}

/// Which changes a topic can be given: what the format of its values can say.
pub(super) fn takes_changes(options: &Options) -> TakesChanges {
    value_format(options).map_or(TakesChanges::Nothing, Format::takes_changes)
}

/// Whether the messages of a topic are changes: what the format of its values says.
pub(super) fn gives_changes(options: &Options) -> bool {
    value_format(options).is_some_and(Format::gives_changes)
}

fn value_format(options: &Options) -> Option<&'static Format> {
    formats(options).ok()?.first().map(|part| part.format)
}

/// Makes the primary key of a table the keys of its messages.
pub(super) fn set_keys(options: &mut Options, table: &str, schema: &Schema, key: &[usize]) -> Result<(), Diagnostic> {
    if key.is_empty() {
        let message = format!("table '{table}' ('connector' = 'upsert-kafka') has no PRIMARY KEY");
        return Err(Diagnostic::new(code::INVALID_TABLE, message)
            .advise("add PRIMARY KEY (k) NOT ENFORCED to CREATE TABLE: its columns are the keys of the messages"));
    }
    let names: Vec<&str> = key.iter().map(|&at| schema.fields[at].name.as_str()).collect();
    options.set("key.fields", names.join(";"));
    Ok(())
}

/// A part of a message: its value or its key.
pub(super) struct MessagePart {
    /// How it is read and written.
    pub format: &'static MessageFormat,
    /// The options of the table, those of the format as if it were the only one.
    pub options: Options,
    /// The table's columns that it has, by position in the table.
    pub columns: Vec<usize>,
    /// What a record of it looks like.
    pub schema: Schema,
    /// `<format>.ignore-parse-errors`
    pub ignores_errors: bool,
}

/// The parts of a table's messages.
pub(super) struct MessageParts {
    pub value: MessagePart,
    pub key: Option<MessagePart>,
}

impl MessageParts {
    /// By the options and the physical columns of a table.
    pub(super) fn of(options: &Options, schema: &Schema) -> Result<MessageParts, Diagnostic> {
        let mut formats = formats(options)?.into_iter();
        let value_format = formats.next().ok_or_else(|| Diagnostic::bug("a table has no format"))?;
        let prefix = options.get("key.fields-prefix").unwrap_or_default();
        let value_has_key = VALUE_FIELDS.choice(options, &[("ALL", true), ("EXCEPT_KEY", false)])?;
        if value_has_key && !prefix.is_empty() {
            return Err(options
                .invalid("key.fields-prefix", "possible while the value has the key's columns")
                .advise("set 'value.fields-include' = 'EXCEPT_KEY'"));
        }
        let keys = key_columns(options, schema, prefix)?;
        let key = match (formats.next(), keys.is_empty()) {
            (Some(format), false) => {
                let field = |at: &usize| {
                    let Field { name, data_type, nullable, .. } = schema.fields[*at].clone();
                    Field::new(&name[prefix.len()..], data_type, nullable)
                };
                let fields = keys.iter().map(field).collect();
                Some(part(options, &format, keys.clone(), Schema::new(fields))?)
            }
            (None, true) => None,
            (Some(_), true) => return Err(missing("key.format", "key.fields")),
            (None, false) => return Err(missing("key.fields", "key.format")),
        };
        let in_value = |at: &usize| value_has_key || !keys.contains(at);
        let columns: Vec<usize> = (0..schema.fields.len()).filter(in_value).collect();
        let fields = columns.iter().map(|at| schema.fields[*at].clone()).collect();
        let value = part(options, &value_format, columns, Schema::new(fields))?;
        Ok(MessageParts { value, key })
    }
}

fn missing(given: &str, wanted: &str) -> Diagnostic {
    let (message, advice) =
        (format!("'{given}' is given, but not '{wanted}'"), format!("give both '{given}' and '{wanted}', or none"));
    option_fault(code::MISSING_OPTION, wanted, message, advice)
}

fn key_columns(options: &Options, schema: &Schema, prefix: &str) -> Result<Vec<usize>, Diagnostic> {
    let mut columns = Vec::new();
    for name in options.get("key.fields").unwrap_or_default().split(';').map(str::trim).filter(|n| !n.is_empty()) {
        let found = schema.fields.iter().position(|field| field.name == name);
        let column = found.ok_or_else(|| {
            let names: Vec<&str> = schema.fields.iter().map(|field| field.name.as_str()).collect();
            options.invalid("key.fields", "a list of columns").advise(format!("columns: {}", names.join(", ")))
        })?;
        if !name.starts_with(prefix) {
            return Err(options
                .invalid("key.fields", &format!("a list of columns whose names begin with '{prefix}'"))
                .advise("give the names as the table has them, with the prefix"));
        }
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    Ok(columns)
}

/// The columns of a topic whose values have their schema in a registry.
pub(super) fn infer(options: &Options) -> Result<Inferred, Diagnostic> {
    let mut formats = formats(options)?.into_iter();
    let value = formats.next().ok_or_else(|| Diagnostic::bug("a table has no format"))?;
    // Other formats say it by their records, and those of a topic may be of any kind.
    if value.format.infer.is_none() || value.format.extension.is_some() {
        let name = value.format.name;
        return Err(not_known(format!(
            "records of the format '{name}' in a topic do not say which columns the table has"
        )));
    }
    let open = |_, _| unreachable!("there are no files");
    value.format.columns(&FormatInput { options: &own_options(options, &value), files: &[], open: &open })
}

/// The options of a table as the format of a part knows them.
fn own_options(options: &Options, part: &PartFormat) -> Options {
    let mut own = options.clone();
    for info in part.format.options.iter().filter(|_| !part.prefix.is_empty()) {
        own.remove(info.key);
        if let Some(value) = options.get(&format!("{}{}", part.prefix, info.key)) {
            own.set(info.key, value);
        }
    }
    let subject = "avro-confluent.subject";
    if own.get(subject).is_none() {
        let topic = options.get("topic").unwrap_or_default();
        own.set(subject, format!("{topic}-{}", if part.prefix == "key." { "key" } else { "value" }));
    }
    own
}

fn part(options: &Options, part: &PartFormat, columns: Vec<usize>, schema: Schema) -> Result<MessagePart, Diagnostic> {
    let format = part.format.messages.as_ref().ok_or_else(|| Diagnostic::bug("a format of messages has none"))?;
    let own = own_options(options, part);
    let ignore = format!("{}.ignore-parse-errors", part.format.name);
    let ignores_errors = own.boolean(&ignore, false)?;
    Ok(MessagePart { format, options: own, columns, schema, ignores_errors })
}
