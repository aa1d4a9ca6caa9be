//! Results that change, as messages that replace those of their key, and as Debezium's changes.

use crate::broker::{Kafka, Record, rows, run, shared};
use crate::registry::registry;
use millstream::code;
use serde_json::Value;
use std::collections::BTreeMap;

/// Rows of groups that come, change and go: a group whose number of rows is a multiple of three is not there.
const CHANGING: &str =
    "SELECT id % 20 AS k, COUNT(*) AS n, SUM(id) AS s FROM ids GROUP BY id % 20 HAVING MOD(COUNT(*), 3) <> 0";
const COLUMNS: &str = "k BIGINT, n BIGINT, s BIGINT";
const ROWS: i64 = 2_009;
const KEYED: &str = ", 'key.format' = 'json', 'key.fields' = 'k'";

/// Runs a query into table `t`.
fn write(table: &str, query: &str) -> Result<(), millstream::Diagnostic> {
    run(&format!(
        "SET 'execution.runtime-mode' = 'streaming'; SET 'pipeline.beat-rows' = '7';
         CREATE TABLE ids (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '0',
             'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{ROWS}');
         {table}
         INSERT INTO t {query}"
    ))
}

/// Table `t` in the format of Debezium.
fn debezium(kafka: &Kafka, topic: &str, options: &str) -> String {
    kafka.table("t", COLUMNS, topic, &format!("'format' = 'debezium-json'{options}"))
}

/// The rows that are left in the end.
fn expected() -> BTreeMap<i64, (i64, i64)> {
    let groups = (0..20).map(|k| {
        let ids: Vec<i64> = (1..=ROWS).filter(|id| id % 20 == k).collect();
        (k, (ids.len() as i64, ids.iter().sum()))
    });
    groups.filter(|(_, (n, _))| n % 3 != 0).collect()
}

fn json(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(Value::Null, |bytes| serde_json::from_slice(bytes).unwrap())
}

fn row(value: &Value) -> Option<(i64, (i64, i64))> {
    let number = |name: &str| value.get(name)?.as_i64();
    Some((number("k")?, (number("n")?, number("s")?)))
}

#[test]
fn the_last_message_of_a_key_is_its_row() {
    let Some(kafka) = shared() else { return };
    for (options, has_key) in [("", true), (", 'value.fields-include' = 'EXCEPT_KEY'", false)] {
        let topic = kafka.topic_with(3, &[("cleanup.policy", "compact")]);
        let table = format!(
            "CREATE TABLE t ({COLUMNS}, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = '{topic}',
                 'properties.bootstrap.servers' = '{}', 'key.format' = 'json', 'value.format' = 'json'{options});",
            kafka.servers
        );
        write(&table, CHANGING).unwrap();
        let (mut table, mut deleted) = (BTreeMap::new(), 0);
        for Record { key, value, .. } in kafka.read(&topic) {
            let (key, mut row_of_key) = (json(key.as_deref()), json(value.as_deref()));
            if let (false, Some(columns)) = (has_key, row_of_key.as_object_mut()) {
                assert!(columns.insert("k".into(), key["k"].clone()).is_none());
            }
            match row(&row_of_key) {
                Some((k, row)) => {
                    assert_eq!(key, serde_json::json!({ "k": k }));
                    // What is the same is not written again.
                    assert_ne!(table.insert(k, row), Some(row));
                }
                None => {
                    assert_eq!(value, None);
                    assert!(table.remove(&key["k"].as_i64().unwrap()).is_some());
                    deleted += 1;
                }
            }
        }
        assert_eq!(table, expected());
        assert!(deleted > 100, "{deleted}");
    }
}

#[test]
fn debezium_has_the_rows_before_and_after() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(3);
    write(&debezium(&kafka, &topic, KEYED), CHANGING).unwrap();
    let (mut table, mut kinds) = (BTreeMap::new(), BTreeMap::new());
    for Record { value, .. } in kafka.read(&topic) {
        let change = json(value.as_deref());
        let (before, after) = (row(&change["before"]), row(&change["after"]));
        if let Some((k, row)) = before {
            assert_eq!(table.remove(&k), Some(row), "{change}");
        }
        if let Some((k, row)) = after {
            assert_eq!(table.insert(k, row), None, "{change}");
        }
        let op = match (before, after) {
            (None, Some(_)) => "c",
            (Some(_), Some(_)) => "u",
            _ => "d",
        };
        assert_eq!(change["op"], op);
        *kinds.entry(op).or_insert(0) += 1;
    }
    assert_eq!(table, expected());
    assert!(kinds.len() == 3 && kinds.values().all(|count| *count > 100), "{kinds:?}");
}

#[test]
fn what_cannot_keep_the_order_of_changes_is_refused() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(2);
    let error = write(&debezium(&kafka, &topic, ""), CHANGING).unwrap_err();
    assert_eq!(error.code, code::MISSING_OPTION, "{error}");
    assert!(error.message.contains("2 partitions") && error.advice.unwrap().contains("'key.fields'"));
    let in_turn = format!("{KEYED}, 'sink.partitioner' = 'round-robin'");
    let error = write(&debezium(&kafka, &topic, &in_turn), CHANGING).unwrap_err();
    assert_eq!(error.code, code::INVALID_OPTION, "{error}");
    assert!(kafka.read(&topic).is_empty());
    // A column that an update changes would send it elsewhere.
    for (fields, wrong) in [("n", "n"), ("k;n", "n")] {
        let keyed = format!(", 'key.format' = 'json', 'key.fields' = '{fields}'");
        let error = write(&debezium(&kafka, &topic, &keyed), CHANGING).unwrap_err();
        assert_eq!(error.code, code::INVALID_OPTION, "{error}");
        assert!(error.message.contains(&format!("`{wrong}`")) && error.advice.unwrap().contains("'key.fields' = 'k'"));
        write(&debezium(&kafka, &kafka.topic(1), &keyed), CHANGING).unwrap();
    }
    assert!(kafka.read(&topic).is_empty());
    // One partition keeps the order of all.
    write(&debezium(&kafka, &kafka.topic(1), ""), CHANGING).unwrap();
}

#[test]
fn a_join_without_partners_is_a_changelog_too() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(1);
    let query = "SELECT a.id, b.id, b.id FROM ids AS a LEFT JOIN (SELECT id * 2 AS id FROM ids) AS b ON a.id = b.id WHERE a.id <= 40";
    write(&debezium(&kafka, &topic, ""), query).unwrap();
    let mut table: BTreeMap<String, i64> = BTreeMap::new();
    for Record { value, .. } in kafka.read(&topic) {
        let change = json(value.as_deref());
        for (row, weight) in [(&change["before"], -1), (&change["after"], 1)] {
            if !row.is_null() {
                *table.entry(row.to_string()).or_default() += weight;
            }
        }
    }
    table.retain(|_, count| *count != 0);
    let row = |id: i64| match id % 2 {
        0 => serde_json::json!({ "k": id, "n": id, "s": id }),
        _ => serde_json::json!({ "k": id, "n": null, "s": null }),
    };
    let rows: BTreeMap<String, i64> = (1..=40).map(|id| (row(id).to_string(), 1)).collect();
    assert_eq!(table, rows);
}

/// What a query over table `o` gives in batch mode, and the last rows that its changes come to in beats of a few rows.
fn both_ways(table: &str, query: &str) -> Vec<String> {
    let mut whole = rows(&format!("{table} {query}")).unwrap();
    whole.sort();
    let changes = rows(&format!(
        "SET 'execution.runtime-mode' = 'streaming'; SET 'sql-client.execution.result-mode' = 'changelog';
         SET 'pipeline.beat-rows' = '1'; {table} {query}"
    ));
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for change in changes.unwrap() {
        let (op, row) = change.split_once(',').unwrap();
        *counts.entry(row.to_string()).or_default() += if op.starts_with('+') { 1 } else { -1 };
    }
    assert!(counts.values().all(|count| *count >= 0), "{counts:?}");
    let folded: Vec<String> =
        counts.into_iter().flat_map(|(row, count)| std::iter::repeat_n(row, count as usize)).collect();
    assert_eq!(folded, whole, "{query}");
    whole
}

#[test]
fn a_database_is_followed() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(1);
    let row = |id: i64, item: &str, amount: i64| format!(r#"{{"id":{id},"item":"{item}","amount":{amount}}}"#);
    let change = |op: &str, before: Option<String>, after: Option<String>| {
        let text = |row: Option<String>| row.unwrap_or("null".into());
        format!(r#"{{"before":{},"after":{},"op":"{op}"}}"#, text(before), text(after))
    };
    let all = [
        change("r", None, Some(row(1, "a", 10))),
        change("c", None, Some(row(2, "a", 20))),
        change("c", None, Some(row(3, "b", 30))),
        // Twice, as after a restart of Debezium.
        change("c", None, Some(row(3, "b", 30))),
        change("u", Some(row(1, "a", 10)), Some(row(1, "b", 11))),
        change("u", None, Some(row(2, "a", 21))),
        change("d", Some(r#"{"id":3,"item":null,"amount":null}"#.into()), None),
        // A row that never came.
        change("d", Some(row(9, "z", 1)), None),
        change("c", None, Some(row(4, "c", 5))),
        change("d", Some(row(4, "c", 5)), None),
        change("c", None, Some(row(4, "c", 6))),
        // Another key.
        change("u", Some(row(4, "c", 6)), Some(row(5, "c", 6))),
    ];
    kafka.send(&topic, 0, &all.each_ref().map(String::as_str));
    let columns = "id BIGINT NOT NULL, item STRING NOT NULL, amount BIGINT NOT NULL, PRIMARY KEY (id) NOT ENFORCED";
    let table = kafka.table("o", columns, &topic, "'format' = 'debezium-json'");
    assert_eq!(both_ways(&table, "SELECT * FROM o"), ["1,b,11", "2,a,21", "5,c,6"]);
    let groups = "SELECT item, COUNT(*), SUM(amount), MAX(amount) FROM o GROUP BY item";
    assert_eq!(both_ways(&table, groups), ["a,1,21,21", "b,1,11,11", "c,1,6,6"]);
    assert_eq!(both_ways(&table, "SELECT COUNT(*), SUM(amount) FROM o WHERE amount > 6"), ["2,32"]);
    let joined = "SELECT x.id, y.id FROM o AS x LEFT JOIN o AS y ON x.amount = y.amount + 10";
    assert_eq!(both_ways(&table, joined), ["1,", "2,1", "5,"]);
    assert_eq!(both_ways(&table, "SELECT id FROM o QUALIFY ROW_NUMBER() OVER (ORDER BY amount DESC) <= 2"), ["1", "2"]);
    // Metadata belongs to both rows of an update.
    let columns = format!("{columns}, at BIGINT METADATA FROM 'offset' VIRTUAL");
    let table = kafka.table("o", &columns, &topic, "'format' = 'debezium-json'");
    assert_eq!(both_ways(&table, "SELECT id, at FROM o"), ["1,4", "2,5", "5,11"]);
}

#[test]
fn what_is_wrong_with_a_change_is_said() {
    let Some(kafka) = shared() else { return };
    // A key is NOT NULL without saying so.
    let columns = "id BIGINT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED";
    for (change, part) in [
        (r#"{"before":null,"after":{"id":null,"n":1},"op":"c"}"#, "id"),
        (r#"{"before":null,"after":{"n":1},"op":"u"}"#, "id"),
        (r#"{"before":null,"after":null,"op":"d"}"#, "which row is gone"),
        (r#"{"before":null,"after":null,"op":"t"}"#, "truncation"),
        (r#"{"before":null,"after":{"id":1,"n":"many"},"op":"c"}"#, "many"),
        (r#"{"id":1,"n":1}"#, "which operation"),
    ] {
        let topic = kafka.topic(1);
        kafka.send(&topic, 0, &[r#"{"before":null,"after":{"id":7,"n":7},"op":"c"}"#, change]);
        let table = kafka.table("o", columns, &topic, "'format' = 'debezium-json'");
        let error = rows(&format!("{table} SELECT * FROM o")).unwrap_err();
        assert!(error.to_string().contains(part) && error.to_string().contains("@1"), "{change}: {error}");
        let skipping = "'format' = 'debezium-json', 'debezium-json.ignore-parse-errors' = 'true'";
        let table = kafka.table("o", columns, &topic, skipping);
        let expected: &[&str] = if part == "many" { &["1,", "7,7"] } else { &["7,7"] };
        assert_eq!(both_ways(&table, "SELECT * FROM o"), expected, "{change}");
    }
}

#[test]
fn a_database_is_followed_as_other_tools_write_it() {
    let Some(kafka) = shared() else { return };
    let maxwell = [
        r#"{"database":"shop","table":"o","type":"bootstrap-start","ts":1,"data":{}}"#,
        r#"{"database":"shop","table":"o","type":"bootstrap-insert","ts":1,"data":{"id":1,"item":"a","amount":10}}"#,
        r#"{"database":"shop","table":"o","type":"insert","ts":1,"xid":7,"commit":true,"data":{"id":2,"item":"a","amount":20}}"#,
        r#"{"database":"shop","table":"o","type":"insert","ts":1,"data":{"id":3,"item":"b","amount":30}}"#,
        r#"{"database":"shop","table":"o","type":"update","ts":2,"data":{"id":1,"item":"b","amount":10},"old":{"item":"a"}}"#,
        r#"{"database":"shop","table":"o","type":"update","ts":2,"data":{"id":4,"item":"a","amount":20},"old":{"id":2}}"#,
        r#"{"database":"shop","type":"table-alter","table":"o","sql":"ALTER TABLE o …"}"#,
        r#"{"database":"shop","table":"o","type":"delete","ts":3,"data":{"id":3,"item":"b","amount":30}}"#,
    ];
    // Canal has the rows of a statement in one message, and numbers as texts.
    let canal = [
        r#"{"type":"CREATE","isDdl":true,"data":null,"old":null,"sql":"CREATE TABLE o …","database":"shop","table":"o"}"#,
        r#"{"type":"INSERT","isDdl":false,"data":[{"id":"1","item":"a","amount":"10"},{"id":"2","item":"a","amount":"20"},{"id":"3","item":"b","amount":"30"}],"old":null,"pkNames":["id"]}"#,
        r#"{"type":"UPDATE","data":[{"id":"1","item":"b","amount":"10"},{"id":"4","item":"a","amount":"20"}],"old":[{"item":"a"},{"id":"2"}]}"#,
        r#"{"type":"DELETE","data":[{"id":"3","item":"b","amount":"30"}],"old":null}"#,
    ];
    let columns = "id BIGINT NOT NULL, item STRING NOT NULL, amount BIGINT, PRIMARY KEY (id) NOT ENFORCED";
    for (format, messages, unknown, truncated) in [
        ("maxwell-json", &maxwell[..], r#"{"type":"merge","data":{"id":1}}"#, r#"{"type":"table-drop","table":"o"}"#),
        ("canal-json", &canal[..], r#"{"type":"MERGE","data":[{"id":"1"}]}"#, r#"{"type":"TRUNCATE","data":null}"#),
    ] {
        let topic = kafka.topic(1);
        kafka.send(&topic, 0, messages);
        let options = format!("'format' = '{format}'");
        let table = kafka.table("o", columns, &topic, &options);
        assert_eq!(both_ways(&table, "SELECT * FROM o"), ["1,b,10", "4,a,20"], "{format}");
        assert_eq!(both_ways(&table, "SELECT item, SUM(amount) FROM o GROUP BY item"), ["a,20", "b,10"], "{format}");
        // Without a key only what is inserted is read.
        let keyless = kafka.table("o", "id BIGINT, item STRING, amount BIGINT", &topic, &options);
        let error = rows(&format!("{keyless} SELECT * FROM o")).unwrap_err();
        assert!(error.to_string().contains("no PRIMARY KEY"), "{error}");
        let skipping = kafka.table(
            "o",
            "id BIGINT, amount BIGINT",
            &topic,
            &format!("{options}, '{format}.ignore-parse-errors' = 'true'"),
        );
        let mut inserted = rows(&format!("{skipping} SELECT * FROM o")).unwrap();
        inserted.sort();
        assert_eq!(inserted, ["1,10", "2,20", "3,30"], "{format}");
        let error = run(&format!("{table} INSERT INTO o VALUES (1, 'a', 1)")).unwrap_err();
        assert!(error.code == code::NOT_A_SINK && error.message.contains(format), "{error}");
        for (bad, part) in [(unknown, "no operation"), (truncated, "which rows are gone")] {
            let topic = kafka.topic(1);
            kafka.send(&topic, 0, &[messages[1], bad]);
            let table = kafka.table("o", columns, &topic, &options);
            let error = rows(&format!("{table} SELECT * FROM o")).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("@1"), "{format}: {error}");
        }
    }
}

#[test]
fn changes_go_out_and_come_in_again() {
    let Some(kafka) = shared() else { return };
    let rows: Vec<String> = expected().iter().map(|(k, (n, s))| format!("{k},{n},{s}")).collect();
    let sorted = |mut rows: Vec<String>| {
        rows.sort();
        rows
    };
    let keyed = format!("{COLUMNS}, PRIMARY KEY (k) NOT ENFORCED");
    let topic = kafka.topic(3);
    write(&debezium(&kafka, &topic, KEYED), CHANGING).unwrap();
    let table = kafka.table("o", &keyed, &topic, &format!("'format' = 'debezium-json'{KEYED}"));
    assert_eq!(both_ways(&table, "SELECT * FROM o"), sorted(rows.clone()));
    let (address, schemas) = registry();
    let topic = kafka.topic(3);
    let avro = format!("'format' = 'debezium-avro-confluent', 'debezium-avro-confluent.url' = '{address}'{KEYED}");
    write(&kafka.table("t", COLUMNS, &topic, &avro), CHANGING).unwrap();
    let (subject, schema) = schemas.lock().unwrap()[0].clone();
    assert_eq!(subject, format!("{topic}-value"));
    assert!(["\"before\"", "\"after\"", "\"op\""].iter().all(|name| schema.contains(name)), "{schema}");
    let table = kafka.table("o", &keyed, &topic, &avro);
    assert_eq!(both_ways(&table, "SELECT * FROM o"), sorted(rows.clone()));
    for (key, value, options) in [
        ("json", "json", ""),
        ("raw", "json", ", 'value.fields-include' = 'EXCEPT_KEY'"),
        ("csv", "csv", ""),
        ("json", "avro", ", 'value.fields-include' = 'EXCEPT_KEY'"),
    ] {
        let topic = kafka.topic(3);
        let table = |name: &str, more: &str| {
            format!(
                "CREATE TABLE {name} ({COLUMNS}, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = '{topic}',
                     'properties.bootstrap.servers' = '{}', 'key.format' = '{key}', 'value.format' = '{value}'{options}{more});",
                kafka.servers
            )
        };
        write(&table("t", ""), CHANGING).unwrap();
        let table = table("o", ", 'scan.bounded.mode' = 'latest-offset'");
        assert_eq!(both_ways(&table, "SELECT * FROM o"), sorted(rows.clone()), "{key} {value}");
        let all: i64 = expected().values().map(|(n, _)| n).sum();
        assert_eq!(both_ways(&table, "SELECT SUM(n) FROM o"), [all.to_string()]);
    }
}
