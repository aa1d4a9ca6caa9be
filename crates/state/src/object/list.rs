//! Lists and bags: all values of a group, with or without their places in the input, as a tree whose leaves are shared.

use super::{Object, Ordinal, Values};
use millstream_abi::{Phys, Slot};
use std::cmp::Ordering;
use std::sync::Arc;

/// Deepest tree: it is also the depth of the recursion that frees it.
const MAX_DEPTH: u32 = 64;

/// Values in any order, and other lists that belong to it.
#[derive(Debug, Clone)]
pub(crate) struct List {
    /// Its own, without those of its parts; those that are [`List::is_null`] mean nothing.
    pub(crate) values: Values,
    /// Of the values; a bag has none.
    pub(super) ordinals: Vec<Ordinal>,
    is_bag: bool,
    /// Numbers of the values that stand for NULL, ascending.
    pub(super) nulls: Vec<usize>,
    /// All of them lists.
    parts: Vec<Arc<Object>>,
    /// Longest way down the parts.
    depth: u32,
    /// Values in it and its parts.
    len: usize,
    /// NULLs in it and its parts.
    null_count: usize,
    /// Bytes of the parts.
    part_bytes: usize,
}

impl List {
    /// An empty list; a bag will not tell the places of its values.
    pub(super) fn new(phys: Phys, is_bag: bool) -> List {
        List::of_values(Values::new(phys), vec![], vec![], is_bag)
    }

    /// A list without parts; `nulls` are numbers of values, ascending, and there is an ordinal for each value unless it is a
    /// bag.
    pub(super) fn of_values(values: Values, ordinals: Vec<Ordinal>, nulls: Vec<usize>, is_bag: bool) -> List {
        let (len, null_count) = (values.len(), nulls.len());
        List { values, ordinals, is_bag, nulls, parts: vec![], depth: 0, len, null_count, part_bytes: 0 }
    }

    /// Appends a value.
    ///
    /// # Safety
    /// As for [`Values::push`].
    pub(super) unsafe fn push(&mut self, phys: Phys, value: Option<&Slot>, ordinal: Ordinal) {
        match value {
            // SAFETY: forwarded.
            Some(value) => unsafe { self.values.push(phys, value) },
            None => {
                self.nulls.push(self.values.len());
                self.null_count += 1;
                self.values.push_nothing();
            }
        }
        if !self.is_bag {
            self.ordinals.push(ordinal);
        }
        self.len += 1;
    }

    /// Makes another list part of it.
    pub(super) fn append(&mut self, other: Arc<Object>) {
        let Object::List(list) = &*other else { return };
        self.len += list.len;
        self.null_count += list.null_count;
        self.part_bytes += list.bytes();
        if list.depth + 1 > MAX_DEPTH {
            // The lists without parts, and of the others the values that are not in parts.
            self.depth = self.depth.max(2);
            self.parts.extend(flatten(&other));
        } else {
            self.depth = self.depth.max(list.depth + 1);
            self.parts.push(other);
        }
    }

    /// A list that has this one, which `this` points to, as a part.
    pub(super) fn fork(&self, this: &Arc<Object>) -> List {
        let mut fork = List::of_values(self.no_values(), vec![], vec![], self.is_bag);
        fork.append(Arc::clone(this));
        fork
    }

    /// None of the type of the list's values.
    pub(super) fn no_values(&self) -> Values {
        match self.values {
            Values::Words(_) => Values::Words(vec![]),
            Values::Wides(_) => Values::Wides(vec![]),
            Values::Strings(..) => Values::Strings(vec![], vec![]),
        }
    }

    /// Number of values, NULLs among them.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of NULLs.
    pub(crate) fn null_count(&self) -> usize {
        self.null_count
    }

    /// All lists whose own values are values of this one.
    pub(crate) fn leaves(&self) -> Vec<&List> {
        let mut leaves = vec![self];
        let mut next = 0;
        while next < leaves.len() {
            let parts = leaves[next].parts.iter();
            leaves.extend(parts.filter_map(|p| if let Object::List(list) = &**p { Some(list) } else { None }));
            next += 1;
        }
        leaves.retain(|leaf| leaf.values.len() > 0);
        leaves
    }

    /// All values in the order of the input, as leaves and positions in them. Values of one row are in their own order.
    ///
    /// # Panics
    /// For bags.
    pub(crate) fn in_order(&self) -> Vec<(&List, usize)> {
        assert!(!self.is_bag, "a bag has no order");
        let mut places: Vec<(&List, usize)> =
            self.leaves().into_iter().flat_map(|leaf| (0..leaf.ordinals.len()).map(move |i| (leaf, i))).collect();
        let compare = |a: &(&List, usize), b: &(&List, usize)| {
            a.0.ordinals[a.1].cmp(&b.0.ordinals[b.1]).then_with(|| a.0.compare(a.1, b.0, b.1))
        };
        if !places.is_sorted_by(|a, b| compare(a, b) != Ordering::Greater) {
            places.sort_unstable_by(compare);
        }
        places
    }

    /// Whether its own value `i` is NULL.
    pub(crate) fn is_null(&self, i: usize) -> bool {
        !self.nulls.is_empty() && self.nulls.binary_search(&i).is_ok()
    }

    /// Order of its own value `i` against value `j` of another list; NULLs come last and are equal.
    pub(crate) fn compare(&self, i: usize, other: &List, j: usize) -> Ordering {
        match (self.is_null(i), other.is_null(j)) {
            (false, false) => self.values.compare(i, &other.values, j),
            (a, b) => a.cmp(&b),
        }
    }

    /// Bytes of its values and of those of its parts.
    pub(super) fn bytes(&self) -> usize {
        self.part_bytes
            + self.values.bytes()
            + self.ordinals.capacity() * size_of::<Ordinal>()
            + self.nulls.capacity() * size_of::<usize>()
            + self.parts.capacity() * size_of::<Arc<Object>>()
    }
}

/// A list's parts and their parts, each without parts.
fn flatten(root: &Arc<Object>) -> Vec<Arc<Object>> {
    let mut flat = Vec::new();
    let mut open = vec![Arc::clone(root)];
    while let Some(object) = open.pop() {
        let Object::List(list) = &*object else { continue };
        open.extend(list.parts.iter().cloned());
        if list.parts.is_empty() {
            flat.push(object);
        } else if list.values.len() > 0 {
            let own = (list.values.clone(), list.ordinals.clone(), list.nulls.clone());
            flat.push(Arc::new(Object::List(List::of_values(own.0, own.1, own.2, list.is_bag))));
        }
    }
    flat
}
