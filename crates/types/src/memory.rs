//! Sizes of memory as people write them.

/// What stays free in a small container by default: 64 MiB for what nobody counts (code, threads, the allocator's reserve), and 24 MiB for
/// pages of files, above all of the program itself.
const LEFT_FREE: u64 = 88 << 20;
/// What a query has by default, however small the container is: a quarter of it, and not more than this.
const LEAST: u64 = 24 << 20;

/// A share of the machine's memory, or a number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemorySize {
    /// 60 % of the memory, or less where that would leave less than 88 MiB free: 40 MiB of 128.
    Auto,
    /// Bytes.
    Bytes(u64),
    /// Per cent of the memory.
    Share(u64),
}

impl MemorySize {
    /// Reads `4 GiB`, `500 MB`, `1000000` (bytes) or `60%`. As for Flink, units are powers of 1024, in any case. `None` for
    /// anything else, for 0, and for more than 100 %.
    pub fn parse(text: &str) -> Option<MemorySize> {
        let text = text.trim();
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number = text[..digits].parse::<u64>().ok().filter(|&n| n > 0)?;
        let shift = match text[digits..].trim().to_ascii_lowercase().as_str() {
            "%" => return (number <= 100).then_some(MemorySize::Share(number)),
            "" | "b" | "bytes" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return None,
        };
        number.checked_mul(1 << shift).map(MemorySize::Bytes)
    }

    /// The bytes that it is of `available` bytes.
    pub fn of(self, available: u64) -> u64 {
        match self {
            MemorySize::Auto => {
                let share = MemorySize::Share(60).of(available);
                share.min(available.saturating_sub(LEFT_FREE)).max(LEAST.min(available / 4))
            }
            MemorySize::Bytes(bytes) => bytes,
            MemorySize::Share(percent) => (u128::from(available) * u128::from(percent) / 100) as u64,
        }
    }
}

/// Bytes for people: `1.5 GiB`.
pub fn memory_text(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) => format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_shares() {
        let parsed =
            ["4 GiB", "500MB", " 60 % ", "100%", "1000", "3 k"].map(|t| MemorySize::parse(t).unwrap().of(1000));
        assert_eq!(parsed, [4 << 30, 500 << 20, 600, 1000, 1000, 3 << 10]);
        for text in ["", "0", "0%", "101%", "-1", "many", "5 parsecs", "99999999999 tb", "1.5 GB"] {
            assert_eq!(MemorySize::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_small_container_keeps_room_for_what_is_not_counted() {
        let mib = |available: u64| MemorySize::Auto.of(available << 20) >> 20;
        assert_eq!([32, 128, 192, 256, 512, 4096].map(mib), [8, 40, 104, 153, 307, 2457]);
    }

    #[test]
    fn bytes_are_shown_in_the_largest_unit() {
        let shown = [0, 1023, 1536, 5 << 20, (3 << 30) + (1 << 29)].map(memory_text);
        assert_eq!(shown, ["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.5 GiB"]);
    }
}
