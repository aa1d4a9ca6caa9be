//! Secrets: which options hold them, and how text that leaves the process is kept free of them.
//!
//! There is one list, [`is_secret`]. The values of such options are remembered when a statement's text is read
//! ([`remember_statement`]), and [`conceal`] masks them wherever they stand in a text: in messages (every
//! [`Diagnostic`](crate::Diagnostic) does that itself), in lines of SQL that are shown, in EXPLAIN and SHOW CREATE.
//! So a secret stays hidden, too, when a server or a library repeats it in an error.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

/// What is shown instead of a secret.
pub const MASK: &str = "******";

/// Parts of the names of options whose values are secret: those of Flink's list and what Kafka's properties add.
const SECRET_PARTS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "jaas.config",
    "basic-auth",
    "user-info",
    "user.info",
    "apikey",
    "api-key",
    "api.key",
    "auth-params",
    "account.key",
    "access-key",
    "access.key",
    "service-key",
    "private-key",
    "private.key",
    "ssl.key.pem",
    "ssl.keystore.key",
    "credential",
    "http-headers",
];

/// Options that one of the parts above fits and that hold no secret.
const NO_SECRETS: &[&str] = &["token.endpoint.url", "token.url", "token-provider", "token-topic", "credentials.source"];

/// Values that are shorter are masked only where they stand alone: they are found within words that mean something else.
const SHORT: usize = 8;
/// Values that are shorter are masked only as values of their options.
const SHORTEST: usize = 3;

/// What has been remembered, longest first.
static KNOWN: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Whether the value of an option is a secret.
pub fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    // A misspelt one is answered with an error, which must not show the value.
    let is_misspelt = |word: &str| word == "pwd" || (word.starts_with("pas") && word.contains('w'));
    let is_secret = SECRET_PARTS.iter().any(|part| key.contains(part)) || key.split(['.', '-', '_']).any(is_misspelt);
    is_secret && !NO_SECRETS.iter().any(|part| key.contains(part))
}

/// The value of an option as it may be shown: masked if it is a secret, and without the user and password of a URL.
pub fn shown<'a>(key: &str, value: &'a str) -> Cow<'a, str> {
    match is_secret(key) {
        true => Cow::Borrowed(MASK),
        false => conceal(value),
    }
}

/// Remembers the secrets of a text of SQL: of each `'key' = 'value'` whose key is a secret's, of each `PASSWORD 'value'`, and of each URL
/// among the strings.
/// It need not be correct SQL, as errors show lines of text that is not.
pub fn remember_statement(sql: &str) {
    let mut strings = strings(sql).peekable();
    while let Some(range) = strings.next() {
        let string = unquoted(&sql[range.clone()]);
        url_secrets(&string).into_iter().for_each(|range| remember(&string[range]));
        let word = sql[..range.start].trim_end().rsplit(|c: char| !c.is_alphanumeric() && c != '_').next();
        if word.is_some_and(|word| !word.is_empty() && is_secret(word)) {
            remember(&string);
        }
        // What stands behind a sign is a value, whatever word is in it. The sign of a key may have been forgotten.
        let is_key = |next: &Range<usize>| {
            is_secret(&string)
                && !sql[..range.start].trim_end().ends_with('=')
                && matches!(sql[range.end..next.start].trim(), "" | "=")
        };
        if let Some(value) = strings.next_if(is_key) {
            let value = unquoted(&sql[value]);
            remember(&value);
            // A value that holds pairs itself, such as JAAS's, has its secrets within.
            pairs(&value).into_iter().for_each(|range| remember(&value[range]));
        }
    }
}

/// Remembers a secret. One of several lines (a key in PEM) is remembered line by line, as texts are shown by lines.
pub fn remember(secret: &str) {
    for line in secret.lines().map(str::trim).filter(|line| line.len() >= SHORTEST && !line.starts_with("-----")) {
        // What a user and password are separated by in an option of both.
        let parts = line.split_once(':').filter(|_| !line.contains(char::is_whitespace)).map(|(_, password)| password);
        for part in [Some(line), parts.filter(|part| part.len() >= SHORTEST)].into_iter().flatten() {
            let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
            if !known.iter().any(|k| k == part) {
                let at = known.partition_point(|k| k.len() >= part.len());
                known.insert(at, part.to_string());
            }
        }
    }
}

/// The text with [`MASK`] in place of each secret: of what is remembered, of users and passwords in URLs
/// (`https://user:password@host`), and of values of secret options (`password=…`, `'sasl.password' = '…'`).
pub fn conceal(text: &str) -> Cow<'_, str> {
    let hidden = hidden(text);
    if hidden.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut from = 0;
    for range in hidden {
        shown.push_str(&text[from..range.start]);
        shown.push_str(MASK);
        from = range.end;
    }
    shown.push_str(&text[from..]);
    Cow::Owned(shown)
}

/// The ranges of a text that [`conceal`] masks: in order, apart from one another.
pub fn hidden(text: &str) -> Vec<Range<usize>> {
    let mut ranges = pairs(text);
    ranges.extend(url_secrets(text));
    for known in &*KNOWN.read().unwrap_or_else(PoisonError::into_inner) {
        ranges.extend(
            text.match_indices(known.as_str())
                .map(|(at, found)| at..at + found.len())
                .filter(|range| known.len() >= SHORT || !touches_word(text, range)),
        );
    }
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut apart: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match apart.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart.retain(|range| &text[range.clone()] != MASK);
    apart
}

fn touches_word(text: &str, range: &Range<usize>) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text[..range.start].ends_with(is_word) || text[range.end..].starts_with(is_word)
}

/// The values of secret options in `key=value`, `key="value"`, `'key' = 'value'`, without their quotes.
fn pairs(text: &str) -> Vec<Range<usize>> {
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let mut ranges = vec![];
    for (at, _) in text.match_indices('=') {
        let before = text[..at].trim_end_matches([' ', '\t', '\'', '"', '`']);
        let key = before.trim_end_matches(is_key).len();
        if !is_secret(&before[key..]) {
            continue;
        }
        let rest = text[at + 1..].trim_start_matches([' ', '\t']);
        let start = text.len() - rest.len();
        match rest.chars().next().filter(|c| matches!(c, '\'' | '"')) {
            Some(quote) => {
                let within = &rest[1..];
                let end = closing(within, quote).unwrap_or(within.find('\n').unwrap_or(within.len()));
                ranges.push(start + 1..start + 1 + end);
            }
            None => {
                let end =
                    rest.find(|c: char| c.is_whitespace() || matches!(c, '&' | ';' | ',' | '\'' | '"' | ')' | '`'));
                ranges.push(start..start + end.unwrap_or(rest.len()));
            }
        }
    }
    ranges.retain(|range| !range.is_empty());
    ranges
}

/// Where a string ends whose first quote has been read: a quote that is doubled stands for itself.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut quotes = text.match_indices(quote).map(|(at, _)| at).peekable();
    while let Some(at) = quotes.next() {
        if quotes.next_if_eq(&(at + 1)).is_none() {
            return Some(at);
        }
    }
    None
}

/// The user and password of each URL in a text.
fn url_secrets(text: &str) -> Vec<Range<usize>> {
    let of_url = |(at, _): (usize, &str)| {
        let start = at + "://".len();
        let rest = &text[start..];
        let rest =
            &rest[..rest.find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`')).unwrap_or(rest.len())];
        let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        // What stands behind a colon and is no port is a password, in which such a character should have been encoded.
        let is_cut =
            authority.rsplit_once(':').is_some_and(|(_, port)| !port.bytes().all(|byte| byte.is_ascii_digit()));
        let authority = if is_cut && !authority.contains(['@', '[']) { rest } else { authority };
        authority.rfind('@').filter(|&end| end > 0).map(|end| start..start + end)
    };
    text.match_indices("://").filter_map(of_url).collect()
}

/// The string literals of a text with their quotes, outside comments.
fn strings(sql: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = &sql[at..];
            let next = rest.find(['\'', '-', '/', '`'])?;
            let found = &rest[next..];
            let skip = |end: Option<usize>, from: usize| end.map_or(found.len(), |end| from + end);
            let length = match found.as_bytes() {
                [b'\'', ..] => {
                    let end = skip(closing(&found[1..], '\'').map(|end| end + 1), 1);
                    at += next + end;
                    return Some(at - end..at);
                }
                [b'`', ..] => skip(found[1..].find('`').map(|end| end + 1), 1),
                [b'-', b'-', ..] => skip(found.find('\n'), 0),
                [b'/', b'*', ..] => skip(found.find("*/"), 2),
                _ => 1,
            };
            at += next + length;
        }
    })
}

/// The content of a string literal.
fn unquoted(literal: &str) -> String {
    let content = literal.strip_prefix('\'').unwrap_or(literal);
    content.strip_suffix('\'').unwrap_or(content).replace("''", "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_secret_options() {
        let secret = [
            "password",
            "properties.sasl.password",
            "properties.sasl.jaas.config",
            "properties.ssl.key.password",
            "properties.ssl.keystore.key",
            "properties.ssl.key.pem",
            "properties.sasl.oauthbearer.client.secret",
            "avro-confluent.basic-auth.user-info",
            "avro-confluent.bearer-auth.token",
            "s3.secret-key",
            "s3.access-key",
            "properties.sasl.pasword",
            "passwrod",
            "pwd",
        ];
        secret.iter().for_each(|key| assert!(is_secret(key), "{key}"));
        let plain =
            ["username", "url", "topic", "properties.ssl.key.location", "key.fields", "table-name", "sink.token-topic"];
        plain.iter().for_each(|key| assert!(!is_secret(key), "{key}"));
        assert!(!is_secret("properties.sasl.oauthbearer.token.endpoint.url"));
    }

    #[test]
    fn conceals_values_of_options_and_urls() {
        let cases = [
            ("'password' = 'a''b', 'url' = 'x'", "'password' = '******', 'url' = 'x'"),
            (
                "jdbc:postgresql://h/db?user=u&password=pw&ssl=true",
                "jdbc:postgresql://h/db?user=u&password=******&ssl=true",
            ),
            ("http://u:p@host:8081/x and http://host/u@x", "http://******@host:8081/x and http://host/u@x"),
            ("http://u:p/q@r@host/x and http://h:80/a@b", "http://******@host/x and http://h:80/a@b"),
            ("username=\"u\" password=\"p q\";", "username=\"u\" password=\"******\";"),
            ("a = 1 and b == 2", "a = 1 and b == 2"),
            ("password=", "password="),
            ("'password' = 'not closed", "'password' = '******"),
            ("password = ******", "password = ******"),
        ];
        for (text, expected) in cases {
            assert_eq!(conceal(text), expected);
        }
    }

    #[test]
    fn remembers_what_statements_hold() {
        let pem = "'ssl.key.pem' = '-----BEGIN KEY-----\nQ0FOQVJZX1BFTQ\n-----END KEY-----'";
        let sql = format!(
            "-- it's a comment\nCREATE TABLE t (a INT) WITH ('url' = 'https://me:canary_url@h', 'sasl.password' 'canary_value',\n\
             /* ' */ {pem}, 'sasl.jaas.config' = 'x.PlainLoginModule required username=\"u\" password=\"canary_jaas\";',\n\
             'basic-auth.user-info' = 'me:canary_info', 'k.password' = 'pw1')"
        );
        remember_statement(&sql);
        for canary in ["canary_url", "canary_value", "Q0FOQVJZX1BFTQ", "canary_jaas", "canary_info"] {
            assert_eq!(conceal(&format!("the server says: {canary}!")), format!("the server says: {MASK}!"));
        }
        // Values and lists have words of secrets, too.
        remember_statement(
            "'topic' = 'user-tokens', 'format' = 'json'; SELECT s IN ('password', 'token', 'key'), 'token' 'x y z'",
        );
        assert_eq!(conceal("the format of this key"), "the format of this key");
        // Short ones are masked alone, not within words.
        assert_eq!(conceal("pw1 is not pw12"), format!("{MASK} is not pw12"));
        assert_eq!(conceal("it's a comment"), "it's a comment");
    }
}
