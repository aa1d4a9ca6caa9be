//! Which field a key of an object stands for, guessed from the order in which keys came before.
//!
//! Records of a stream are written by the same program, so their keys follow in the same order, and after each key one
//! comparison of raw bytes with the key that followed last time suffices. A wrong guess costs a search; it never
//! changes the result.

use super::scan::{Scan, byte, skip_space, string_end, unescape, unexpected};

/// Keys that are remembered for each object, so that objects used as maps do not grow without bound.
const MAX_KEYS: usize = 128;

/// What a key stands for: the field of this position, or nothing that is wanted.
pub(super) type Meaning = Option<usize>;

#[derive(Debug, Clone)]
struct Key {
    /// Without escapes.
    name: Vec<u8>,
    /// As it stands in the text, quotes and colon included; see [`raw_key`].
    raw: RawKey,
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
                raw: RawKey::new(name.as_bytes()),
                meaning: Some(i),
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
            && key.raw.stands_at(data, at)
        {
            *previous = guess;
            return Ok((key.meaning, at + key.raw.bytes.len()));
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
                self.keys.push(Key { name: name.to_vec(), raw: RawKey::new(name), meaning: None, next });
                self.keys.len() - 1
            }
            None => return Ok((None, colon + 1)),
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

/// The bytes of a key, to be compared with those of a text.
#[derive(Debug, Clone)]
struct RawKey {
    bytes: Vec<u8>,
    /// The first 16 bytes, and which of their bits count: two words are compared faster than a slice of some length.
    head: u128,
    mask: u128,
}

/// Bytes that are compared at once.
const HEAD: usize = size_of::<u128>();

impl RawKey {
    fn new(name: &[u8]) -> RawKey {
        let bytes = raw_key(name);
        let (mut head, mut mask) = ([0; HEAD], [0; HEAD]);
        let length = bytes.len().min(HEAD);
        head[..length].copy_from_slice(&bytes[..length]);
        mask[..length].fill(0xff);
        RawKey { bytes, head: u128::from_le_bytes(head), mask: u128::from_le_bytes(mask) }
    }

    #[inline(always)]
    fn stands_at(&self, data: &[u8], at: usize) -> bool {
        match data.get(at..at + HEAD) {
            Some(text) => {
                let text = u128::from_le_bytes(text.try_into().expect("as many bytes as a word has"));
                (text ^ self.head) & self.mask == 0
                    && (self.bytes.len() <= HEAD || data[at + HEAD..].starts_with(&self.bytes[HEAD..]))
            }
            None => data.get(at..).is_some_and(|rest| rest.starts_with(&self.bytes)),
        }
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
            assert_eq!(read(r#""other":1"#, &mut previous), (None, 8));
            assert_eq!(read(r#""b" : 1"#, &mut previous), (Some(1), 5));
            assert_eq!(read(r#""\u0061":1"#, &mut previous), (Some(0), 9));
        }
    }

    #[test]
    fn long_keys_are_compared_to_their_end() {
        let mut table =
            KeyTable::new(["exactly_13_ch", "a_name_of_more_than_16", "a_name_of_more_than_17"].into_iter());
        for text in [r#""a_name_of_more_than_16":1"#, r#""a_name_of_more_than_16":1, and more text behind"#] {
            for _ in 0..2 {
                assert_eq!(table.read(text, 0, &mut START.clone()), Ok((Some(1), 25)));
            }
        }
        let text = r#""a_name_of_more_than_17":1, and more text behind"#;
        assert_eq!(table.read(text, 0, &mut START.clone()), Ok((Some(2), 25)));
        assert_eq!(table.read(r#""exactly_13_ch":1"#, 0, &mut START.clone()), Ok((Some(0), 16)));
    }

    #[test]
    fn a_name_with_a_quote_in_it_is_not_confused() {
        // The column `x":"y` must not match the text `"x":"y":`.
        let mut table = KeyTable::new(["x\":\"y"].into_iter());
        let mut previous = START;
        assert_eq!(table.read(r#""x":"y":"#, 0, &mut previous), Ok((None, 4)));
        let mut previous = START;
        assert_eq!(table.read(r#""x\":\"y":1"#, 0, &mut previous), Ok((Some(0), 10)));
    }

    #[test]
    fn objects_used_as_maps_stay_bounded() {
        let mut table = KeyTable::new(["a"].into_iter());
        let mut previous = START;
        for i in 0..10_000 {
            let text = format!("\"key{i}\":1");
            assert_eq!(table.read(&text, 0, &mut previous).unwrap().0, None);
        }
        assert!(table.keys.len() <= MAX_KEYS);
        assert_eq!(table.read(r#""a":1"#, 0, &mut previous).unwrap().0, Some(0));
    }
}
