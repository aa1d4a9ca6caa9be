//! What a row of a changing result does.

/// Which changes a table can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum TakesChanges {
    /// None: rows are only added.
    #[default]
    Nothing,
    /// Rows replace those of the same primary key, and are deleted by it.
    ByPrimaryKey,
    /// Any.
    Anything,
}

/// The metadata column of a source whose rows are changes: TINYINT, 1 if the row is there from now on, -1 if it is gone. The last row of a key
/// counts.
pub const CHANGE_COLUMN: &str = "$change";

/// What a row of a changing result does, by Flink's names and numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i8)]
pub enum RowKind {
    /// The row is new.
    Insert = 0,
    /// The row as it was, followed by what replaces it.
    UpdateBefore = 1,
    /// The row as it is from now on, in place of that with its key.
    UpdateAfter = 2,
    /// The row is gone.
    Delete = 3,
}

impl RowKind {
    /// All of them, by their numbers.
    pub const ALL: [RowKind; 4] = [RowKind::Insert, RowKind::UpdateBefore, RowKind::UpdateAfter, RowKind::Delete];

    /// That of a number; `None` for others.
    pub fn of(number: i8) -> Option<RowKind> {
        RowKind::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Flink's short text.
    pub fn text(self) -> &'static str {
        match self {
            RowKind::Insert => "+I",
            RowKind::UpdateBefore => "-U",
            RowKind::UpdateAfter => "+U",
            RowKind::Delete => "-D",
        }
    }

    /// Whether the row is there from now on.
    pub fn adds(self) -> bool {
        matches!(self, RowKind::Insert | RowKind::UpdateAfter)
    }
}
