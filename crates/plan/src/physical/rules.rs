//! Which rules a plan is made by.

/// What the planner makes one of. More rules change what a query keeps, so a job resumes with those that its checkpoint was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Rules {
    /// Copies of a view or a query of WITH.
    Copies,
    /// Also joins of aggregations (`group_join`).
    GroupJoins,
    /// Also rows and their own maximum (`own_extreme`), and equal relations wherever they stand in the text.
    Equals,
    /// Also joins of aggregations by `window_time` alone, over windows of two lengths, and of one input that is read once.
    Lengths,
    /// Also partitions that operators over changes share with the operator below (`copartition`).
    #[default]
    Partitions,
}

impl Rules {
    /// Those of earlier versions, the newest first.
    pub const EARLIER: [Rules; 4] = [Rules::Lengths, Rules::Equals, Rules::GroupJoins, Rules::Copies];
}
