//! What a column shows of values with weights: the same as of a list with as many values, which need not be made for most of it.

use super::{arrays, between, join, mode, multisets, numbers, rank, single, sum};
use crate::arrow_column::integers;
use crate::object::{Values, Weights, number_of_key, positive_zero};
use arrow_array::ArrayRef;
use arrow_schema::DataType as Arrow;
use millstream_abi::{Finish, Phys};

/// A column of the Arrow type that shows weights of values of the type `phys`; `None` has seen no value.
///
/// # Panics
/// When the finish is not for weights.
pub(super) fn column(objects: &[Option<&Weights>], phys: Phys, finish: &Finish, arrow: &Arrow) -> ArrayRef {
    let rows = objects.len();
    let shown = |row: usize| objects[row].map_or_else(|| (Values::new(phys), Vec::new()), Weights::shown);
    // To those who count values both zeros are one.
    let counted = |row: usize| one_zero(shown(row), phys);
    match finish {
        Finish::Count => {
            let count = |weights: &Option<&Weights>| weights.map_or(0, |weights| weights.count(phys) as i64);
            integers(objects.iter().map(count).collect(), None, arrow)
        }
        Finish::Percentile(fraction) => numbers(rows, arrow, |row| percentile(&shown(row), *fraction)),
        Finish::Array | Finish::DistinctArray => arrays(rows, phys, arrow, |row, into, valid| {
            let (values, weights) = shown(row);
            for i in places(&weights, *finish == Finish::DistinctArray) {
                into.push_from(&values, i);
                valid.push(true);
            }
            values.len() > 0
        }),
        Finish::Multiset => multisets(rows, phys, arrow, |row, keys, counts| {
            let (values, weights) = counted(row);
            (0..values.len()).for_each(|i| keys.push_from(&values, i));
            counts.extend(weights);
        }),
        _ => single(rows, phys, arrow, |row, into| match finish {
            Finish::Least => objects[row].is_some_and(|weights| weights.push_least(into)),
            Finish::Greatest => objects[row].is_some_and(|weights| weights.push_greatest(into)),
            Finish::Sum => {
                let (values, _) = counted(row);
                values.len() > 0 && sum(&values, phys, into)
            }
            Finish::Mode => {
                let (values, weights) = counted(row);
                mode(&values, weights.into_iter().enumerate(), into)
            }
            Finish::Join(separator) | Finish::DistinctJoin(separator) => {
                let (values, weights) = shown(row);
                let places = places(&weights, matches!(finish, Finish::DistinctJoin(_)));
                join(places.map(|i| values.string(i)), separator, into)
            }
            _ => unreachable!("{finish:?} does not show weights"),
        }),
    }
}

/// The numbers of values, each as often as its weight or once.
fn places(weights: &[i64], is_distinct: bool) -> impl Iterator<Item = usize> {
    let times = move |weight: i64| if is_distinct { 1 } else { weight as usize };
    weights.iter().enumerate().flat_map(move |(i, &weight)| std::iter::repeat_n(i, times(weight)))
}

/// The same with 0.0 for -0.0.
fn one_zero((mut values, mut weights): (Values, Vec<i64>), phys: Phys) -> (Values, Vec<i64>) {
    if let Values::Words(words) = &mut values
        && let Some(zero) = words.iter().position(|&word| positive_zero(phys, word) != word)
    {
        words[zero] = positive_zero(phys, words[zero]);
        if words.get(zero + 1) == Some(&words[zero]) {
            words.remove(zero);
            let weight = weights.remove(zero);
            weights[zero] = weights[zero].saturating_add(weight);
        }
    }
    (values, weights)
}

/// As [`super::percentile`], of ascending numbers that are there as often as their weights.
fn percentile((values, weights): &(Values, Vec<i64>), fraction: f64) -> Option<f64> {
    let Values::Words(keys) = values else { unreachable!("only numbers have percentiles") };
    // How many numbers there are up to each.
    let ends = weights.iter().scan(0usize, |end, &weight| {
        *end = end.saturating_add(weight as usize);
        Some(*end)
    });
    let (below, part) = rank(ends.clone().last()?, fraction)?;
    let (place, end) = ends.enumerate().find(|&(_, end)| end > below)?;
    let low = number_of_key(keys[place]);
    // The next number is another one only behind the last of this one.
    let is_last = below + 1 == end;
    Some(match keys.get(place + 1) {
        Some(&key) if is_last && part > 0.0 => between(low, number_of_key(key), part),
        _ => low,
    })
}
