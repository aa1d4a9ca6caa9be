//! How many different keys some rows have, and the other way round, if keys are drawn alike.

/// How many different keys of `keys` come up in `draws` draws.
pub(crate) fn different(keys: f64, draws: f64) -> f64 {
    keys * -(-draws / keys).exp_m1()
}

/// How many keys there are if `draws` draws have brought up `different_ones`.
pub(crate) fn drawn_from(draws: f64, different_ones: f64) -> f64 {
    /// Many times more keys than draws can tell.
    const MOST: f64 = 100.0;
    let (mut low, mut high) = (different_ones.max(1.0), MOST * draws.max(1.0));
    if different(high, draws) <= different_ones {
        return high;
    }
    // The number of different keys grows with that of all.
    for _ in 0..40 {
        let middle = (low * high).sqrt();
        if different(middle, draws) < different_ones { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_keys_follows_from_what_was_drawn() {
        for keys in [1.0, 50.0, 1e4, 1e6] {
            for draws in [1e4, 1e6, 1e7] {
                let found = drawn_from(draws, different(keys, draws));
                assert!(keys > 20.0 * draws || (found / keys - 1.0).abs() < 0.01, "{found} instead of {keys}");
            }
        }
    }
}
