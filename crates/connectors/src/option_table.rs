//! Options of connectors and formats: declared once, checked at opening, and printed into the documentation.

use millstream_types::{Code, Diagnostic, Options, Place, code};
use std::str::FromStr;
use std::time::Duration;

/// One option of a connector or a format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OptionInfo {
    /// Key in `WITH (…)`; a key ending in `.*` stands for all keys below.
    pub key: &'static str,
    /// Default as text; empty when there is none.
    pub default: &'static str,
    /// What it does, in Markdown.
    pub meaning: &'static str,
}

/// The options of a connector or a format, a row for each: its name in the code, if that asks for it, then key, default and meaning. The
/// first row names the list.
macro_rules! option_list {
    ($vis:vis $list:ident; $($($name:ident =)? $key:literal, $default:literal, $meaning:literal;)*) => {
        $vis const $list: &[$crate::option_table::OptionInfo] =
            &[$($crate::option_table::OptionInfo { key: $key, default: $default, meaning: $meaning }),*];
        $($(
            $vis const $name: $crate::option_table::OptionInfo =
                $crate::option_table::OptionInfo { key: $key, default: $default, meaning: $meaning };
        )?)*
    };
}
pub(crate) use option_list;

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
        let (last, others) = all.split_last().expect("there is a choice");
        let others: Vec<&str> = others.iter().map(|(name, _)| *name).collect();
        options.invalid(key, &format!("{} or {}", others.join(", "), last.0))
    })
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
        Some(near) => format!("did you mean '{near}'? {list}"),
        None => list,
    }
}

/// Fails on the first option that is in none of the tables, with the nearest one as advice. The keys of a table have its
/// prefix before them.
pub(crate) fn check_options(options: &Options, what: &str, tables: &[(&str, &[OptionInfo])]) -> Result<(), Diagnostic> {
    let keys = tables.iter().flat_map(|(prefix, table)| table.iter().map(move |info| format!("{prefix}{}", info.key)));
    let mut known: Vec<String> = keys.collect();
    known.sort_unstable();
    known.dedup();
    for (key, _) in options.iter() {
        let matches = |known: &String| match known.strip_suffix(".*") {
            Some(prefix) => key.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.')),
            None => known == key,
        };
        if known.iter().any(matches) {
            continue;
        }
        let names: Vec<&str> = known.iter().map(String::as_str).collect();
        let message = format!("{what} has no option '{key}'");
        return Err(option_fault(code::UNKNOWN_OPTION, key, message, known_names(key, "options", &names)));
    }
    Ok(())
}

/// The candidate that is most like `name`, if one is like it at all.
fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
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
    for OptionInfo { key, default, meaning } in options {
        let default = if default.is_empty() { "–".to_string() } else { format!("`{default}`") };
        // A bar would end the table's cell.
        let row = format!("| `{key}` | {} | {} |\n", default.replace('|', "\\|"), meaning.replace('|', "\\|"));
        out.push_str(&row);
    }
    out.push('\n');
}
