//! Numbers of the parts of a running query, one type for each kind: a stream's number does not fit where a station's is asked for.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub struct $name(u32);

            impl $name {
                /// The id at a position.
                ///
                /// # Panics
                /// With more than 4 billion of them.
                pub fn new(index: usize) -> $name {
                    $name(u32::try_from(index).expect("a query has fewer than 4 billion parts"))
                }

                /// Its position among those of the query.
                pub fn index(self) -> usize {
                    self.0 as usize
                }
            }
        )*
    };
}

ids! {
    /// A stream: an ordered sequence of buffers.
    StreamId,
    /// A station: where pipelines end.
    StationId,
    /// An input of a station: one for each pipeline and stream that it reads.
    Port,
}

/// The tables between two checkpoints (design section 9): tasks before a cut write one generation, tasks after it
/// the next. Without checkpoints there is only the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(pub u32);

/// A stream in the places of rows. A query that resumes from a checkpoint keeps those that were there, also if a source
/// has more splits now; so would each node that read a part of the splits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamNumber {
    /// Of the source or station.
    pub(crate) input: u16,
    /// Of the source's split; 0 for stations.
    pub(crate) split: u32,
}

/// A split of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SplitId {
    /// Position of the source in the plan.
    pub(crate) source: usize,
    /// Position of the split in its source.
    pub(crate) split: usize,
}
