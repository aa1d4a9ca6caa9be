//! Values in the names of directories, as Hive and its heirs write them: `day=2026-01-01/hour=7/rows.parquet`.

use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// What such a directory is called where the value is NULL.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// The names and the values, as they stand in the path, from the outside in.
pub(super) fn pairs(path: &str) -> impl Iterator<Item = (&str, &str)> {
    let directories = path.rsplit_once('/').map_or("", |(directories, _)| directories);
    directories.split('/').filter_map(|part| part.split_once('=')).filter(|(name, _)| !name.is_empty())
}

/// The value of a name: `None` if the path has none, `Some(None)` if it is NULL.
pub(super) fn value<'p>(path: &'p str, name: &str) -> Option<Option<Cow<'p, str>>> {
    // The innermost counts.
    let (_, value) = pairs(path).filter(|(found, _)| *found == name).last()?;
    Some((value != NULL).then(|| percent_decode_str(value).decode_utf8_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_in_directories() {
        let path = "/data/day=2026-01-01/city=New%20York/none=__HIVE_DEFAULT_PARTITION__/empty=/a=b.csv";
        let names: Vec<&str> = pairs(path).map(|(name, _)| name).collect();
        assert_eq!(names, ["day", "city", "none", "empty"]);
        assert_eq!(value(path, "day"), Some(Some("2026-01-01".into())));
        assert_eq!(value(path, "city"), Some(Some("New York".into())));
        assert_eq!(value(path, "none"), Some(None));
        assert_eq!(value(path, "empty"), Some(Some("".into())));
        assert_eq!(value(path, "a"), None);
        assert_eq!(value("rows.csv", "day"), None);
    }
}
