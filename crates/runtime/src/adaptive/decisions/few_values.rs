//! Whether calls of a column that mostly has one of a few values are answered by comparing it with these.
//!
//! # Model
//!
//! For *c* calls that read the column and *n* values: *c* · [`CALL`] for each row, or *n* · [`COMPARE`] and *c* · *n* ·
//! [`OPERATION`] to select the results. Rows with another value cost both; they are rare, or the values are not few.

use super::assumptions::Revision;
use super::costs::{CALL, COMPARE, OPERATION};
use super::hysteresis::COMPILED;
use millstream_codegen::specialise::FewValues;

/// What to do when a column is compared with `used` so far, none if there are no values, and these few values were `seen` of
/// late; `None` if there were many.
pub(crate) fn choose(used: &[Box<[u8]>], seen: Option<FewValues>, calls: usize) -> Revision<FewValues> {
    let Some(seen) = seen else { return if used.is_empty() { Revision::Keep } else { Revision::GiveUp } };
    let is_known = !used.is_empty() && seen.iter().all(|value| used.contains(value));
    let (calls, values) = (calls as f64, seen.len() as f64);
    let compared = values * COMPARE + calls * values * OPERATION;
    match !is_known && !seen.is_empty() && compared < COMPILED.margin * calls * CALL {
        true => Revision::Use(seen),
        false => Revision::Keep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(count: usize) -> FewValues {
        (0..count).map(|number| number.to_string().into_bytes().into()).collect()
    }

    #[test]
    fn situations() {
        for (used, seen, calls, expected) in [
            (0, Some(1), 1, Revision::Use(())),
            (0, Some(4), 1, Revision::Use(())),
            (0, Some(4), 3, Revision::Use(())),
            (0, Some(0), 1, Revision::Keep),
            (0, Some(4), 0, Revision::Keep),
            (0, Some(64), 1, Revision::Keep),
            (0, None, 1, Revision::Keep),
            (4, Some(4), 1, Revision::Keep),
            (4, Some(2), 1, Revision::Keep),
            (2, Some(4), 1, Revision::Use(())),
            (4, None, 1, Revision::GiveUp),
        ] {
            let seen = seen.map(texts);
            let expected = match expected {
                Revision::Keep => Revision::Keep,
                Revision::Use(()) => Revision::Use(seen.clone().unwrap()),
                Revision::GiveUp => Revision::GiveUp,
            };
            assert_eq!(choose(&texts(used), seen.clone(), calls), expected, "{used} used, {seen:?}, {calls} calls");
        }
    }

    #[test]
    fn the_choice_does_not_swing() {
        for (values, calls) in (0..10).flat_map(|values| (0..10).map(move |calls| (values, calls))) {
            let seen = texts(values);
            if choose(&[], Some(seen.clone()), calls) == Revision::Use(seen.clone()) {
                assert_eq!(choose(&seen, Some(seen.clone()), calls), Revision::Keep);
            }
        }
    }
}
