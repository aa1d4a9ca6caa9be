//! The kinds of windows by the names of their functions.

use super::place::error;
use millstream_plan::expr::Span;
use millstream_types::{Diagnostic, code};

/// A kind of windows: in the order of `KINDS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowKind {
    Tumble,
    Hop,
    Cumulate,
    Session,
    CountTumble,
    CountHop,
}

/// The kinds. For each: the function's name; the names of the measures, in order; an example of these, as the arguments
/// after the time. The offset may be left out.
const KINDS: [(WindowKind, &str, &[&str], &str); 6] = [
    (WindowKind::Tumble, "TUMBLE", &["SIZE", "OFFSET"], "INTERVAL '10' SECOND"),
    (WindowKind::Hop, "HOP", &["SLIDE", "SIZE", "OFFSET"], "INTERVAL '2' SECOND, INTERVAL '10' SECOND"),
    (WindowKind::Cumulate, "CUMULATE", &["STEP", "SIZE", "OFFSET"], "INTERVAL '10' SECOND, INTERVAL '1' MINUTE"),
    (WindowKind::Session, "SESSION", &["GAP"], "INTERVAL '10' SECOND"),
    (WindowKind::CountTumble, "COUNT_TUMBLE", &["SIZE"], "100"),
    (WindowKind::CountHop, "COUNT_HOP", &["SLIDE", "SIZE"], "10, 100"),
];

impl WindowKind {
    /// The kind of an upper-case name.
    pub fn of(name: &str) -> Option<WindowKind> {
        KINDS.iter().find(|(_, known, ..)| *known == name).map(|(kind, ..)| *kind)
    }

    /// The names of all of them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KINDS.iter().map(|(_, name, ..)| *name)
    }

    /// Name of the function.
    pub fn name(self) -> &'static str {
        KINDS[self as usize].1
    }

    /// Names of the measures, in order. The offset may be left out.
    pub fn measures(self) -> &'static [&'static str] {
        KINDS[self as usize].2
    }

    /// Measures as an example, as the arguments after the time.
    pub fn example(self) -> &'static str {
        KINDS[self as usize].3
    }

    /// Whether windows can belong to keys.
    pub fn has_partitions(self) -> bool {
        matches!(self, WindowKind::Session | WindowKind::CountTumble | WindowKind::CountHop)
    }

    /// Whether GROUP BY knows the function.
    pub fn is_group_function(self) -> bool {
        matches!(self, WindowKind::Tumble | WindowKind::Hop | WindowKind::Session)
    }
}

/// The words after the name of a window function of GROUP BY that ask for a bound of its window.
pub(super) const AUXILIARIES: [&str; 4] = ["_START", "_END", "_ROWTIME", "_PROCTIME"];

/// The functions that give a bound of a row's window.
pub(super) const BOUND_NAMES: [&str; 9] = [
    "TUMBLE_START",
    "TUMBLE_END",
    "TUMBLE_ROWTIME",
    "HOP_START",
    "HOP_END",
    "HOP_ROWTIME",
    "SESSION_START",
    "SESSION_END",
    "SESSION_ROWTIME",
];

/// Whether a name is that of a window function or of an auxiliary function.
pub(crate) fn is_window_function(name: &str) -> bool {
    let mut rests = KINDS.iter().filter_map(|(_, kind, ..)| name.strip_prefix(kind));
    rests.any(|rest| rest.is_empty() || AUXILIARIES.contains(&rest))
}

/// A window function where none can stand.
pub(crate) fn misplaced(name: &str, place: Span) -> Diagnostic {
    match WindowKind::of(name) {
        Some(kind) if kind.is_group_function() => {
            error(code::INVALID_WINDOW, place, format!("{name} stands in FROM TABLE(…) or in GROUP BY")).advise(
                format!("for the start of a row's window use {name}_START, or window_start of the table function"),
            )
        }
        Some(kind) => error(code::INVALID_WINDOW, place, format!("{name} stands in FROM TABLE(…)"))
            .advise(format!("write FROM TABLE({name}(TABLE t, DESCRIPTOR(ts), {}))", kind.example())),
        None => {
            error(code::UNKNOWN_FUNCTION, place, format!("there is no {name}: its windows are a table function only"))
                .advise("select window_start, window_end or window_time of the table function")
        }
    }
}
