//! Smallest and largest of many integers. Every row of the input passes here, so it is compiled a second time for processors
//! with wide registers.

/// Comparisons that do not wait for each other.
const LANES: usize = 32;

/// Widens bounds to hold a value.
pub(crate) fn widen((least, most): (i64, i64), value: i64) -> (i64, i64) {
    (least.min(value), most.max(value))
}

/// Smallest and largest value; `None` of none.
pub(crate) fn bounds(values: &[i64]) -> Option<(i64, i64)> {
    let first = *values.first()?;
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: the processor has the features.
            return Some(unsafe { bounds_avx512(values, first) });
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the feature.
            return Some(unsafe { bounds_avx2(values, first) });
        }
    }
    Some(fold(values, first))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl")]
fn bounds_avx512(values: &[i64], first: i64) -> (i64, i64) {
    fold(values, first)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn bounds_avx2(values: &[i64], first: i64) -> (i64, i64) {
    fold(values, first)
}

/// Lowest and highest in lanes, then of the lanes. Inlined, so that it is compiled with the features of its caller.
#[inline(always)]
fn fold(values: &[i64], first: i64) -> (i64, i64) {
    let (mut least, mut most) = ([first; LANES], [first; LANES]);
    let (blocks, rest) = values.as_chunks::<LANES>();
    for block in blocks {
        for lane in 0..LANES {
            least[lane] = least[lane].min(block[lane]);
            most[lane] = most[lane].max(block[lane]);
        }
    }
    let last = rest.iter().fold((first, first), |bounds, &value| widen(bounds, value));
    least.iter().chain(&most).fold(last, |bounds, &value| widen(bounds, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_counts_wherever_it_is() {
        assert_eq!(bounds(&[]), None);
        for rows in [1, 2, LANES - 1, LANES, LANES + 1, 5 * LANES + 3] {
            for place in 0..rows {
                let mut values = vec![7; rows];
                values[place] = i64::MIN;
                assert_eq!(
                    bounds(&values),
                    Some((i64::MIN, if rows == 1 { i64::MIN } else { 7 })),
                    "{place} of {rows}"
                );
                values[place] = i64::MAX;
                assert_eq!(
                    bounds(&values),
                    Some((if rows == 1 { i64::MAX } else { 7 }, i64::MAX)),
                    "{place} of {rows}"
                );
            }
            let values: Vec<i64> = (0..rows as i64).map(|i| (i * 7919) % 101 - 50).collect();
            let wanted = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
            assert_eq!((bounds(&values), fold(&values, values[0])), (Some(wanted), wanted));
        }
    }
}
