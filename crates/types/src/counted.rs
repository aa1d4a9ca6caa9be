//! Numbers of things in messages.

use std::fmt::Display;

/// `1 row`, `2 rows`, `0 entries`: how many of a thing, which is told in the singular.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    match what.strip_suffix('y') {
        _ if count == N::from(1) => format!("{count} {what}"),
        Some(stem) => format!("{count} {stem}ies"),
        None => format!("{count} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_singular() {
        let texts = [counted(0_u64, "late row"), counted(1_usize, "entry"), counted(2_i64, "entry"), counted(1, "row")];
        assert_eq!(texts, ["0 late rows", "1 entry", "2 entries", "1 row"]);
    }
}
