//! Loops over columns: blocks of rows whose window is found once, and selection without branches.

/// Rows whose window is looked for at once.
pub(crate) const BLOCK: usize = 1024;

/// Rows of a mask.
const LANES: usize = u64::BITS as usize;

/// The window that all these times lie in, if it is one.
#[inline(always)]
pub(crate) fn one_window(times: &[i64], size_ms: i64) -> Option<i64> {
    let (mut least, mut most) = (i64::MAX, i64::MIN);
    for time in times {
        least = least.min(*time);
        most = most.max(*time);
    }
    let window = least.div_euclid(size_ms);
    (most < (window + 1) * size_ms).then_some(window)
}

/// Calls `each` with the numbers of the values that are wanted: a mask for every 64 of them, which vectorises, and then its
/// bits.
#[inline(always)]
pub(crate) fn select<V: Copy>(values: &[V], is_wanted: impl Fn(V) -> bool, mut each: impl FnMut(usize)) {
    let lanes = values.chunks_exact(LANES);
    let (rest, rest_from) = (lanes.remainder(), values.len() - lanes.remainder().len());
    for (block, lanes) in lanes.enumerate() {
        let mut mask = 0u64;
        for (lane, value) in lanes.iter().enumerate() {
            mask |= u64::from(is_wanted(*value)) << lane;
        }
        while mask != 0 {
            each(block * LANES + mask.trailing_zeros() as usize);
            mask &= mask - 1;
        }
    }
    for (i, value) in rest.iter().enumerate() {
        if is_wanted(*value) {
            each(rest_from + i);
        }
    }
}

/// As [`select`], by two columns.
#[inline(always)]
pub(crate) fn select_by_two<A: Copy, B: Copy>(
    first: &[A],
    second: &[B],
    is_wanted: impl Fn(A, B) -> bool,
    mut each: impl FnMut(usize),
) {
    let rest_from = first.len() / LANES * LANES;
    for (block, (a, b)) in first.chunks_exact(LANES).zip(second.chunks_exact(LANES)).enumerate() {
        let mut mask = 0u64;
        for (lane, (a, b)) in a.iter().zip(b).enumerate() {
            mask |= u64::from(is_wanted(*a, *b)) << lane;
        }
        while mask != 0 {
            each(block * LANES + mask.trailing_zeros() as usize);
            mask &= mask - 1;
        }
    }
    (rest_from..first.len()).filter(|i| is_wanted(first[*i], second[*i])).for_each(each);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_is_selected_in_order() {
        for rows in [0, 1, 63, 64, 65, 1000] {
            let values: Vec<i64> = (0..rows).map(|i| i * 7 % 5).collect();
            let mut found = Vec::new();
            select(&values, |v| v == 3, |i| found.push(i));
            let wanted: Vec<usize> = (0..values.len()).filter(|i| values[*i] == 3).collect();
            assert_eq!(found, wanted);
            let mut found = Vec::new();
            select_by_two(&values, &values, |a, b| a + b == 6, |i| found.push(i));
            assert_eq!(found, wanted);
        }
    }

    #[test]
    fn times_on_both_sides_of_a_border_are_not_in_one_window() {
        assert_eq!(one_window(&[10, 19, 11], 10), Some(1));
        assert_eq!(one_window(&[10, 20], 10), None);
        assert_eq!(one_window(&[9, 10], 10), None);
        assert_eq!(one_window(&[-1], 10), Some(-1));
    }
}
