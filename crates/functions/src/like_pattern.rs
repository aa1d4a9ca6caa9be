//! Patterns of LIKE, compiled: `%` is any run of characters, `_` any one character.

use memchr::memmem;
use millstream_abi::prefetch;

/// A compiled pattern. The common shapes need no more than one search.
#[derive(Debug)]
pub(crate) enum LikePattern {
    /// No wildcard.
    Equals(Box<[u8]>),
    /// `text%`
    StartsWith(Box<[u8]>),
    /// `%text`
    EndsWith(Box<[u8]>),
    /// `%text%`
    Contains(Box<memmem::Finder<'static>>),
    /// Everything else: the pattern cut at `%`.
    Segments(Vec<Segment>),
}

/// What stands between two `%`: texts with a `_` between each two of them.
#[derive(Debug)]
pub(crate) struct Segment {
    pieces: Vec<Piece>,
}

/// A step of a segment.
#[derive(Debug)]
enum Piece {
    /// These bytes.
    Text(Box<[u8]>),
    /// `_`
    AnyChar,
}

impl Segment {
    /// Appends the text gathered so far, if any.
    fn flush(&mut self, text: &mut String) {
        if !text.is_empty() {
            self.pieces.push(Piece::Text(std::mem::take(text).into_bytes().into()));
        }
    }

    /// Where a match that starts at `at` ends.
    fn match_at(&self, s: &[u8], mut at: usize) -> Option<usize> {
        for piece in &self.pieces {
            at += match piece {
                Piece::Text(text) => s[at..].starts_with(text).then_some(text.len())?,
                Piece::AnyChar => char_bytes(*s.get(at)?),
            };
        }
        Some(at)
    }

    /// The end of the leftmost match that starts at or after `from`.
    fn find(&self, s: &[u8], from: usize) -> Option<usize> {
        let mut at = from;
        loop {
            if let Some(end) = self.match_at(s, at) {
                return Some(end);
            }
            at += char_bytes(*s.get(at)?);
        }
    }

    /// Whether the segment matches a suffix of `s` that starts at or after `from`.
    fn match_end(&self, s: &[u8], from: usize) -> bool {
        let mut at = s.len();
        for piece in self.pieces.iter().rev() {
            let before = match piece {
                Piece::Text(text) => s[..at].ends_with(text).then(|| at - text.len()),
                Piece::AnyChar => (0..at).rev().find(|i| !is_continuation(s[*i])),
            };
            match before {
                Some(start) => at = start,
                None => return false,
            }
        }
        at >= from
    }

    /// The text of a segment without `_`.
    fn as_text(&self) -> Option<&[u8]> {
        match &self.pieces[..] {
            [] => Some(&[]),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }
}

/// A character without its case. One becomes one, so that `_` counts the same; what has no small letter that is one character stays.
pub(crate) fn folded(c: char) -> char {
    let mut small = c.to_lowercase();
    match (small.next(), small.next()) {
        (Some(letter), None) => letter,
        _ => c,
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// Bytes of the UTF-8 character that starts with `first`.
fn char_bytes(first: u8) -> usize {
    match first {
        0..=0x7F => 1,
        0x80..=0xDF => 2,
        0xE0..=0xEF => 3,
        _ => 4,
    }
}

/// Brings the memory behind a long text into the cache while the text is searched: as many bytes as the text has. Texts of a column
/// mostly follow each other, and the processor stops reading ahead at the end of each search and of each page.
fn fetch_behind(text: &[u8]) {
    /// Searching less than this takes no longer than fetching it.
    const LEAST: usize = 256;
    /// Behind that the processor reads ahead by itself.
    const MOST: usize = 1024;
    if text.len() >= LEAST {
        prefetch(text.as_ptr().wrapping_add(text.len()), text.len().min(MOST));
    }
}

impl LikePattern {
    /// Compiles a pattern; an error says why the escape sequences in it are wrong.
    pub(crate) fn compile(pattern: &str, escape: Option<char>) -> Result<LikePattern, String> {
        Self::compile_with(pattern, escape, |c| c)
    }

    /// The same for texts that [`folded`] has been applied to.
    pub(crate) fn compile_folded(pattern: &str, escape: Option<char>) -> Result<LikePattern, String> {
        Self::compile_with(pattern, escape, folded)
    }

    fn compile_with(pattern: &str, escape: Option<char>, letter: fn(char) -> char) -> Result<LikePattern, String> {
        let mut segments = Self::segments(pattern, escape, letter)?;
        let texts: Option<Vec<&[u8]>> = segments.iter().map(Segment::as_text).collect();
        Ok(match texts.as_deref() {
            Some([text]) => LikePattern::Equals((*text).into()),
            Some([text, []]) => LikePattern::StartsWith((*text).into()),
            Some([[], text]) => LikePattern::EndsWith((*text).into()),
            Some([[], text, []]) => LikePattern::Contains(Box::new(memmem::Finder::new(text).into_owned())),
            _ => {
                // Empty segments in the middle come from `%%` and match everywhere.
                let last = segments.len() - 1;
                let mut index = 0;
                segments.retain(|segment| {
                    index += 1;
                    index == 1 || index == last + 1 || !segment.pieces.is_empty()
                });
                LikePattern::Segments(segments)
            }
        })
    }

    fn segments(pattern: &str, escape: Option<char>, letter: fn(char) -> char) -> Result<Vec<Segment>, String> {
        let mut segments = vec![Segment { pieces: vec![] }];
        let mut text = String::new();
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            let last = segments.last_mut().expect("there is one from the start");
            if Some(c) == escape {
                match chars.next() {
                    Some(next) if next == '%' || next == '_' || Some(next) == escape => text.push(letter(next)),
                    _ => return Err(format!("invalid escape sequence in the pattern '{pattern}'")),
                }
            } else if c == '%' || c == '_' {
                last.flush(&mut text);
                match c {
                    '%' => segments.push(Segment { pieces: vec![] }),
                    _ => last.pieces.push(Piece::AnyChar),
                }
            } else {
                text.push(letter(c));
            }
        }
        segments.last_mut().expect("there is one from the start").flush(&mut text);
        Ok(segments)
    }

    /// Whether the whole of `s` matches.
    pub(crate) fn matches(&self, s: &[u8]) -> bool {
        match self {
            LikePattern::Equals(text) => s == &**text,
            LikePattern::StartsWith(text) => s.starts_with(text),
            LikePattern::EndsWith(text) => s.ends_with(text),
            LikePattern::Contains(finder) => {
                fetch_behind(s);
                finder.find(s).is_some()
            }
            LikePattern::Segments(segments) => {
                fetch_behind(s);
                Self::match_segments(segments, s)
            }
        }
    }

    /// The first segment is anchored at the start, the last at the end; each one between is taken at its leftmost
    /// match, which leaves the most room for the next.
    fn match_segments(segments: &[Segment], s: &[u8]) -> bool {
        let (first, rest) = segments.split_first().expect("a pattern has a segment");
        let Some(mut at) = first.match_at(s, 0) else { return false };
        let Some((last, middle)) = rest.split_last() else { return at == s.len() };
        for segment in middle {
            match segment.find(s, at) {
                Some(end) => at = end,
                None => return false,
            }
        }
        last.match_end(s, at)
    }
}
