//! Which field a key of an object stands for, guessed from the order in which keys came before.
//!
//! Records of a stream are written by the same program, so their keys follow in the same order, and after each key one
//! comparison of raw bytes with the key that followed last time suffices. A wrong guess costs a search; it never
//! changes the result.

use super::scan::{Scan, byte, skip_space, string_end, unescape, unexpected};

/// Keys that are remembered for each object, so that objects used as maps do not grow without bound.
const MAX_KEYS: usize = 128;

/// What a key stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The field of this position.
    Field(usize),
    /// Nothing that is wanted.
    Unwanted,
}

#[derive(Debug, Clone)]
struct Key {
    /// Without escapes.
    name: Vec<u8>,
    /// As it stands in the text, quotes and colon included; see [`raw_key`].
    raw: Vec<u8>,
    meaning: Meaning,
    /// The key that followed this one last time.
    next: usize,
}

/// The keys of one object of the schema.
#[derive(Debug, Clone)]
pub(super) struct KeyTable {
    keys: Vec<Key>,
    /// The key that was first last time.
    first: usize,
}

/// The key before the first.
pub(super) const START: usize = usize::MAX;

impl KeyTable {
    /// A table of the fields of these names, in the order in which they are expected.
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>) -> KeyTable {
        let mut keys: Vec<Key> = names
            .enumerate()
            .map(|(i, name)| Key {
                name: name.as_bytes().to_vec(),
                raw: raw_key(name.as_bytes()),
                meaning: Meaning::Field(i),
                next: i + 1,
            })
            .collect();
        if let Some(last) = keys.last_mut() {
            last.next = 0;
        }
        KeyTable { keys, first: 0 }
    }

    /// Reads the key at `at`, whose predecessor in the object was `previous` ([`START`] for none). Gives its meaning and
    /// the position behind the colon, and sets `previous`.
    #[inline]
    pub(super) fn read(&mut self, text: &str, at: usize, previous: &mut usize) -> Scan<(Meaning, usize)> {
        let data = text.as_bytes();
        let guess = if *previous == START { self.first } else { self.keys[*previous].next };
        if let Some(key) = self.keys.get(guess)
            && data.get(at..).is_some_and(|rest| rest.starts_with(&key.raw))
        {
            *previous = guess;
            return Ok((key.meaning, at + key.raw.len()));
        }
        self.search(text, at, previous)
    }

    fn search(&mut self, text: &str, at: usize, previous: &mut usize) -> Scan<(Meaning, usize)> {
        let data = text.as_bytes();
        if byte(data, at) != b'"' {
            return Err(unexpected(data, at, "a key in quotes was expected"));
        }
        let end = string_end(data, at + 1)?;
        let colon = skip_space(data, end.quote + 1);
        if byte(data, colon) != b':' {
            return Err(unexpected(data, colon, "a colon was expected"));
        }
        let name = &text[at + 1..end.quote];
        let unescaped;
        let name = if end.escaped {
            unescaped = unescape(name);
            unescaped.as_bytes()
        } else {
            name.as_bytes()
        };
        let found = match self.keys.iter().position(|key| key.name == name) {
            Some(found) => found,
            None if self.keys.len() < MAX_KEYS => {
                let next = self.keys.len() + 1;
                self.keys.push(Key { name: name.to_vec(), raw: raw_key(name), meaning: Meaning::Unwanted, next });
                self.keys.len() - 1
            }
            None => return Ok((Meaning::Unwanted, colon + 1)),
        };
        if *previous == START {
            self.first = found;
        } else {
            self.keys[*previous].next = found;
        }
        *previous = found;
        Ok((self.keys[found].meaning, colon + 1))
    }
}

/// `"name":`, as it stands in a text without needless escapes and spaces. A name that must be escaped is never guessed:
/// its plain spelling could be mistaken for a key and the value behind it, so it gets a byte that no text contains.
fn raw_key(name: &[u8]) -> Vec<u8> {
    if name.iter().any(|b| matches!(b, b'"' | b'\\' | 0..0x20)) {
        return vec![0xff];
    }
    let mut raw = Vec::with_capacity(name.len() + 3);
    raw.push(b'"');
    raw.extend_from_slice(name);
    raw.extend_from_slice(b"\":");
    raw
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_keys_in_any_order_and_spelling() {
        let mut table = KeyTable::new(["a", "b"].into_iter());
        let mut read = |text: &str, previous: &mut usize| table.read(text, 0, previous).unwrap();
        for _ in 0..3 {
            let mut previous = START;
            assert_eq!(read(r#""other":1"#, &mut previous), (Meaning::Unwanted, 8));
            assert_eq!(read(r#""b" : 1"#, &mut previous), (Meaning::Field(1), 5));
            assert_eq!(read(r#""\u0061":1"#, &mut previous), (Meaning::Field(0), 9));
        }
    }

    #[test]
    fn a_name_with_a_quote_in_it_is_not_confused() {
        // The column `x":"y` must not match the text `"x":"y":`.
        let mut table = KeyTable::new(["x\":\"y"].into_iter());
        let mut previous = START;
        assert_eq!(table.read(r#""x":"y":"#, 0, &mut previous), Ok((Meaning::Unwanted, 4)));
        let mut previous = START;
        assert_eq!(table.read(r#""x\":\"y":1"#, 0, &mut previous), Ok((Meaning::Field(0), 10)));
    }

    #[test]
    fn objects_used_as_maps_stay_bounded() {
        let mut table = KeyTable::new(["a"].into_iter());
        let mut previous = START;
        for i in 0..10_000 {
            let text = format!("\"key{i}\":1");
            assert_eq!(table.read(&text, 0, &mut previous).unwrap().0, Meaning::Unwanted);
        }
        assert!(table.keys.len() <= MAX_KEYS);
        assert_eq!(table.read(r#""a":1"#, 0, &mut previous).unwrap().0, Meaning::Field(0));
    }
}
