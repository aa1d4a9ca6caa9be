//! What function bodies keep between rows: compiled patterns and random number generators.
//!
//! A worker owns its context, so nothing here is locked. Every cache is bounded: a query whose patterns come from a
//! column may see any number of them.

use crate::date_pattern::DatePattern;
use crate::java_random::Generators;
use crate::java_regex::CompiledRegex;
use crate::json::{LastDocument, Path};
use crate::like_pattern::LikePattern;
use crate::text::Text;
use memchr::memmem::Finder;
use millstream_abi::Str;
use millstream_types::text::zone::LocalClock;
use std::collections::HashMap;

/// Compiled patterns of one kind.
const CAPACITY: usize = 128;
/// Patterns that are compared before the map is asked.
const NEAR: usize = 8;

/// Compiled forms by pattern text. The pattern of a call is nearly always that of the call before it, or, where a row has
/// several, the one that was first seen after that: so those are compared first, without hashing. A full cache is emptied,
/// which costs one compilation per pattern still in use.
#[derive(Debug)]
pub(crate) struct PatternCache<T> {
    entries: Vec<Entry<T>>,
    positions: HashMap<Box<str>, usize>,
    last: usize,
}

#[derive(Debug)]
struct Entry<T> {
    text: Box<str>,
    /// A value over `text`, whose bytes do not move with the entry.
    value: Str,
    compiled: T,
}

impl<T> Entry<T> {
    #[inline]
    fn is_of(&self, pattern: Text<'_>) -> bool {
        Text::over(self.value, &self.text).is(pattern)
    }
}

impl<T> Default for PatternCache<T> {
    fn default() -> PatternCache<T> {
        PatternCache { entries: Vec::new(), positions: HashMap::new(), last: 0 }
    }
}

impl<T> PatternCache<T> {
    /// The compiled form of `pattern`, made by `compile` when it is not there.
    #[inline]
    pub(crate) fn get<'a>(&mut self, pattern: impl Into<Text<'a>>, compile: impl FnOnce(&str) -> T) -> &mut T {
        let pattern = pattern.into();
        if !self.entries.get(self.last).is_some_and(|entry| entry.is_of(pattern)) {
            self.last = match self.nearby(pattern).or_else(|| self.positions.get(&*pattern).copied()) {
                Some(position) => position,
                None => self.insert(&pattern, compile(&pattern)),
            };
        }
        &mut self.entries[self.last].compiled
    }

    /// Where the pattern is, if it is among those behind the last one, around the end.
    #[inline]
    fn nearby(&self, pattern: Text<'_>) -> Option<usize> {
        let mut position = self.last;
        for _ in 1..self.entries.len().min(NEAR) {
            position = if position + 1 < self.entries.len() { position + 1 } else { 0 };
            if self.entries[position].is_of(pattern) {
                return Some(position);
            }
        }
        None
    }

    #[cold]
    fn insert(&mut self, pattern: &str, compiled: T) -> usize {
        if self.entries.len() == CAPACITY {
            self.entries.clear();
            self.positions.clear();
        }
        let text: Box<str> = pattern.into();
        let value = Str::new(text.as_bytes());
        self.entries.push(Entry { text, value, compiled });
        self.positions.insert(pattern.into(), self.entries.len() - 1);
        self.entries.len() - 1
    }
}

/// Everything that outlives a row.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    /// Java regular expressions; `None` for those that do not compile.
    pub(crate) regexes: PatternCache<Option<CompiledRegex>>,
    /// `SIMILAR TO` patterns, keyed with their escape character in front.
    pub(crate) similar: PatternCache<Result<CompiledRegex, String>>,
    /// `LIKE` patterns without an escape character.
    pub(crate) likes: PatternCache<Result<LikePattern, String>>,
    /// `LIKE` patterns, keyed with their escape character in front.
    pub(crate) escaped_likes: PatternCache<Result<LikePattern, String>>,
    /// `ILIKE` patterns without an escape character.
    pub(crate) folded_likes: PatternCache<Result<LikePattern, String>>,
    /// `ILIKE` patterns, keyed with their escape character in front.
    pub(crate) escaped_folded_likes: PatternCache<Result<LikePattern, String>>,
    /// What `ILIKE` compares is folded here.
    pub(crate) folded: String,
    /// Patterns of Java's `DateTimeFormatter`.
    pub(crate) formatters: PatternCache<Result<DatePattern, String>>,
    /// Patterns of Java's `SimpleDateFormat`.
    pub(crate) simple_formats: PatternCache<Result<DatePattern, String>>,
    /// Texts that are looked for, of more than one byte.
    pub(crate) finders: PatternCache<Finder<'static>>,
    /// JSON paths.
    pub(crate) json_paths: PatternCache<Result<Path, String>>,
    /// The JSON document of the row before.
    pub(crate) document: LastDocument,
    /// Keys with an escape character are put together here.
    pub(crate) key: String,
    /// Local time of the session's zone.
    pub(crate) clock: Option<LocalClock>,
    /// Random number generators by seed.
    pub(crate) generators: Generators,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::draws;

    #[test]
    fn compiles_once_and_stays_bounded() {
        let mut cache = PatternCache::default();
        let mut compiled = 0;
        for pattern in ["a", "a", "b", "a", "b"] {
            cache.get(pattern, |text| {
                compiled += 1;
                text.to_owned()
            });
        }
        assert_eq!(compiled, 2);
        for number in 0..1_000 {
            assert_eq!(*cache.get(&*number.to_string(), str::to_owned), number.to_string());
        }
        assert!(cache.entries.len() <= CAPACITY && cache.positions.len() == cache.entries.len());
    }

    #[test]
    fn every_pattern_has_its_own_form() {
        // More patterns than are compared, of lengths about that of a short value, in an order without a rule.
        let patterns: Vec<String> = (0..40).map(|n| format!("{}{n}", &"pattern of some length"[..n % 20])).collect();
        let (mut cache, mut compiled, mut below) = (PatternCache::default(), 0, draws(1));
        for _ in 0..10_000 {
            // Neighbours mostly, so that all ways are taken.
            let from = if below(2) == 0 { below(patterns.len()) } else { 7 };
            let pattern = &*patterns[(from + below(3)) % patterns.len()];
            let form = cache.get(pattern, |text| {
                compiled += 1;
                text.to_owned()
            });
            assert_eq!(form, pattern);
        }
        assert_eq!(compiled, patterns.len());
    }
}
