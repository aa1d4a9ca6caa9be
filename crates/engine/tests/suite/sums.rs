//! What holds of sums of DOUBLE whatever the order of the rows, and what does not: exact sums are to come.

use crate::configurations::Configuration;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use millstream::{Collected, RunMonitor};

/// The sums of the values in each of their orders, without duplicates.
fn sums(values: &[f64]) -> Vec<f64> {
    let mut session =
        Configuration::new("sums", &[("pipeline.tier", "interpreted"), ("parallelism.default", "1")]).session();
    session.set("execution.runtime-mode", "batch").unwrap();
    let mut sums: Vec<f64> = Vec::new();
    for order in permutations(values) {
        let rows: Vec<String> = order.iter().map(|x| format!("({x:e})")).collect();
        let sql = format!("SELECT SUM(x) FROM (VALUES {}) AS t (x)", rows.join(", "));
        let mut results = Collected::new();
        session.execute(&session.parse(&sql).unwrap()[0], &mut results, &RunMonitor::new()).unwrap();
        let sum = results.into_batch().unwrap().column(0).as_primitive::<Float64Type>().value(0);
        if !sums.contains(&sum) {
            sums.push(sum);
        }
    }
    sums.sort_by(f64::total_cmp);
    sums
}

fn permutations(values: &[f64]) -> Vec<Vec<f64>> {
    let Some((&first, rest)) = values.split_first() else { return vec![vec![]] };
    let insert = |order: Vec<f64>| {
        (0..=order.len()).map(move |place| [&order[..place], &[first], &order[place..]].concat()).collect::<Vec<_>>()
    };
    permutations(rest).into_iter().flat_map(insert).collect()
}

#[test]
fn two_words_hold_sums_of_terms_that_are_not_too_far_apart() {
    // Sums of one word depend on the order of each of these.
    for values in [[0.1, 0.2, 0.3, 0.7], [1e16, 1.0, -1e16, 0.25], [9_007_199_254_740_993.0, 0.1, 0.3, -7e15]] {
        assert_eq!(sums(&values).len(), 1, "{values:?}: {:?}", sums(&values));
    }
}

#[test]
fn the_last_bit_depends_on_the_order_where_the_second_word_is_rounded() {
    // The terms reach over more than the digits of two words.
    let values = [1.4396797209360943e29, 8.32960817413439e29, -0.010005509885897435, 9.033677969918213e29];
    let found = sums(&values);
    assert!(matches!(found[..], [a, b] if b == a.next_up()), "{found:?}");
}
