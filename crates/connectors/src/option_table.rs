//! Options of connectors and formats: declared once, checked at opening, and printed into the documentation.

use millstream_types::{Diagnostic, Options, Place, code};

/// One option of a connector or a format.
#[derive(Debug, Clone, Copy)]
pub struct OptionInfo {
    /// Key in `WITH (…)`; a key ending in `.*` stands for all keys below.
    pub key: &'static str,
    /// Default as text; empty when there is none.
    pub default: &'static str,
    /// What it does, in Markdown.
    pub meaning: &'static str,
}

/// An entry of an option table.
pub const fn option(key: &'static str, default: &'static str, meaning: &'static str) -> OptionInfo {
    OptionInfo { key, default, meaning }
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
        let list = format!("known options: {}", known.join(", "));
        let advice = match nearest(key, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean '{near}'? {list}"),
            None => list,
        };
        return Err(Diagnostic::new(code::UNKNOWN_OPTION, format!("{what} has no option '{key}'"))
            .at(Place::Option(key.to_string()))
            .advise(advice));
    }
    Ok(())
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
    for OptionInfo { key, default, meaning } in options {
        let default = if default.is_empty() { "–".to_string() } else { format!("`{default}`") };
        // A bar would end the table's cell.
        let row = format!("| `{key}` | {} | {} |\n", default.replace('|', "\\|"), meaning.replace('|', "\\|"));
        out.push_str(&row);
    }
    out.push('\n');
}
