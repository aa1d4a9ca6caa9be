//! What the less obvious operations compute, as ordinary functions: for the interpreter, for constant folding, and as
//! the reference of the LLVM back end.

/// Powers of ten that fit an `i128`.
pub const POWERS_OF_TEN: [i128; 39] = {
    let mut powers = [1i128; 39];
    let mut i = 1;
    while i < 39 {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// `Op::SliceStart`; `size` is positive.
#[inline]
pub fn slice_start(time: i64, size: i64, offset: i64) -> i64 {
    time.wrapping_sub(time.wrapping_sub(offset).rem_euclid(size))
}

/// `Op::OutOfDecimal`
#[inline]
pub fn out_of_decimal(x: i128, digits: u8) -> bool {
    x.unsigned_abs() >= POWERS_OF_TEN[digits as usize] as u128
}

/// `Op::ScaleUp`
#[inline]
pub fn scale_up(x: i128, digits: u8) -> i128 {
    x.wrapping_mul(POWERS_OF_TEN[digits as usize])
}

/// `Op::ScaleDown`
#[inline]
pub fn scale_down(x: i128, digits: u8) -> i128 {
    let power = POWERS_OF_TEN[digits as usize];
    let (quotient, remainder) = (x / power, x % power);
    // Twice a remainder below 10^38 fits 128 bits only without a sign.
    let up = remainder.unsigned_abs() * 2 >= power as u128;
    quotient + if up { x.signum() } else { 0 }
}

/// Total order of floats for MIN and MAX, as described at `program::Component`.
#[inline]
pub fn float_order(x: f64) -> i64 {
    let bits = x.to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_start_before_negative_times() {
        assert_eq!(slice_start(-1, 10, 0), -10);
        assert_eq!(slice_start(-10, 10, 0), -10);
        assert_eq!(slice_start(13, 10, 4), 4);
        assert_eq!(slice_start(3, 10, 4), -6);
    }

    #[test]
    fn scaling_down_rounds_half_away_from_zero() {
        let rounded: Vec<i128> = [14, 15, 25, -14, -15, -25].map(|x| scale_down(x, 1)).to_vec();
        assert_eq!(rounded, [1, 2, 3, -1, -2, -3]);
        assert_eq!(scale_down(i128::MAX, 38), 2);
        assert_eq!(scale_down(i128::MIN, 38), -2);
    }

    #[test]
    fn decimal_digits_are_bounded_on_both_sides() {
        assert!(!out_of_decimal(99, 2) && !out_of_decimal(-99, 2));
        assert!(out_of_decimal(100, 2) && out_of_decimal(-100, 2) && out_of_decimal(i128::MIN, 38));
    }

    #[test]
    fn floats_are_totally_ordered() {
        let ascending = [f64::NEG_INFINITY, -1.0, -0.0, 0.0, 1.0, f64::INFINITY, f64::NAN];
        assert!(ascending.windows(2).all(|w| float_order(w[0]) < float_order(w[1])));
    }
}
