//! The rows of a side of a join by the group of their key: of each group a chain, newest first.

use super::encoding::check_count;
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use std::iter::successors;

/// End of a chain, and the group of keys with NULL.
pub(super) const NONE: u32 = u32::MAX;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Chains {
    /// The group of each row.
    groups: Vec<u32>,
    /// The row before in the chain of the group.
    next: Vec<u32>,
    /// The newest row of each group.
    heads: Vec<u32>,
}

impl Chains {
    /// Adds rows of these groups; there are `count` groups by now.
    pub(super) fn add(&mut self, groups: impl IntoIterator<Item = u32>, count: usize) {
        self.groups.extend(groups);
        self.heads.resize(count, NONE);
        for row in self.next.len()..self.groups.len() {
            let group = self.groups[row];
            let head = match group {
                NONE => NONE,
                group => std::mem::replace(&mut self.heads[group as usize], row as u32),
            };
            self.next.push(head);
        }
    }

    /// Has rows of these groups instead, of which there are `count`.
    pub(super) fn set(&mut self, groups: Vec<u32>, count: usize) {
        *self = Chains::default();
        self.add(groups, count);
    }

    /// The group of a row.
    pub(super) fn group(&self, row: u32) -> u32 {
        self.groups[row as usize]
    }

    /// The groups of all rows.
    pub(super) fn groups(&self) -> &[u32] {
        &self.groups
    }

    /// The newest row of a group, or [`NONE`].
    pub(super) fn newest(&self, group: u32) -> u32 {
        if group == NONE { NONE } else { self.heads.get(group as usize).copied().unwrap_or(NONE) }
    }

    /// The row before another one of its group, or [`NONE`].
    pub(super) fn before(&self, row: u32) -> u32 {
        self.next[row as usize]
    }

    /// The rows of a group, newest first.
    pub(super) fn of(&self, group: u32) -> impl Iterator<Item = u32> {
        let row = |row: u32| (row != NONE).then_some(row);
        successors(row(self.newest(group)), move |&newer| row(self.before(newer)))
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        (self.groups.capacity() + self.next.capacity() + self.heads.capacity()) * size_of::<u32>()
    }

    /// Writes those of the rows from number `from` on.
    pub(super) fn save_from(&self, from: usize, out: &mut ByteWriter) {
        out.u32s(&self.groups[from..]);
    }

    /// Adds what [`Chains::save_from`] has written; then they are of so many rows and groups.
    pub(super) fn restore(&mut self, rows: usize, count: usize, from: &mut ByteReader<'_>) -> Result<(), Damaged> {
        let groups = from.u32s()?;
        check_count("groups of rows", self.groups.len() + groups.len(), rows)?;
        let is_group = |&group: &u32| group == NONE || (group as usize) < count;
        Damaged::unless(groups.iter().all(is_group), "a row is in no group")?;
        self.add(groups, count);
        Ok(())
    }
}
