//! Sketches as bytes: codes or registers of the one, buckets of the other. What is in them is seen, and put there, by way of
//! `serde`, because the libraries show it to nobody else; what is fixed is taken from a fresh one.

use super::{Cardinality, MAX_BUCKETS, PRECISION, Quantiles};
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Registers of six bits in a word.
const REGISTERS_OF_A_WORD: usize = 5;
/// Words of all registers.
const WORDS: usize = (1usize << PRECISION).div_ceil(REGISTERS_OF_A_WORD);
/// Bits of the number of zeros that follow the index in an odd code, which has the lowest bit of that for a mark.
const MOST_ZEROS_OF_A_CODE: u64 = 40;
/// Beyond the number of every bucket, since a bucket is 0.02 wide and logarithms of doubles are below 750.
const BUCKETS_BEYOND: i32 = (MAX_BUCKETS / 2) as i32;
/// More than all values that there will ever be.
const MOST_VALUES: u64 = 1 << 56;
/// Buckets are kept in multiples of this.
const CHUNK: usize = 128;

impl Cardinality {
    /// Writes it.
    pub(in crate::object) fn save(&self, out: &mut ByteWriter) {
        let fields = fields_of(&self.0);
        let registers = &fields["registers"];
        out.u8(u8::from(!registers.is_null()));
        if !registers.is_null() {
            return numbers(&registers["buf"]).for_each(|word| out.u32(word as u32));
        }
        let mut fresh: Vec<u32> = numbers(&fields["tmpset"]).map(|code| code as u32).collect();
        fresh.sort_unstable();
        out.bytes(&differences(&fresh));
        out.bytes(&numbers(&fields["sparse"]["buf"]).map(|byte| byte as u8).collect::<Vec<_>>());
    }

    /// Reads what has been written.
    pub(in crate::object) fn restore(from: &mut ByteReader<'_>) -> Result<Cardinality, Damaged> {
        let mut fields = fields_of(&Cardinality::new().0);
        match from.u8()? {
            0 => {
                fields["tmpset"] = json!(read_codes(from)?);
                let codes = read_codes(from)?;
                let last = codes.last().map_or(0, |&last| last);
                fields["sparse"] = json!({ "count": codes.len(), "last": last, "buf": differences(&codes) });
            }
            1 => {
                let words: Vec<u32> = (0..WORDS).map(|_| from.u32()).collect::<Result<_, _>>()?;
                let count = 1usize << PRECISION;
                let register = |i: usize| words[i / REGISTERS_OF_A_WORD] >> (i % REGISTERS_OF_A_WORD * 6) & 63;
                let beyond = (count..WORDS * REGISTERS_OF_A_WORD).any(|i| register(i) != 0);
                let is_right = !beyond && words.iter().all(|word| word >> (REGISTERS_OF_A_WORD * 6) == 0);
                Damaged::unless(is_right, "a sketch has more registers than it should")?;
                let zeros = (0..count).filter(|&i| register(i) == 0).count();
                fields["registers"] = json!({ "buf": words, "count": count, "zeros": zeros });
            }
            _ => return Err(Damaged("a sketch is of no known form".into())),
        }
        restored(fields).map(Cardinality)
    }
}

/// Codes in ascending order, as their differences: seven bits in each byte, the lowest first, and the highest bit where more
/// follow.
fn read_codes(from: &mut ByteReader<'_>) -> Result<Vec<u32>, Damaged> {
    let (mut codes, mut last, mut difference, mut shift) = (Vec::<u32>::new(), 0u64, 0u64, 0);
    for &byte in from.bytes()? {
        difference |= u64::from(byte & 0x7F) << shift;
        shift += 7;
        if byte < 0x80 {
            last += difference;
            let is_next = codes.is_empty() || difference > 0;
            let is_code = last & 1 == 0 || (last >> 1) & 63 <= MOST_ZEROS_OF_A_CODE;
            match u32::try_from(last) {
                Ok(code) if is_next && is_code => codes.push(code),
                _ => return Err(Damaged("codes of a sketch are none".into())),
            }
            (difference, shift) = (0, 0);
        } else if shift >= u32::BITS {
            break;
        }
    }
    Damaged::unless(shift == 0, "a code of a sketch does not end")?;
    Ok(codes)
}

/// What [`read_codes`] reads.
fn differences(codes: &[u32]) -> Vec<u8> {
    let (mut bytes, mut last) = (Vec::new(), 0);
    for &code in codes {
        let mut difference = code - last;
        while difference >= 0x80 {
            bytes.push(difference as u8 | 0x80);
            difference >>= 7;
        }
        bytes.push(difference as u8);
        last = code;
    }
    bytes
}

impl Quantiles {
    /// Writes it.
    pub(in crate::object) fn save(&self, out: &mut ByteWriter) {
        for count in [self.negative_infinities, self.positive_infinities, self.nans] {
            out.u64(count);
        }
        let fields = fields_of(&self.finite);
        out.u64(fields["zero_count"].as_u64().unwrap_or(0));
        // Of no number there is neither, and both are anything.
        for extreme in [self.finite.min(), self.finite.max()] {
            out.u64(extreme.unwrap_or(0.0).to_bits());
        }
        for store in ["store", "negative_store"] {
            let offset = fields[store]["offset"].as_i64().unwrap_or(0);
            let counts = numbers(&fields[store]["bins"]).enumerate().filter(|&(_, count)| count > 0);
            let buckets: Vec<(i64, u64)> = counts.map(|(i, count)| (offset + i as i64, count)).collect();
            out.length(buckets.len());
            for (key, count) in buckets {
                out.i64(key);
                out.u64(count);
            }
        }
    }

    /// Reads what has been written.
    pub(in crate::object) fn restore(from: &mut ByteReader<'_>) -> Result<Quantiles, Damaged> {
        let mut sketch = Quantiles::new();
        let (infinities, nans) = ([from.u64()?, from.u64()?], from.u64()?);
        let zeros = from.u64()?;
        let (min, max) = (f64::from_bits(from.u64()?), f64::from_bits(from.u64()?));
        let (positive, negative) = (Buckets::read(from)?, Buckets::read(from)?);
        let finite = zeros.saturating_add(positive.count).saturating_add(negative.count);
        let all = [infinities[0], infinities[1], nans].into_iter().fold(finite, u64::saturating_add);
        let is_right = all <= MOST_VALUES && min.is_finite() && max.is_finite() && min <= max;
        Damaged::unless(is_right, "a sketch of numbers has none, or too many")?;
        if finite > 0 {
            let mut fields = fields_of(&sketch.finite);
            (fields["min"], fields["max"], fields["zero_count"]) = (json!(min), json!(max), json!(zeros));
            positive.put_into(&mut fields["store"]);
            negative.put_into(&mut fields["negative_store"]);
            // Of a sketch without numbers these are infinite, which has no other form than nothing; nobody asks for the sum.
            fields["sum"] = json!(0.0);
            sketch.finite = restored(fields)?;
        }
        [sketch.negative_infinities, sketch.positive_infinities] = infinities;
        sketch.nans = nans;
        Ok(sketch)
    }
}

/// Buckets of numbers of one sign.
struct Buckets {
    /// The key of each that is not empty, ascending, and how many there are.
    counts: Vec<(i32, u64)>,
    count: u64,
}

impl Buckets {
    fn read(from: &mut ByteReader<'_>) -> Result<Buckets, Damaged> {
        let len = from.count(16)?;
        let mut counts: Vec<(i32, u64)> = Vec::with_capacity(len);
        let mut total = 0u64;
        for _ in 0..len {
            let (key, count) = (from.i64()?, from.u64()?);
            let key = i32::try_from(key).ok().filter(|key| key.abs() < BUCKETS_BEYOND && count > 0);
            let Some(key) = key.filter(|&key| counts.last().is_none_or(|&(last, _)| last < key)) else {
                return Err(Damaged("buckets of a sketch are not in order".into()));
            };
            counts.push((key, count));
            total = total.saturating_add(count);
        }
        Ok(Buckets { counts, count: total })
    }

    fn put_into(&self, store: &mut Value) {
        let (Some(&(first, _)), Some(&(last, _))) = (self.counts.first(), self.counts.last()) else { return };
        let mut bins = vec![0; ((last - first + 1) as usize).next_multiple_of(CHUNK)];
        self.counts.iter().for_each(|&(key, count)| bins[(key - first) as usize] = count);
        (store["bins"], store["count"], store["offset"]) = (json!(bins), json!(self.count), json!(first));
        (store["min_key"], store["max_key"]) = (json!(first), json!(last));
    }
}

fn fields_of(sketch: &impl Serialize) -> Value {
    serde_json::to_value(sketch).expect("a sketch consists of numbers")
}

fn restored<T: DeserializeOwned>(fields: Value) -> Result<T, Damaged> {
    serde_json::from_value(fields).map_err(|e| Damaged(format!("a sketch cannot be read: {e}")))
}

fn numbers(array: &Value) -> impl Iterator<Item = u64> {
    array.as_array().into_iter().flatten().filter_map(Value::as_u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_abi::{Phys, Slot};

    fn round_trip<T>(
        save: impl Fn(&mut ByteWriter),
        restore: impl Fn(&mut ByteReader<'_>) -> Result<T, Damaged>,
    ) -> (T, Vec<u8>) {
        let mut out = ByteWriter::new();
        save(&mut out);
        let bytes = out.into_bytes();
        assert!(
            (0..bytes.len())
                .step_by(bytes.len() / 100 + 1)
                .all(|n| restore(&mut ByteReader::new(&bytes[..n])).is_err())
        );
        let mut reader = ByteReader::new(&bytes);
        let sketch = restore(&mut reader).unwrap();
        reader.end().unwrap();
        (sketch, bytes)
    }

    #[test]
    fn sketches_of_distinct_values_go_on_where_they_were() {
        for count in [0i64, 1, 100, 3_000, 4_400, 5_000, 20_000, 100_000] {
            let insert = |sketch: &mut Cardinality, words: std::ops::Range<i64>| {
                // SAFETY: words of the type.
                words.for_each(|word| unsafe { sketch.insert(Phys::I64, &Slot::of(word.to_le_bytes())) });
            };
            let mut original = Cardinality::new();
            insert(&mut original, 0..count);
            let (mut restored, bytes) = round_trip(|out| original.save(out), Cardinality::restore);
            assert_eq!(restored.estimate(), original.estimate());
            assert!(bytes.len() < 4 * WORDS + 40, "{} bytes", bytes.len());
            let mut merged = original.clone();
            merged.merge(&restored);
            assert_eq!(merged.estimate(), original.estimate());
            for sketch in [&mut original, &mut restored] {
                insert(sketch, count / 2..count + 2_000);
            }
            assert_eq!(restored.estimate(), original.estimate());
        }
    }

    #[test]
    fn sketches_of_numbers_go_on_where_they_were() {
        let special = [f64::MAX, f64::MIN, 5e-324, -0.0, 0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let many: Vec<f64> = (-3000..3000).map(|i| f64::from(i % 91) * 10f64.powi(i / 10)).collect();
        for numbers in [&[][..], &[7.0], &special[2..3], &special, &special[5..], &many] {
            let mut original = Quantiles::new();
            numbers.iter().for_each(|&x| original.insert(x));
            let (mut restored, _) = round_trip(|out| original.save(out), Quantiles::restore);
            let same = |a: &Quantiles, b: &Quantiles| {
                for i in 0..=200 {
                    let [a, b] = [a, b].map(|s| s.quantile(f64::from(i) / 200.0).map(f64::to_bits));
                    assert_eq!(a, b, "of {} numbers", numbers.len());
                }
            };
            same(&original, &restored);
            let (mut into, mut into_restored) = (original.clone(), restored.clone());
            into.merge(&original);
            into_restored.merge(&restored);
            same(&into, &into_restored);
            for sketch in [&mut original, &mut restored] {
                (-50..50).for_each(|i| sketch.insert(f64::from(i) * 1e5));
                sketch.insert(1e200);
            }
            same(&original, &restored);
        }
    }

    #[test]
    fn what_is_no_sketch_is_found() {
        let mut sketch = Quantiles::new();
        (0..100).for_each(|i| sketch.insert(f64::from(i * i)));
        // SAFETY: a word of the type.
        let codes = |i: i64, sketch: &mut Cardinality| unsafe { sketch.insert(Phys::I64, &Slot::of(i.to_le_bytes())) };
        let mut cardinality = Cardinality::new();
        (0..300).for_each(|i| codes(i, &mut cardinality));
        let (_, bytes) = round_trip(|out| sketch.save(out), Quantiles::restore);
        let (_, more) = round_trip(|out| cardinality.save(out), Cardinality::restore);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(mut damaged) = Quantiles::restore(&mut ByteReader::new(&bytes)) {
                damaged.merge(&sketch);
                damaged.quantile(0.3);
            }
        }
        for bit in 0..more.len() * 8 {
            let mut more = more.clone();
            more[bit / 8] ^= 1 << (bit % 8);
            if let Ok(mut damaged) = Cardinality::restore(&mut ByteReader::new(&more)) {
                damaged.merge(&cardinality);
                damaged.estimate();
            }
        }
    }
}
