//! What function bodies keep between rows: compiled patterns and random number generators.
//!
//! A worker owns its context, so nothing here is locked. Every cache is bounded: a query whose patterns come from a
//! column may see any number of them.

use crate::date_pattern::DatePattern;
use crate::java_random::Generators;
use crate::java_regex::CompiledRegex;
use crate::json::{LastDocument, Path};
use crate::like_pattern::LikePattern;
use millstream_types::text::zone::LocalClock;
use std::collections::HashMap;
use std::sync::Arc;

/// Compiled patterns of one kind.
const CAPACITY: usize = 128;

/// Compiled forms by pattern text. Nearly every call has the pattern of the call before it, so that one is compared
/// first; a full cache is emptied, which costs one compilation per pattern still in use.
#[derive(Debug)]
pub(crate) struct PatternCache<T> {
    entries: Vec<(Box<str>, T)>,
    positions: HashMap<Box<str>, usize>,
    last: usize,
}

impl<T> Default for PatternCache<T> {
    fn default() -> PatternCache<T> {
        PatternCache { entries: Vec::new(), positions: HashMap::new(), last: 0 }
    }
}

impl<T> PatternCache<T> {
    /// The compiled form of `pattern`, made by `compile` when it is not there.
    pub(crate) fn get(&mut self, pattern: &str, compile: impl FnOnce(&str) -> T) -> &mut T {
        let is_last = self.entries.get(self.last).is_some_and(|(text, _)| **text == *pattern);
        if !is_last {
            self.last = match self.positions.get(pattern) {
                Some(&position) => position,
                None => self.insert(pattern, compile(pattern)),
            };
        }
        &mut self.entries[self.last].1
    }

    fn insert(&mut self, pattern: &str, compiled: T) -> usize {
        if self.entries.len() == CAPACITY {
            self.entries.clear();
            self.positions.clear();
        }
        self.entries.push((pattern.into(), compiled));
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
    /// Patterns of Java's `DateTimeFormatter`; shared, because writing needs the context beside the pattern.
    pub(crate) formatters: PatternCache<Result<Arc<DatePattern>, String>>,
    /// Patterns of Java's `SimpleDateFormat`.
    pub(crate) simple_formats: PatternCache<Result<Arc<DatePattern>, String>>,
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
            assert_eq!(*cache.get(&number.to_string(), str::to_owned), number.to_string());
        }
        assert!(cache.entries.len() <= CAPACITY && cache.positions.len() == cache.entries.len());
    }
}
