//! JSON paths: `$.a.b[0]`, `['x']`, `[*]`, `..x`, slices; lax and strict.
//!
//! The dialect is that of Flink (which uses the Jayway library): a path without a mode is strict, a path need not start
//! with `$`, and a path that can select more than one value ([`Path::is_definite`] is false) selects an array of them.
//! Filters (`[?(…)]`) and functions are not part of it here.

use super::document::Value;

/// How missing parts are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Missing parts select nothing.
    Lax,
    /// Missing parts are errors.
    Strict,
}

/// One step into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// `.name`, `['name']`, `['a', 'b']`
    Properties(Vec<String>),
    /// `[3]`, `[0, 2]`; negative ones count from the end.
    Indices(Vec<i64>),
    /// `[1:3]`
    Slice(Option<i64>, Option<i64>),
    /// `[*]`, `.*`
    Wildcard,
    /// `..`, before the step that it applies to.
    Descend,
}

/// A compiled path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) mode: Mode,
    steps: Vec<Step>,
}

/// What a path selects.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Selected<'v> {
    /// The value of a definite path.
    One(&'v Value),
    /// The values of an indefinite path, in order.
    Many(Vec<&'v Value>),
}

impl Path {
    /// Reads a path; the error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Path, String> {
        let (mode, path) = split_mode(text);
        let mut parser = Parser { text, rest: path.trim() };
        let steps = parser.steps()?;
        Ok(Path { mode, steps })
    }

    /// Whether the path selects at most one value.
    pub(crate) fn is_definite(&self) -> bool {
        self.steps.iter().all(Step::is_definite)
    }

    /// What the path selects from `root`; `None` when a part is missing whose step is definite, as are all before it.
    pub(crate) fn select<'v>(&self, root: &'v Value) -> Option<Selected<'v>> {
        let mut found = vec![root];
        let mut descend = false;
        let mut definite = true;
        for step in &self.steps {
            definite &= step.is_definite();
            if *step == Step::Descend {
                descend = true;
                continue;
            }
            if std::mem::take(&mut descend) {
                let mut all = Vec::new();
                found.iter().for_each(|value| descendants(value, &mut all));
                found = all;
            }
            found = found.into_iter().flat_map(|value| step.select(value)).collect();
            if definite && found.is_empty() {
                return None;
            }
        }
        if self.is_definite() { found.first().map(|value| Selected::One(value)) } else { Some(Selected::Many(found)) }
    }
}

/// The mode in front of a path, and the path.
fn split_mode(text: &str) -> (Mode, &str) {
    let trimmed = text.trim_start();
    let after = |word: &str| {
        let (head, rest) = trimmed.split_at_checked(word.len())?;
        (head.eq_ignore_ascii_case(word) && rest.starts_with(char::is_whitespace) && !rest.trim().is_empty())
            .then_some(rest)
    };
    match (after("lax"), after("strict")) {
        (Some(rest), _) => (Mode::Lax, rest),
        (_, Some(rest)) => (Mode::Strict, rest),
        _ => (Mode::Strict, text),
    }
}

/// `value` and everything within it, parents first.
fn descendants<'v>(value: &'v Value, all: &mut Vec<&'v Value>) {
    all.push(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| descendants(item, all)),
        Value::Object(fields) => fields.iter().for_each(|(_, field)| descendants(field, all)),
        _ => {}
    }
}

/// The element at an index, from the end if it is negative.
fn element(items: &[Value], index: i64) -> Option<&Value> {
    let length = items.len() as i64;
    let index = if index < 0 { index + length } else { index };
    usize::try_from(index).ok().and_then(|index| items.get(index))
}

impl Step {
    /// Whether it selects at most one value.
    fn is_definite(&self) -> bool {
        matches!(self, Step::Properties(names) if names.len() == 1)
            || matches!(self, Step::Indices(indices) if indices.len() == 1)
    }

    fn select<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match (self, value) {
            (Step::Properties(names), value) => names.iter().filter_map(|name| value.field(name)).collect(),
            (Step::Indices(indices), Value::Array(items)) => {
                indices.iter().filter_map(|index| element(items, *index)).collect()
            }
            (Step::Slice(from, to), Value::Array(items)) => {
                let length = items.len() as i64;
                let bound = |at: &Option<i64>, otherwise: i64| match at {
                    Some(at) if *at < 0 => (at + length).clamp(0, length) as usize,
                    Some(at) => (*at).min(length) as usize,
                    None => otherwise as usize,
                };
                let (from, to) = (bound(from, 0), bound(to, length));
                items[from.min(to)..to].iter().collect()
            }
            (Step::Wildcard, Value::Array(items)) => items.iter().collect(),
            (Step::Wildcard, Value::Object(fields)) => fields.iter().map(|(_, field)| field).collect(),
            _ => vec![],
        }
    }
}

struct Parser<'t> {
    /// The whole path, for messages.
    text: &'t str,
    rest: &'t str,
}

impl Parser<'_> {
    fn wrong(&self, what: &str) -> String {
        format!("'{}' is not a JSON path: {what}", self.text)
    }

    fn take(&mut self, prefix: char) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn steps(&mut self) -> Result<Vec<Step>, String> {
        if self.rest.is_empty() {
            return Err(self.wrong("it is empty"));
        }
        let mut steps = Vec::new();
        // A path without a root starts with the name of a property.
        if !self.take('$') && !self.rest.starts_with('[') {
            steps.push(self.name()?);
        }
        while !self.rest.is_empty() {
            if self.take('.') {
                let descends = self.take('.');
                if descends {
                    steps.push(Step::Descend);
                }
                // Flink takes `$.['a']` for `$['a']`.
                if !self.rest.starts_with('[') {
                    steps.push(self.name()?);
                    continue;
                }
            }
            if !self.take('[') {
                return Err(self.wrong(&format!("expected `.` or `[` at '{}'", self.rest)));
            }
            steps.push(self.bracket()?);
        }
        Ok(steps)
    }

    /// A name after a point, or `*`.
    fn name(&mut self) -> Result<Step, String> {
        let end = self.rest.find(['.', '[']).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        match name.trim() {
            "" => Err(self.wrong("the name of a property is missing")),
            "*" => Ok(Step::Wildcard),
            call if call.ends_with(')') => Err(self.wrong("functions in paths are not supported")),
            name => Ok(Step::Properties(vec![name.to_owned()])),
        }
    }

    /// What stands in brackets, after the opening one.
    fn bracket(&mut self) -> Result<Step, String> {
        self.rest = self.rest.trim_start();
        match self.rest.chars().next() {
            Some('\'' | '"') => self.quoted_names(),
            Some('?') => Err(self.wrong("filters are not supported")),
            Some(_) => {
                let end = self.rest.find(']').ok_or_else(|| self.wrong("`]` is missing"))?;
                let inside = self.rest[..end].trim();
                self.rest = &self.rest[end + 1..];
                self.position(inside)
            }
            None => Err(self.wrong("`]` is missing")),
        }
    }

    fn position(&self, inside: &str) -> Result<Step, String> {
        let number = |text: &str| {
            text.trim().parse::<i64>().map_err(|_| self.wrong(&format!("'{inside}' is not the index of an element")))
        };
        let bound = |text: &str| (!text.trim().is_empty()).then(|| number(text)).transpose();
        if inside == "*" {
            return Ok(Step::Wildcard);
        }
        if let Some((from, to)) = inside.split_once(':') {
            return Ok(Step::Slice(bound(from)?, bound(to)?));
        }
        inside.split(',').map(number).collect::<Result<_, _>>().map(Step::Indices)
    }

    /// `'a'`, or `'a', "b"`, up to the closing bracket.
    fn quoted_names(&mut self) -> Result<Step, String> {
        let mut names = Vec::new();
        loop {
            self.rest = self.rest.trim_start();
            let quote = match self.rest.chars().next() {
                Some(quote @ ('\'' | '"')) => quote,
                _ => return Err(self.wrong("expected a quoted name in brackets")),
            };
            let mut name = String::new();
            let mut end = None;
            let mut chars = self.rest.char_indices().skip(1);
            while let Some((at, c)) = chars.next() {
                match c {
                    '\\' => name.extend(chars.next().map(|(_, c)| c)),
                    c if c == quote => {
                        end = Some(at + 1);
                        break;
                    }
                    c => name.push(c),
                }
            }
            let end = end.ok_or_else(|| self.wrong("a quote is not closed"))?;
            self.rest = self.rest[end..].trim_start();
            names.push(name);
            if self.take(']') {
                break;
            }
            if !self.take(',') {
                return Err(self.wrong("`]` is missing"));
            }
        }
        Ok(Step::Properties(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn select(path: &str, value: &serde_json::Value) -> Option<serde_json::Value> {
        let value = Value::parse(&value.to_string()).unwrap();
        let mut text = String::new();
        match Path::parse(path).unwrap().select(&value)? {
            Selected::One(value) => value.write(&mut text),
            Selected::Many(values) => Value::Array(values.into_iter().cloned().collect()).write(&mut text),
        }
        Some(serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn selects_by_every_kind_of_step() {
        let value = json!({"a": [{"b": 1}, {"b": 2}, {"c": 3}], "x y": {"z.z": 4}, "n": null});
        assert_eq!(select("$.a[0].b", &value), Some(json!(1)));
        assert_eq!(select("a[-1].c", &value), Some(json!(3)));
        assert_eq!(select("$['x y'][\"z.z\"]", &value), Some(json!(4)));
        assert_eq!(select("$.['x y'].['z.z']", &value), Some(json!(4)));
        assert_eq!(select("lax $.a[*].b", &value), Some(json!([1, 2])));
        assert_eq!(select("$.a[0,1].b", &value), Some(json!([1, 2])));
        assert_eq!(select("$.a[1:]", &value), Some(json!([{"b": 2}, {"c": 3}])));
        assert_eq!(select("$..b", &value), Some(json!([1, 2])));
        assert_eq!(select("$.n", &value), Some(json!(null)));
        assert_eq!(select("$.missing", &value), None);
        assert_eq!(select("$.a[9]", &value), None);
        assert_eq!(select("$.a.b", &value), None);
    }

    #[test]
    fn knows_the_mode() {
        assert_eq!(Path::parse("$.a").unwrap().mode, Mode::Strict);
        assert_eq!(Path::parse(" LAX  $.a").unwrap().mode, Mode::Lax);
        assert_eq!(Path::parse("strict $").unwrap().mode, Mode::Strict);
    }

    #[test]
    fn explains_bad_paths() {
        for (path, what) in [
            ("", "empty"),
            ("$[", "`]` is missing"),
            ("$['a", "quote"),
            ("$[x]", "index"),
            ("$.", "name"),
            ("$[?(@.a)]", "filters"),
            ("$.length()", "functions"),
            ("$a", "expected"),
        ] {
            assert!(Path::parse(path).unwrap_err().contains(what), "{path}");
        }
    }
}
