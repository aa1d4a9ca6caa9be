//! Whether calls of a column that mostly has one of a few values are answered by comparing it with these.
//!
//! # Model
//!
//! For *c* calls that read the column and *n* values: *c* · [`CALL`] for each row, or *n* · [`COMPARE`] and *c* · *n* ·
//! [`OPERATION`] to select the results. Rows with another value cost both; they are rare, or the values are not few.

use super::costs::{CALL, COMPARE, OPERATION};
use super::hysteresis::COMPILED;

/// What to do about the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FewValuesChoice {
    /// Stay as it is.
    Keep,
    /// Compare with those that were seen.
    UseSeen,
    /// Call for every row.
    GiveUp,
}

/// What to do when a column is compared with `used` so far, none if there are no values, and these few values were `seen` of
/// late; `None` if there were many.
pub(crate) fn choose(used: &[Box<[u8]>], seen: Option<&[Box<[u8]>]>, calls: usize) -> FewValuesChoice {
    let Some(seen) = seen else {
        return if used.is_empty() { FewValuesChoice::Keep } else { FewValuesChoice::GiveUp };
    };
    let is_known = !used.is_empty() && seen.iter().all(|value| used.contains(value));
    let (calls, values) = (calls as f64, seen.len() as f64);
    let compared = values * COMPARE + calls * values * OPERATION;
    match !is_known && !seen.is_empty() && compared < COMPILED.margin * calls * CALL {
        true => FewValuesChoice::UseSeen,
        false => FewValuesChoice::Keep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(count: usize) -> Vec<Box<[u8]>> {
        (0..count).map(|number| number.to_string().into_bytes().into()).collect()
    }

    #[test]
    fn situations() {
        for (used, seen, calls, expected) in [
            (0, Some(1), 1, FewValuesChoice::UseSeen),
            (0, Some(4), 1, FewValuesChoice::UseSeen),
            (0, Some(4), 3, FewValuesChoice::UseSeen),
            (0, Some(0), 1, FewValuesChoice::Keep),
            (0, Some(4), 0, FewValuesChoice::Keep),
            (0, Some(64), 1, FewValuesChoice::Keep),
            (0, None, 1, FewValuesChoice::Keep),
            (4, Some(4), 1, FewValuesChoice::Keep),
            (4, Some(2), 1, FewValuesChoice::Keep),
            (2, Some(4), 1, FewValuesChoice::UseSeen),
            (4, None, 1, FewValuesChoice::GiveUp),
        ] {
            let seen = seen.map(texts);
            assert_eq!(choose(&texts(used), seen.as_deref(), calls), expected, "{used} used, {seen:?}, {calls} calls");
        }
    }

    #[test]
    fn the_choice_does_not_swing() {
        for (values, calls) in (0..10).flat_map(|values| (0..10).map(move |calls| (values, calls))) {
            let seen = texts(values);
            if choose(&[], Some(&seen), calls) == FewValuesChoice::UseSeen {
                assert_eq!(choose(&seen, Some(&seen), calls), FewValuesChoice::Keep);
            }
        }
    }
}
