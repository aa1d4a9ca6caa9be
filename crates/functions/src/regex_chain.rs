//! Regular expressions that need no engine: a literal, what stands right before it, and what follows it link by link.
//!
//! What queries extract with is mostly of this kind: `(&|^)channel_id=([^&]*)`, `query=([0-9]+)`, `^https?://([^/]+)/`. Where
//! such a pattern matches is found by a search for its first literal, and from there every link takes as much as it can:
//! no byte that a link can take may begin what follows it, so that taking less would not help. An engine that tracks all
//! ways to match costs several times as much.
//!
//! A chain finds the leftmost match, and in it the groups, that the engine does. Patterns that are more than a chain have
//! none: alternatives (but for what stands before the literal), optional groups, lazy repetitions, word boundaries, line
//! anchors, and sets of characters that are more than ASCII with all or nothing of the rest.

use memchr::{memchr, memmem::Finder};
use regex_syntax::hir::{Class, Hir, HirKind, Look};
use std::ops::Range;

/// Bytes that a link can take.
type ByteSet = Box<[bool; 256]>;

/// A pattern as a chain of links.
#[derive(Debug)]
pub(crate) struct RegexChain {
    start: Start,
    links: Vec<Link>,
}

/// Where a match can start.
#[derive(Debug)]
enum Start {
    /// At the start of the text.
    Text,
    /// At an occurrence of the first literal.
    Literal(Finder<'static>),
    /// One byte before an occurrence of the first literal, or, if the flag is set, at one that starts the text.
    ByteBefore(ByteSet, bool, Finder<'static>),
}

#[derive(Debug)]
enum Link {
    /// What stands before the first literal.
    Before,
    /// The first literal, which has been found.
    Found,
    Literal(Box<[u8]>),
    /// From `min` to `max` bytes of a set.
    Bytes {
        set: ByteSet,
        min: usize,
        max: usize,
    },
    /// Any number of bytes, from `min` on, up to this one.
    Until {
        byte: u8,
        min: usize,
    },
    /// A group begins.
    Open(usize),
    /// A group ends.
    Close(usize),
    /// The end of the text.
    End,
}

/// What a search has found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Find {
    /// A match, and a group of it.
    Match {
        whole: Range<usize>,
        group: Range<usize>,
    },
    Nothing,
    /// Too many starts were in vain: an engine, which looks at every byte once, is to be asked.
    GaveUp,
}

impl RegexChain {
    /// The chain of a pattern in the syntax of the `regex` crate, if it is one.
    pub(crate) fn of(pattern: &str) -> Option<RegexChain> {
        let mut parts = Vec::new();
        flatten(&regex_syntax::parse(pattern).ok()?, &mut parts)?;
        let mut parts = parts.into_iter().peekable();
        let mut links = Vec::new();
        while let Some(Part::Link(Link::Open(_) | Link::Close(_))) = parts.peek() {
            links.extend(parts.next().and_then(Part::link));
        }
        let start = match parts.next()? {
            Part::Start => Start::Text,
            Part::Link(Link::Literal(text)) => {
                links.push(Link::Found);
                Start::Literal(Finder::new(&text).into_owned())
            }
            Part::Before(set, or_start) => {
                links.push(Link::Before);
                while let Some(Part::Link(Link::Open(_) | Link::Close(_))) = parts.peek() {
                    links.extend(parts.next().and_then(Part::link));
                }
                let Part::Link(Link::Literal(text)) = parts.next()? else { return None };
                // Else a match at the start of the text could be either of two.
                if set[usize::from(text[0])] {
                    return None;
                }
                links.push(Link::Found);
                Start::ByteBefore(set, or_start, Finder::new(&text).into_owned())
            }
            Part::Link(_) => return None,
        };
        for part in parts {
            links.push(match part {
                Part::Before(set, false) => Link::Bytes { set, min: 1, max: 1 },
                part => part.link()?,
            });
        }
        takes_all_it_can(&links).then(|| RegexChain { start, links: links.into_iter().map(Link::faster).collect() })
    }

    /// The leftmost match that starts at or after `from`, and its group `group`, which exists.
    #[inline]
    pub(crate) fn find_at(&self, s: &str, from: usize, group: usize) -> Find {
        let s = s.as_bytes();
        let (finder, before) = match &self.start {
            Start::Text if from > 0 => return Find::Nothing,
            Start::Text => return self.follow(s, 0, 0, 0, group).unwrap_or(Find::Nothing),
            Start::Literal(finder) => (finder, None),
            Start::ByteBefore(set, or_start, finder) => (finder, Some((set, *or_start))),
        };
        // Bytes that were looked at in vain.
        let (mut next, mut spent) = (from, 0);
        while let Some(offset) = finder.find(&s[next..]) {
            let found = next + offset;
            let start = match before {
                None => Some(found),
                Some((_, or_start)) if found == 0 => or_start.then_some(0),
                Some((set, _)) => (found > from && set[usize::from(s[found - 1])]).then(|| found - 1),
            };
            if let Some(start) = start {
                match self.follow(s, start, found, found + finder.needle().len(), group) {
                    Ok(found) => return found,
                    Err(at) => spent += at - start,
                }
            }
            if spent > s.len() {
                return Find::GaveUp;
            }
            next = found + 1;
        }
        Find::Nothing
    }

    /// The match that starts at `start`, with its first literal from `found` to `found_end`; how far it went if there is none.
    #[inline]
    fn follow(&self, s: &[u8], start: usize, found: usize, found_end: usize, group: usize) -> Result<Find, usize> {
        let (mut at, mut open, mut close) = (start, start, start);
        for link in &self.links {
            match link {
                Link::Before => at = found,
                Link::Found => at = found_end,
                Link::Literal(text) if s[at..].starts_with(text) => at += text.len(),
                Link::Literal(_) => return Err(at),
                Link::Bytes { set, min, max } => {
                    let rest = &s[at..s.len().min(at.saturating_add(*max))];
                    let taken = rest.iter().position(|byte| !set[usize::from(*byte)]).unwrap_or(rest.len());
                    at += taken;
                    if taken < *min {
                        return Err(at);
                    }
                }
                Link::Until { byte, min } => {
                    let taken = memchr(*byte, &s[at..]).unwrap_or(s.len() - at);
                    at += taken;
                    if taken < *min {
                        return Err(at);
                    }
                }
                Link::Open(number) if *number == group => open = at,
                Link::Close(number) if *number == group => close = at,
                Link::Open(_) | Link::Close(_) => {}
                Link::End if at < s.len() => return Err(at),
                Link::End => {}
            }
        }
        let whole = start..at;
        let group = if group == 0 { whole.clone() } else { open..close };
        Ok(Find::Match { whole, group })
    }
}

impl Link {
    /// The same link, as a search for a byte where that is possible.
    fn faster(self) -> Link {
        let Link::Bytes { set, min, max: usize::MAX } = &self else { return self };
        let mut left_out = (0..=255).filter(|byte| !set[usize::from(*byte)]);
        match (left_out.next(), left_out.next()) {
            (Some(byte), None) => Link::Until { byte, min: *min },
            _ => self,
        }
    }
}

/// A part of a pattern.
enum Part {
    Link(Link),
    /// `^`
    Start,
    /// One byte of a set, or, if the flag is set, the start of the text.
    Before(ByteSet, bool),
}

impl Part {
    fn link(self) -> Option<Link> {
        match self {
            Part::Link(link) => Some(link),
            Part::Start | Part::Before(..) => None,
        }
    }
}

/// Appends the parts of a pattern; `None` when it is more than a chain.
fn flatten(hir: &Hir, parts: &mut Vec<Part>) -> Option<()> {
    match hir.kind() {
        HirKind::Empty => {}
        HirKind::Literal(literal) => match parts.last_mut() {
            Some(Part::Link(Link::Literal(before))) => *before = [before, &*literal.0].concat().into(),
            _ => parts.push(Part::Link(Link::Literal(literal.0.clone()))),
        },
        HirKind::Look(Look::Start) => parts.push(Part::Start),
        HirKind::Look(Look::End) => parts.push(Part::Link(Link::End)),
        HirKind::Look(_) => return None,
        HirKind::Class(class) => parts.push(Part::Before(ascii_set(class)?, false)),
        HirKind::Repetition(repetition) => {
            let set = byte_set(&repetition.sub)?;
            let (min, max) = (repetition.min as usize, repetition.max.map_or(usize::MAX, |max| max as usize));
            // A character that is not ASCII has several bytes, which are not counted.
            let is_countable = !set[0x80] || min <= 1 && max == usize::MAX;
            if !is_countable || !repetition.greedy && min != max {
                return None;
            }
            parts.push(Part::Link(Link::Bytes { set, min, max }));
        }
        HirKind::Capture(capture) => {
            parts.push(Part::Link(Link::Open(capture.index as usize)));
            flatten(&capture.sub, parts)?;
            parts.push(Part::Link(Link::Close(capture.index as usize)));
        }
        HirKind::Concat(all) => all.iter().try_for_each(|part| flatten(part, parts))?,
        HirKind::Alternation(all) => {
            let (mut set, mut or_start) = (no_byte(), false);
            for alternative in all {
                match alternative.kind() {
                    HirKind::Look(Look::Start) => or_start = true,
                    _ => {
                        let more = byte_set(alternative).filter(|set| !set[0x80])?;
                        set.iter_mut().zip(more.iter()).for_each(|(byte, more)| *byte |= more);
                    }
                }
            }
            parts.push(Part::Before(set, or_start));
        }
    }
    Some(())
}

/// Whether every link can take as much as possible: what it can take never begins what follows it.
fn takes_all_it_can(links: &[Link]) -> bool {
    // The bytes that may come next.
    let mut next = no_byte();
    for link in links.iter().rev() {
        match link {
            Link::Literal(text) => {
                next = no_byte();
                next[usize::from(text[0])] = true;
            }
            Link::Bytes { set, min, max } => {
                if min != max && set.iter().zip(next.iter()).any(|(byte, next)| *byte && *next) {
                    return false;
                }
                let may_be_absent = *min == 0;
                next.iter_mut().zip(set.iter()).for_each(|(next, byte)| *next = *byte || *next && may_be_absent);
            }
            Link::End => next = no_byte(),
            Link::Before | Link::Found | Link::Until { .. } | Link::Open(_) | Link::Close(_) => {}
        }
    }
    true
}

fn no_byte() -> ByteSet {
    Box::new([false; 256])
}

/// The bytes of a pattern that is one character.
fn byte_set(hir: &Hir) -> Option<ByteSet> {
    match hir.kind() {
        HirKind::Class(class) => class_set(class),
        HirKind::Literal(literal) => {
            let [byte] = *literal.0 else { return None };
            let mut set = no_byte();
            set[usize::from(byte)] = true;
            Some(set)
        }
        _ => None,
    }
}

/// The bytes of a class that has either all or none of the characters beyond ASCII.
fn class_set(class: &Class) -> Option<ByteSet> {
    let Class::Unicode(class) = class else { return None };
    let mut set = no_byte();
    let mut beyond = 0;
    for range in class.iter() {
        for c in '\0'..='\x7f' {
            set[c as usize] |= (range.start()..=range.end()).contains(&c);
        }
        if range.end() > '\x7f' {
            beyond += 1;
            if range.start() > '\u{80}' || range.end() < char::MAX {
                return None;
            }
        }
    }
    set[0x80..].fill(beyond > 0);
    Some(set)
}

fn ascii_set(class: &Class) -> Option<ByteSet> {
    class_set(class).filter(|set| !set[0x80])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::draws;

    fn is_chain(pattern: &str) -> bool {
        RegexChain::of(pattern).is_some()
    }

    #[test]
    fn what_queries_extract_with_is_a_chain() {
        for pattern in [
            "(&|^)channel_id=([^&]*)",
            "(?:^|[?&])id=([^&]+)",
            "query=([0-9]+)",
            "^https?://([^/]+)/",
            "[?&]a=(b[0-9]{1,3})$",
            "^([a-z]+)-([0-9]+)$",
            "item",
            "^",
        ] {
            assert!(is_chain(pattern), "{pattern}");
        }
        for pattern in [
            "a|b",
            "key=(a)?",
            "key=(.*?)&",
            "\\bkey=",
            "(?m)^key=",
            "(?i)key=",
            "(?i)^key=k",
            "[a-z]+/item",
            "x[a-z]*e",
            "(a|^)ab",
            "x[^&]{2}",
            "x[^&]",
            "x(ab)*",
            "x^",
            "",
            "$",
            "é[^\\x{80}]*",
        ] {
            // `$` alone and the empty pattern have no first literal.
            assert!(!is_chain(pattern), "{pattern}");
        }
    }

    #[test]
    fn chains_find_what_the_engine_does() {
        let patterns = [
            "(&|^)ab([^&]*)",
            "(^|[&b])a(a*)&",
            "(?:^|[?&])a=([^&b]+)",
            "a(b?)(c*)&",
            "^a?(b*)c",
            "^(?:(a*)b{1,2})$",
            "(a)(b)([ac]{0,2})$",
            "b([^a]+)(a*)$",
            "(é)([^a&]*)",
            "[&a]b(a|c)",
            "aa([^b]*)b",
            "(a)",
            "^",
            "()a[abc]{2}b",
            "(?:a)[?=0-9]*b",
            "&\\?(a)",
        ];
        let pieces = ["a", "b", "c", "&", "ab", "a=", "é", "?", "aa", "\n"];
        let mut below = draws(5);
        for pattern in patterns {
            let chain = RegexChain::of(pattern).unwrap_or_else(|| panic!("{pattern}"));
            let engine = ::regex::Regex::new(pattern).unwrap();
            let (mut found, mut vain) = (0, 0);
            for _ in 0..5_000 {
                let s: String = (0..below(14)).map(|_| pieces[below(pieces.len())]).collect();
                let from = s.floor_char_boundary(below(s.len() + 1).saturating_sub(below(6)));
                for group in 0..engine.captures_len() {
                    let got = chain.find_at(&s, from, group);
                    let range = |captures: &::regex::Captures<'_>, group| captures.get(group).map(|part| part.range());
                    let expected = engine.captures_at(&s, from).map(|all| (range(&all, 0), range(&all, group)));
                    match got {
                        Find::Match { whole, group: part } => {
                            found += 1;
                            assert_eq!(Some((Some(whole), Some(part))), expected, "{pattern} {s} {from} {group}");
                        }
                        Find::Nothing => assert_eq!(expected, None, "{pattern} {s} {from} {group}"),
                        Find::GaveUp => vain += 1,
                    }
                }
            }
            assert!(found > 50 && vain < found, "{pattern} {found} {vain}");
        }
    }

    #[test]
    fn vain_starts_are_left_to_the_engine() {
        let chain = RegexChain::of("a[^b]*b").unwrap();
        assert_eq!(chain.find_at(&"a".repeat(100), 0, 0), Find::GaveUp);
        assert_eq!(chain.find_at("aab", 0, 0), Find::Match { whole: 0..3, group: 0..3 });
    }
}
