//! Options of connectors and formats: declared once, checked when a table is defined and when it is opened, and printed into the
//! documentation and into classes of Python ([`crate::python`]).

use millstream_types::{Code, Diagnostic, Options, Place, code};
use std::str::FromStr;
use std::time::Duration;

/// One option of a connector or a format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OptionInfo {
    /// Key in `WITH (…)`; a key ending in `.*` stands for all keys below.
    pub key: &'static str,
    /// What its value is.
    pub kind: OptionKind,
    /// Default as text; empty when there is none.
    pub default: &'static str,
    /// What it does, in Markdown.
    pub meaning: &'static str,
}

/// What the value of an option is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OptionKind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Integer,
    /// A number, perhaps with a fraction.
    Number,
    /// A length of time, see [`Options::duration`].
    Duration,
    /// A number of bytes, see [`Options::memory_bytes`].
    Size,
    /// Milliseconds since 1970-01-01 00:00:00 UTC, or one of some words.
    Instant(&'static [&'static str]),
    /// One of some words, without regard to case where the option is read so.
    Choice(&'static [&'static str]),
    /// Texts with this between them.
    List(&'static str),
    /// A path or pattern of files.
    Path,
    /// An offset for each of some partitions: `partition:0,offset:42;partition:1,offset:300`.
    Offsets,
    /// The name of a format, whose own options have this prefix.
    Format(&'static str),
    /// Any keys and values: of a key that ends in `.*`.
    Map,
    /// These options for each of some columns, `<key>.<column>.<option>`: of a key that ends in `.*`.
    Columns(&'static [OptionInfo]),
    /// Another way to write an option.
    Alias,
    /// What must be given.
    Required(&'static OptionKind),
}

/// The options of a connector or a format, a row for each: its name in the code, if that asks for it, then key, kind, default and meaning.
/// The first row names the list.
macro_rules! option_list {
    ($vis:vis $list:ident; $($($name:ident =)? $key:literal: $kind:expr, $default:literal, $meaning:literal;)*) => {
        $vis const $list: &[$crate::option_table::OptionInfo] = {
            #[allow(unused_imports, reason = "a list has few of the kinds")]
            use $crate::option_table::OptionKind::*;
            &[$($crate::option_table::OptionInfo { key: $key, kind: $kind, default: $default, meaning: $meaning }),*]
        };
        $($(
            $vis const $name: $crate::option_table::OptionInfo = {
                #[allow(unused_imports, reason = "an option has one of the kinds")]
                use $crate::option_table::OptionKind::*;
                $crate::option_table::OptionInfo { key: $key, kind: $kind, default: $default, meaning: $meaning }
            };
        )?)*
    };
}
pub(crate) use option_list;

impl OptionKind {
    /// Fails on a value that the option cannot have. What only the connector knows, such as bounds of a number, it says when it is opened.
    fn check(&self, options: &Options, key: &str) -> Result<(), Diagnostic> {
        let text = options.get(key).unwrap_or_default().trim();
        let is_one_of = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(text));
        match self {
            OptionKind::Bool => options.boolean(key, false).map(drop),
            OptionKind::Integer if text.parse::<i128>().is_err() => Err(options.invalid(key, "a whole number")),
            OptionKind::Number if text.parse::<f64>().is_err() => Err(options.invalid(key, "a number")),
            OptionKind::Duration => options.duration(key, Duration::ZERO).map(drop),
            OptionKind::Size => options.memory_bytes(key, 0).map(drop),
            OptionKind::Instant(words) if text.parse::<i64>().is_err() && !is_one_of(words) => {
                Err(options.invalid(key, "milliseconds since 1970"))
            }
            OptionKind::Choice(words) if !is_one_of(words) => Err(not_one_of(options, key, words)),
            OptionKind::Columns(settings) => {
                let setting = settings.iter().find(|setting| key.rsplit('.').next() == Some(setting.key));
                setting.map_or(Ok(()), |setting| setting.kind.check(options, key))
            }
            OptionKind::Required(kind) => kind.check(options, key),
            _ => Ok(()),
        }
    }
}

/// The values that a table gives an option, or its default.
impl OptionInfo {
    pub(crate) fn text<'o>(&self, options: &'o Options) -> &'o str {
        options.get(self.key).unwrap_or(self.default)
    }

    pub(crate) fn boolean(&self, options: &Options) -> Result<bool, Diagnostic> {
        self.alone(options).boolean(self.key, false)
    }

    pub(crate) fn duration(&self, options: &Options) -> Result<Duration, Diagnostic> {
        self.alone(options).duration(self.key, Duration::ZERO)
    }

    pub(crate) fn memory_bytes(&self, options: &Options) -> Result<u64, Diagnostic> {
        self.alone(options).memory_bytes(self.key, 0)
    }

    pub(crate) fn parse<T: FromStr + Default>(&self, options: &Options) -> Result<T, Diagnostic> {
        self.alone(options).parse(self.key, T::default())
    }

    /// What one of some names stands for.
    pub(crate) fn choice<T: Clone>(&self, options: &Options, all: &[(&str, T)]) -> Result<T, Diagnostic> {
        choice(&self.alone(options), self.key, all)
    }

    /// Fails on any other value than the default.
    pub(crate) fn only(&self, options: &Options) -> Result<(), Diagnostic> {
        if self.text(options) == self.default { Ok(()) } else { Err(options.invalid(self.key, self.default)) }
    }

    fn alone(&self, options: &Options) -> Options {
        Options::from_iter([(self.key.to_string(), self.text(options).to_string())])
    }
}

/// What the name that an option gives stands for; without one, the first of all.
pub(crate) fn choice<T: Clone>(options: &Options, key: &str, all: &[(&str, T)]) -> Result<T, Diagnostic> {
    let given = options.get(key).unwrap_or(all[0].0);
    let found = all.iter().find(|(name, _)| *name == given).map(|(_, meaning)| meaning.clone());
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        not_one_of(options, key, &names)
    })
}

/// The error for a value that is not one of `names`, with the one that was probably meant.
fn not_one_of(options: &Options, key: &str, names: &[&str]) -> Diagnostic {
    let given = options.get(key).unwrap_or_default();
    let starts = names.iter().find(|name| !given.is_empty() && name.starts_with(given));
    let invalid = options.invalid(key, &one_of(names));
    match starts.copied().or_else(|| nearest(given, names.iter().copied())) {
        Some(near) => invalid.advise(format!("did you mean '{near}'?")),
        None => invalid,
    }
}

/// `a, b or c`
fn one_of(names: &[&str]) -> String {
    match names {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// An error about an option of a table.
pub(crate) fn option_fault(code: Code, key: &str, message: impl Into<String>, advice: impl Into<String>) -> Diagnostic {
    Diagnostic::new(code, message).at(Place::Option(key.into())).advise(advice)
}

/// The error for two options of which a table can have one.
pub(crate) fn both_given(message: &str, first: &str, second: &str) -> Diagnostic {
    option_fault(code::INVALID_OPTION, second, message, format!("give one of '{first}' and '{second}'"))
}

/// What to write instead of a name that does not exist: the one that is most like it; and all.
pub(crate) fn known_names(name: &str, what: &str, names: &[&str]) -> String {
    let list = format!("known {what}: {}", names.join(", "));
    match nearest(name, names.iter().copied()) {
        Some(near) if names.len() > 12 => format!("did you mean '{near}'?"),
        Some(near) => format!("did you mean '{near}'? {list}"),
        None => list,
    }
}

/// The error for a value of an option that names what only other builds of the program have.
pub(crate) fn not_built(code: Code, key: &str, what: &str) -> Diagnostic {
    let advice = "build it with everything: make release";
    option_fault(code, key, format!("this program was built without the {what}"), advice)
}

/// Fails on the first option that is in none of the tables, with the nearest one as advice, or whose value is of another kind, and on one
/// that must be given and is not. The keys of a table have its prefix before them.
pub(crate) fn check_options(
    options: &Options,
    what: &str,
    tables: &[(&str, &'static [OptionInfo])],
) -> Result<(), Diagnostic> {
    let keys = |(prefix, table): &(&str, &'static [OptionInfo])| {
        let prefix = prefix.to_string();
        table.iter().map(move |info| (format!("{prefix}{}", info.key), info.kind))
    };
    let known: Vec<(String, OptionKind)> = tables.iter().flat_map(keys).collect();
    for (key, _) in options.iter() {
        let matches = |(known, _): &&(String, OptionKind)| match known.strip_suffix(".*") {
            Some(prefix) => key.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.')),
            None => known == key,
        };
        if let Some((_, kind)) = known.iter().find(matches) {
            kind.check(options, key)?;
            continue;
        }
        let mut names: Vec<&str> = known.iter().map(|(key, _)| key.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let message = format!("{what} has no option '{key}'");
        let format = key
            .split_once('.')
            .map(|(format, _)| format)
            .filter(|format| ["json", "csv", "row", "avro", "raw", "parquet", "debezium-json"].contains(format));
        let advice = match (nearest(key, names.iter().copied()), format) {
            (None, Some(format)) if !names.iter().any(|name| name.starts_with(&format!("{format}."))) => {
                format!("it is an option of the format '{format}': leave it out, or write 'format' = '{format}'")
            }
            (Some(_), _) => known_names(key, "options", &names),
            (None, _) => format!("leave it out; {}", known_names(key, "options", &names)),
        };
        return Err(option_fault(code::UNKNOWN_OPTION, key, message, advice));
    }
    // The format is there: its options are among the tables.
    let is_required =
        |kind: &OptionKind| matches!(kind, OptionKind::Required(kind) if !matches!(kind, OptionKind::Format(_)));
    known.iter().filter(|(_, kind)| is_required(kind)).try_for_each(|(key, _)| options.require(key).map(drop))
}

/// The candidate that is most like `name`, if one is like it at all.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    candidates
        .map(|candidate| (strsim::normalized_damerau_levenshtein(&name, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(similarity, _)| *similarity > 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// A Markdown table of options.
pub(crate) fn markdown(options: &[OptionInfo], out: &mut String) {
    out.push_str("| option | default | meaning |\n| --- | --- | --- |\n");
    rows("", options, out);
    out.push('\n');
}

fn rows(prefix: &str, options: &[OptionInfo], out: &mut String) {
    for OptionInfo { key, kind, default, meaning } in options {
        let default = match kind {
            OptionKind::Required(_) => "required".to_string(),
            _ if default.is_empty() => "–".to_string(),
            _ => format!("`{default}`"),
        };
        // A bar would end the table's cell.
        let row = format!("| `{prefix}{key}` | {} | {} |\n", default.replace('|', "\\|"), meaning.replace('|', "\\|"));
        out.push_str(&row);
        if let OptionKind::Columns(settings) = kind {
            rows(&format!("{}<column>.", key.trim_end_matches('*')), settings, out);
        }
    }
}
