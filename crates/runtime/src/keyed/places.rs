//! The places of rows that are sent to another node: most rows of a buffer differ in their positions only, by little.
//!
//! ```text
//! 0  rows u32                                                        nobody asks for them
//! 1  rows u32, then runs: rows u32, first place, 4 bytes for each    by how much their positions are above the first
//! 2  rows u32, places                                                one by one
//! ```

use millstream_state::Ordinal;
use millstream_storage::{ByteReader, ByteWriter, Damaged};

const NONE: u8 = 0;
const RUNS: u8 = 1;
const EACH: u8 = 2;

/// Bytes of a place.
const PLACE_BYTES: usize = 24;
/// Bytes of the head of a run.
const RUN_BYTES: usize = 4 + PLACE_BYTES;

/// By how much the position of a place is above that of the first of a run, if it belongs there.
fn above(first: &Ordinal, place: &Ordinal) -> Option<u32> {
    let is_alike = Ordinal { position: place.position, ..*first } == *place;
    place.position.checked_sub(first.position).filter(|_| is_alike).and_then(|above| u32::try_from(above).ok())
}

/// Writes the places of rows; `None` where nobody asks for them.
pub(super) fn save(places: Option<&[Ordinal]>, rows: usize, out: &mut ByteWriter) {
    let Some(places) = places else {
        out.u8(NONE);
        return out.u32(rows as u32);
    };
    let runs: Vec<&[Ordinal]> = runs_of(places).collect();
    let are_runs = runs.len() * RUN_BYTES + rows * size_of::<u32>() < rows * PLACE_BYTES;
    out.u8(if are_runs { RUNS } else { EACH });
    out.u32(rows as u32);
    if !are_runs {
        return places.iter().for_each(|place| place.save(out));
    }
    for run in runs {
        out.u32(run.len() as u32);
        run[0].save(out);
        run.iter().for_each(|place| out.u32(above(&run[0], place).unwrap_or_default()));
    }
}

fn runs_of(mut places: &[Ordinal]) -> impl Iterator<Item = &[Ordinal]> {
    std::iter::from_fn(move || {
        let first = places.first()?;
        let rows = places.iter().take_while(|place| above(first, place).is_some()).count();
        let (run, rest) = places.split_at(rows);
        places = rest;
        Some(run)
    })
}

/// Reads places, and of how many rows they are.
pub(super) fn restore(from: &mut ByteReader<'_>) -> Result<(Option<Vec<Ordinal>>, usize), Damaged> {
    let (kind, rows) = (from.u8()?, from.u32()? as usize);
    let mut places = Vec::new();
    match kind {
        NONE => return Ok((None, rows)),
        EACH => {
            for _ in 0..rows {
                places.push(Ordinal::restore(from)?);
            }
        }
        RUNS => {
            while places.len() < rows {
                let (run, first) = (from.u32()? as usize, Ordinal::restore(from)?);
                Damaged::unless(run > 0 && run <= rows - places.len(), "places are not of as many rows as they say")?;
                for _ in 0..run {
                    let position = first.position.checked_add(u64::from(from.u32()?));
                    let position = position.ok_or_else(|| Damaged("a place is behind all that there are".into()))?;
                    places.push(Ordinal { position, ..first });
                }
            }
        }
        _ => return Err(Damaged(format!("places are not written in the way {kind}"))),
    }
    Ok((Some(places), rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(watermark: i64, split: u32, position: u64) -> Ordinal {
        Ordinal { watermark, input: 3, split, position, pipeline: 1 }
    }

    fn saved(places: Option<&[Ordinal]>, rows: usize) -> Vec<u8> {
        let mut out = ByteWriter::new();
        save(places, rows, &mut out);
        out.into_bytes()
    }

    #[test]
    fn places_are_what_they_were() {
        let near: Vec<Ordinal> = (0..100).map(|row| place(5, 2, 7 + row * 3)).collect();
        let two: Vec<Ordinal> = near.iter().copied().chain((0..100).map(|row| place(6, 2, 1 << 40 | row))).collect();
        let apart: Vec<Ordinal> = (0..100).map(|row| place(row, 0, 9)).collect();
        let far = vec![place(0, 0, 0), place(0, 0, u64::MAX), place(0, 0, 1), place(0, 1, u64::MAX)];
        for (places, bytes) in
            [(near, 5 + 28 + 400), (two, 5 + 56 + 800), (apart, 5 + 2400), (far, 5 + 96), (vec![], 5)]
        {
            let bytes_of = saved(Some(&places), places.len());
            assert_eq!(bytes_of.len(), bytes);
            let mut from = ByteReader::new(&bytes_of);
            let rows = places.len();
            assert_eq!(restore(&mut from).unwrap(), (Some(places), rows));
            assert!(from.is_empty());
        }
        assert_eq!(restore(&mut ByteReader::new(&saved(None, 9))).unwrap(), (None, 9));
    }

    #[test]
    fn damaged_places_are_an_error_or_others() {
        let places: Vec<Ordinal> = (0..9).map(|row| place(5, row % 2, 7 + u64::from(row))).collect();
        let near: Vec<Ordinal> = (0..9).map(|row| place(5, 0, u64::MAX - 20 + row)).collect();
        for good in [saved(Some(&places), 9), saved(Some(&near), 9), saved(None, 9)] {
            for at in 0..good.len() {
                for bit in 0..8 {
                    let mut bad = good.clone();
                    bad[at] ^= 1 << bit;
                    let _ = restore(&mut ByteReader::new(&bad));
                }
                let _ = restore(&mut ByteReader::new(&good[..at]));
            }
        }
    }
}
