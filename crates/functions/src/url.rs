//! URLs: percent encoding and parts, as `java.net.URL` names them.

use crate::strings::part;
use millstream_abi::Str;

/// `URL_ENCODE(s)`: application/x-www-form-urlencoded, so a space becomes `+`.
pub(crate) fn url_encode(s: &str) -> String {
    let mut out = String::with_capacity(s.len() * 3);
    for byte in s.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'.' | b'-' | b'*' | b'_' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// `URL_DECODE(s)`: NULL when a `%` is not followed by two hexadecimal digits.
pub(crate) fn url_decode(s: &str) -> Option<String> {
    let mut out = Vec::with_capacity(s.len());
    let mut rest = s.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                out.extend(hex::decode(digits).ok()?);
                rest = after;
            }
            _ => out.push(byte),
        }
    }
    Some(String::from_utf8(out).unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned()))
}

/// `URL_DECODE_RECURSIVE(s, depth)`: decoded again and again until nothing changes, at most `depth` times; what cannot be
/// decoded any more stays as it is. NULL when `s` is malformed from the start, or `depth` is not positive.
pub(crate) fn url_decode_recursive(s: &str, depth: i32) -> Option<String> {
    if depth < 1 {
        return None;
    }
    let mut decoded = url_decode(s)?;
    let mut before = s.to_owned();
    for _ in 1..depth {
        if decoded == before {
            break;
        }
        let Some(next) = url_decode(&decoded) else { break };
        before = std::mem::replace(&mut decoded, next);
    }
    Some(decoded)
}

/// A URL taken apart; every part borrows from the text.
struct Url<'a> {
    protocol: &'a str,
    authority: Option<&'a str>,
    /// Path and query.
    file: &'a str,
    reference: Option<&'a str>,
}

impl<'a> Url<'a> {
    /// Protocols that Java has handlers for; it rejects URLs of others.
    const PROTOCOLS: [&'static str; 6] = ["http", "https", "ftp", "file", "jar", "mailto"];

    fn parse(text: &'a str) -> Option<Url<'a>> {
        let (protocol, rest) = text.trim_matches(|c| c <= ' ').split_once(':')?;
        if !Self::PROTOCOLS.iter().any(|known| known.eq_ignore_ascii_case(protocol)) {
            return None;
        }
        let (rest, reference) = match rest.split_once('#') {
            Some((rest, reference)) => (rest, Some(reference)),
            None => (rest, None),
        };
        let (authority, file) = match rest.strip_prefix("//") {
            Some(rest) => {
                let (authority, file) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
                (Some(authority), file)
            }
            None => (None, rest),
        };
        let url = Url { protocol, authority, file, reference };
        url.port_is_number().then_some(url)
    }

    /// The authority without the user.
    fn host_and_port(&self) -> &'a str {
        let authority = self.authority.unwrap_or_default();
        authority.rsplit_once('@').map_or(authority, |(_, host)| host)
    }

    /// Host, and what follows it; an IPv6 address keeps its brackets.
    fn split_host(&self) -> (&'a str, &'a str) {
        let both = self.host_and_port();
        let end_of_address = if both.starts_with('[') { both.find(']').map_or(0, |i| i + 1) } else { 0 };
        both.split_at(both[end_of_address..].find(':').map_or(both.len(), |i| i + end_of_address))
    }

    fn port_is_number(&self) -> bool {
        self.split_host().1.bytes().skip(1).all(|b| b.is_ascii_digit())
    }

    fn query(&self) -> Option<&'a str> {
        self.file.split_once('?').map(|(_, query)| query)
    }

    fn part(&self, name: &str) -> Option<&'a str> {
        match name {
            "PROTOCOL" => Some(self.protocol),
            "AUTHORITY" => self.authority,
            "USERINFO" => self.authority?.rsplit_once('@').map(|(user, _)| user),
            "HOST" => Some(self.split_host().0),
            "PATH" => Some(self.file.split_once('?').map_or(self.file, |(path, _)| path)),
            "QUERY" => self.query(),
            "FILE" => Some(self.file),
            "REF" => self.reference,
            _ => None,
        }
    }
}

/// `PARSE_URL(url, part)`: NULL for text that is not a URL, for an absent part and for an unknown part.
pub(crate) fn parse_url(url: &str, name: &str) -> Option<Str> {
    Url::parse(url)?.part(name).map(part)
}

/// `PARSE_URL(url, 'QUERY', key)`: the value of the first parameter of that name; NULL for other parts.
pub(crate) fn parse_url_key(url: &str, name: &str, key: &str) -> Option<Str> {
    if name != "QUERY" {
        return None;
    }
    let query = Url::parse(url)?.query()?;
    query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('=')).map(part)
}
