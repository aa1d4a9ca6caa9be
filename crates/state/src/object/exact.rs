//! An exact sum of doubles, whatever their exponents (Kulisch's long accumulator): what is far in the sense of
//! `millstream_abi::exact`.

use millstream_abi::exact::{Fixed, MANTISSA_BITS, UNIT, nearest_of_words};
use millstream_storage::{ByteReader, ByteWriter, Damaged};

/// The lowest bit has the weight 2^-1088, below that of all doubles, which is 2^-1074; the highest but the sign 2^1150: there is
/// room for 2^126 of the largest.
const WORDS: usize = 35;
/// The weight of the lowest bit is 2 to the power of this.
const LOWEST: i32 = -1088;
/// Below this bit, doubles that have one are too small for a mantissa of 53 bits.
const NORMAL: u32 = (LOWEST + 1022).unsigned_abs();

/// See the module. What is not a number is counted, so that it can be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exact {
    /// A two's complement, the lowest word first.
    words: [u64; WORDS],
    not_numbers: u64,
    infinities: u64,
    negative_infinities: u64,
}

impl Exact {
    /// Zero.
    pub(crate) fn new() -> Exact {
        Exact { words: [0; WORDS], not_numbers: 0, infinities: 0, negative_infinities: 0 }
    }

    /// Adds a double.
    pub(crate) fn push(&mut self, x: f64) {
        match x {
            x if x.is_nan() => self.not_numbers = self.not_numbers.wrapping_add(1),
            f64::INFINITY => self.infinities = self.infinities.wrapping_add(1),
            f64::NEG_INFINITY => self.negative_infinities = self.negative_infinities.wrapping_add(1),
            x => {
                let bits = x.to_bits();
                let (fraction, exponent) = (bits & ((1 << MANTISSA_BITS) - 1), bits >> MANTISSA_BITS & 0x7ff);
                let mantissa = if exponent == 0 { fraction } else { fraction | 1 << MANTISSA_BITS };
                let place = exponent.max(1) as i32 - 1075 - LOWEST;
                let moved = u128::from(mantissa) << (place % 64);
                let moved = if x < 0.0 { moved.wrapping_neg() } else { moved };
                let sign = ((moved as i128) >> 127) as u64;
                self.add_at(place as usize / 64, &[moved as u64, (moved >> 64) as u64], sign);
            }
        }
    }

    /// Adds a short sum.
    pub(crate) fn push_fixed(&mut self, x: Fixed) {
        const PLACE: u32 = (UNIT - LOWEST) as u32;
        let (shift, sign) = (PLACE % 64, (x[2] as i64 >> 63) as u64);
        let word = |i: usize| if i < 3 { x[i] } else { sign };
        let moved: [u64; 4] = std::array::from_fn(|i| match (i, shift) {
            (_, 0) => word(i),
            (0, _) => word(0) << shift,
            _ => word(i) << shift | word(i - 1) >> (64 - shift),
        });
        self.add_at(PLACE as usize / 64, &moved, sign);
    }

    /// Adds words from one on, and `sign` to all above them.
    fn add_at(&mut self, first: usize, words: &[u64], sign: u64) {
        let mut carry = false;
        let all = words.iter().copied().chain(std::iter::repeat(sign));
        for (word, other) in self.words[first..].iter_mut().zip(all) {
            let (sum, over) = word.overflowing_add(other);
            let (sum, more) = sum.overflowing_add(u64::from(carry));
            (*word, carry) = (sum, over | more);
        }
    }

    /// Adds another sum.
    pub(crate) fn merge(&mut self, other: &Exact) {
        self.add_at(0, &other.words, 0);
        self.not_numbers = self.not_numbers.wrapping_add(other.not_numbers);
        self.infinities = self.infinities.wrapping_add(other.infinities);
        self.negative_infinities = self.negative_infinities.wrapping_add(other.negative_infinities);
    }

    /// Undoes the addition of another sum.
    pub(crate) fn subtract(&mut self, other: &Exact) {
        let negated = Exact {
            words: other.words.map(|word| !word),
            not_numbers: other.not_numbers.wrapping_neg(),
            infinities: other.infinities.wrapping_neg(),
            negative_infinities: other.negative_infinities.wrapping_neg(),
        };
        self.merge(&negated);
        self.add_at(0, &[1], 0);
    }

    /// Undoes the addition of a double.
    pub(crate) fn take_back(&mut self, x: f64) {
        let mut only = Exact::new();
        only.push(x);
        self.subtract(&only);
    }

    /// Whether it is as if nothing had been added.
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Exact::new()
    }

    /// The double that is nearest to the sum; NaN if it is none, or of infinities of both signs.
    pub(crate) fn nearest(&self) -> f64 {
        match (self.not_numbers, self.infinities, self.negative_infinities) {
            (0, 0, 0) => {}
            (0, _, 0) => return f64::INFINITY,
            (0, 0, _) => return f64::NEG_INFINITY,
            _ => return f64::NAN,
        }
        let is_negative = self.words[WORDS - 1] >> 63 == 1;
        let mut magnitude = self.clone();
        if is_negative {
            magnitude = Exact::new();
            magnitude.subtract(self);
        }
        let nearest = magnitude.nearest_of_magnitude();
        if is_negative { -nearest } else { nearest }
    }

    fn nearest_of_magnitude(&self) -> f64 {
        if self.words[2..].iter().any(|&word| word != 0) || self.words[1] >> (NORMAL - 64) != 0 {
            return nearest_of_words(&self.words, LOWEST);
        }
        // A sum of doubles is a multiple of the smallest one: this is not rounded.
        const SMALLEST: u32 = (-1074 - LOWEST).unsigned_abs();
        let multiple = self.words[0] >> SMALLEST | self.words[1] << (64 - SMALLEST);
        f64::from_bits(multiple)
    }

    /// Writes it.
    pub(crate) fn save(&self, out: &mut ByteWriter) {
        self.words.iter().for_each(|&word| out.u64(word));
        out.u64(self.not_numbers);
        out.u64(self.infinities);
        out.u64(self.negative_infinities);
    }

    /// Reads what [`Exact::save`] has written.
    pub(crate) fn restore(from: &mut ByteReader<'_>) -> Result<Exact, Damaged> {
        let mut exact = Exact::new();
        for word in &mut exact.words {
            *word = from.u64()?;
        }
        exact.not_numbers = from.u64()?;
        exact.infinities = from.u64()?;
        exact.negative_infinities = from.u64()?;
        Ok(exact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_abi::exact::fixed;
    use proptest::prelude::*;

    fn sum(numbers: &[f64]) -> Exact {
        let mut sum = Exact::new();
        numbers.iter().for_each(|&x| sum.push(x));
        sum
    }

    #[test]
    fn single_numbers_come_back_as_they_were() {
        let smallest = f64::from_bits(1);
        for x in [0.0, 1.0, -0.1, f64::MAX, f64::MIN, smallest, -smallest, f64::MIN_POSITIVE, 1e-310, 3e-308, -7e300] {
            assert_eq!(sum(&[x]).nearest(), x, "{x}");
        }
    }

    #[test]
    fn sums_are_rounded_once() {
        assert_eq!(sum(&[1e300, 1e-300, -1e300]).nearest(), 1e-300);
        assert_eq!(sum(&[f64::MAX, f64::MAX]).nearest(), f64::INFINITY);
        assert_eq!(sum(&[f64::MAX, f64::MAX, f64::MIN]).nearest(), f64::MAX);
        let half_a_step = 2f64.powi(970);
        assert_eq!(sum(&[f64::MAX, half_a_step]).nearest(), f64::INFINITY, "to the even one");
        assert_eq!(sum(&[f64::MAX, half_a_step, -1e-300]).nearest(), f64::MAX);
        assert_eq!(sum(&[f64::MIN_POSITIVE, -f64::from_bits(1)]).nearest(), f64::from_bits((1 << 52) - 1));
    }

    #[test]
    fn what_is_no_number_can_be_taken_back() {
        let mut all = sum(&[2.5, f64::INFINITY]);
        assert_eq!(all.nearest(), f64::INFINITY);
        all.push(f64::NEG_INFINITY);
        assert!(all.nearest().is_nan());
        all.subtract(&sum(&[f64::INFINITY]));
        assert_eq!(all.nearest(), f64::NEG_INFINITY);
        all.subtract(&sum(&[f64::NEG_INFINITY, 2.5]));
        assert!(all.is_nothing());
    }

    /// Doubles of all exponents, and of few.
    fn numbers() -> impl Strategy<Value = Vec<f64>> {
        let finite = any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |x| x.is_finite());
        let near = (any::<i64>(), -30..30i32).prop_map(|(m, e)| m as f64 * 2f64.powi(e - 40));
        prop::collection::vec(prop_oneof![finite, near], 0..40)
    }

    /// Doubles of all kinds, each with whether it is taken back in the end.
    fn changes() -> impl Strategy<Value = Vec<(f64, bool)>> {
        let special = prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MAX, 5e-324]);
        let numbers = prop_oneof![special, any::<u64>().prop_map(f64::from_bits)];
        prop::collection::vec((numbers, any::<bool>()), 0..30)
    }

    /// The sum in units of 2^-1074, which all doubles are multiples of: rounded as rationals are.
    fn reference(numbers: &[f64]) -> f64 {
        use num_bigint::BigInt;
        let number = |&x: &f64| {
            let bits = x.to_bits();
            let (fraction, exponent) = (bits & ((1 << 52) - 1), bits >> 52 & 0x7ff);
            let mantissa = BigInt::from(if exponent == 0 { fraction } else { fraction | 1 << 52 });
            let magnitude = mantissa << (exponent.max(1) - 1);
            if x < 0.0 { -magnitude } else { magnitude }
        };
        let sum: BigInt = numbers.iter().map(number).sum();
        let (magnitude, is_negative) = (sum.magnitude().clone(), sum.sign() == num_bigint::Sign::Minus);
        let extra = magnitude.bits().saturating_sub(53);
        let mut mantissa = &magnitude >> extra;
        let rest = &magnitude - (&mantissa << extra);
        let half = (num_bigint::BigUint::from(1u8) << extra) >> 1u8;
        let is_odd = mantissa.bit(0);
        if extra > 0 && (rest > half || rest == half && is_odd) {
            mantissa += 1u8;
        }
        // As decimal text, which the standard library rounds correctly; here there is nothing left to round.
        let mantissa: u64 = mantissa.try_into().expect("53 bits");
        let value = match extra {
            2046.. => f64::INFINITY,
            1024.. => mantissa as f64 * 2f64.powi(extra as i32 - 1074),
            0 => f64::from_bits(mantissa),
            _ => mantissa as f64 * f64::from_bits(1) * 2f64.powi(extra as i32),
        };
        if is_negative { -value } else { value }
    }

    proptest! {
        #[test]
        fn what_is_not_taken_back_is_left(
            (changes, order) in changes().prop_flat_map(|changes| {
                let both = (0..changes.len()).flat_map(|i| [(i, false), (i, true)]).collect::<Vec<_>>();
                (Just(changes), Just(both).prop_shuffle())
            }),
        ) {
            // Some are taken back before they come.
            let mut all = Exact::new();
            for (i, takes_back) in order {
                match (changes[i], takes_back) {
                    ((x, _), false) => all.push(x),
                    ((x, true), true) => all.take_back(x),
                    _ => {}
                }
            }
            let left: Vec<f64> = changes.iter().filter(|(_, is_taken_back)| !is_taken_back).map(|&(x, _)| x).collect();
            prop_assert_eq!(&all, &sum(&left));
            left.into_iter().for_each(|x| all.take_back(x));
            prop_assert!(all.is_nothing());
        }

        #[test]
        fn any_order_and_split_gives_the_rounded_sum_of_rationals(
            numbers in numbers(),
            order in any::<u64>(),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut shuffled = numbers.clone();
            let len = shuffled.len();
            let mut random = order;
            for i in (1..len).rev() {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                shuffled.swap(i, (random >> 33) as usize % (i + 1));
            }
            let (left, right) = shuffled.split_at(if len == 0 { 0 } else { cut.index(len) });
            // What is near goes through the short form.
            let (mut short, mut long) = ([0; 3], Exact::new());
            for &x in left {
                match fixed(x) {
                    Some(near) => short = millstream_abi::exact::add(short, near),
                    None => long.push(x),
                }
            }
            long.merge(&sum(right));
            long.push_fixed(short);
            let expected = reference(&numbers);
            prop_assert_eq!(long.nearest().to_bits(), (expected + 0.0).to_bits(), "{} {}", long.nearest(), expected);
            long.subtract(&sum(&numbers));
            prop_assert!(long.is_nothing());
        }
    }
}
