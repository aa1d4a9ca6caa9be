//! What topics of a result that changes come to.

use crate::broker::Record;
use std::collections::{BTreeMap, BTreeSet};

/// The last row of each key.
pub fn current(records: Vec<Record>) -> Vec<String> {
    let last: BTreeMap<_, _> = records.into_iter().map(|record| (record.key, record.value)).collect();
    last.into_values().flatten().map(|value| String::from_utf8(value).unwrap()).collect()
}

/// The rows that Debezium's changes leave; `None` if one takes back a row that is not there, or adds one that is.
pub fn left(changes: &[String]) -> Option<BTreeSet<String>> {
    let mut left = BTreeSet::new();
    for text in changes {
        let change: serde_json::Value = serde_json::from_str(text).unwrap();
        let fits = (change["before"].is_null() || left.remove(&change["before"].to_string()))
            && (change["after"].is_null() || left.insert(change["after"].to_string()));
        if !fits {
            return None;
        }
    }
    Some(left)
}
