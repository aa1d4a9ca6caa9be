//! Encryption and authentication: what works, and what is said when it does not.

use crate::broker::{Kafka, rows, run, shared};
use millstream::{Code, Diagnostic, Place, code};
use std::time::{Duration, Instant};

const USER: &str = "tester";
const PASSWORD: &str = "only-for-tests";

/// The table over a topic at another address of the broker, with further options.
fn table(kafka: &Kafka, servers: &str, name: &str, topic: &str, options: &str) -> String {
    kafka.table(name, "n BIGINT", topic, options).replace(&kafka.servers, servers)
}

fn password(kafka: &Kafka, mechanism: &str, password: &str) -> String {
    let module = if mechanism == "PLAIN" { "plain.PlainLoginModule" } else { "scram.ScramLoginModule" };
    format!(
        "'properties.security.protocol' = 'SASL_SSL', 'properties.ssl.ca.location' = '{}', \
         'properties.sasl.mechanism' = '{mechanism}', 'properties.sasl.jaas.config' = \
         'org.apache.kafka.common.security.{module} required username=\"{USER}\" password=\"{password}\";'",
        kafka.file("ca.pem")
    )
}

fn certificate(kafka: &Kafka) -> String {
    let [ca, certificate, key] = ["ca.pem", "client.pem", "client.key"].map(|name| kafka.file(name));
    format!(
        "'properties.security.protocol' = 'SSL', 'properties.ssl.ca.location' = '{ca}', \
         'properties.ssl.certificate.location' = '{certificate}', 'properties.ssl.key.location' = '{key}'"
    )
}

/// Writes numbers exactly once and reads them, both over the address.
fn write_and_read(kafka: &Kafka, servers: &str, options: &str) {
    let topic = kafka.topic(2);
    let state = tempfile::tempdir().unwrap();
    let sink = format!("'sink.delivery-guarantee' = 'exactly-once', {options}");
    let script = format!(
        "SET 'execution.checkpointing.dir' = '{}'; SET 'execution.checkpointing.interval' = '50 ms';
         CREATE TABLE s (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '5000',
         'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '999');
         {} INSERT INTO o SELECT id FROM s",
        state.path().display(),
        table(kafka, servers, "o", &topic, &sink)
    );
    run(&script).unwrap();
    let mut read = rows(&(table(kafka, servers, "t", &topic, options) + "SELECT n FROM t")).unwrap();
    read.sort_by_key(|n| n.parse::<u64>().unwrap());
    assert_eq!(read, (0..1000).map(|n| n.to_string()).collect::<Vec<_>>(), "{options}");
}

#[test]
fn rows_go_both_ways_with_every_mechanism() {
    let Some(kafka) = shared() else { return };
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        write_and_read(&kafka, &kafka.with_password(), &password(&kafka, mechanism, PASSWORD));
    }
    write_and_read(&kafka, &kafka.with_certificate(), &certificate(&kafka));
}

#[test]
fn the_options_that_the_documentation_shows_work() {
    let Some(kafka) = shared() else { return };
    let page = include_str!("../../../../docs/how-to/kafka.md");
    let (_, section) = page.split_once("## Encryption and passwords").unwrap();
    let example = section.split("```").nth(1).unwrap().strip_prefix("sql").unwrap();
    let options = example
        .replace("/etc/ssl/ca.pem", &kafka.file("ca.pem"))
        .replace("${KAFKA_USER}", USER)
        .replace("${KAFKA_PASSWORD}", PASSWORD);
    write_and_read(&kafka, &kafka.with_password(), options.trim().trim_end_matches(','));
}

/// The errors of a query that reads and of one that writes, which must not take long.
fn errors(kafka: &Kafka, servers: &str, options: &str, code: Code) -> [Diagnostic; 2] {
    let topic = kafka.topic(1);
    let source = table(kafka, servers, "t", &topic, options) + "SELECT n FROM t";
    let sink = table(kafka, servers, "t", &topic, options) + "INSERT INTO t VALUES (1)";
    let since = Instant::now();
    let errors = [rows(&source).map(drop).unwrap_err(), run(&sink).unwrap_err()];
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    for error in &errors {
        assert_eq!(error.code, code, "{error}");
        assert!(matches!(&error.place, Some(Place::Data { resource, .. }) if resource == servers), "{error}");
        assert!(!error.to_string().contains(PASSWORD), "{error}");
    }
    errors
}

#[test]
fn what_is_wrong_is_said_soon() {
    let Some(kafka) = shared() else { return };
    let (secure, plain) = (kafka.with_password(), kafka.servers.clone());
    let right = password(&kafka, "PLAIN", PASSWORD);
    let stranger = right.replace("ca.pem", "other-ca.pem");
    // Until then brokers may be on their way.
    let timeout = "'connect.timeout' = '3 s'";
    let unknown = certificate(&kafka).replace("client.", "other-ca.");
    // What is surely refused again is no outage. To the client the broker's alert of a bad certificate is a broken connection.
    let (refused, away) = (code::REFUSED, code::CONNECTION_FAILED);
    for (servers, options, code, expected, advice) in [
        (&secure, password(&kafka, "PLAIN", "wrong"), refused, "uthentication", "sasl.mechanism"),
        (&secure, password(&kafka, "SCRAM-SHA-512", "wrong"), refused, "uthentication", "sasl.mechanism"),
        (&secure, stranger, refused, "certificate verify failed", "ssl.ca.location"),
        (&kafka.with_certificate(), format!("{unknown}, {timeout}"), away, "certificate", "ssl.certificate.location"),
        (&plain, format!("{right}, {timeout}"), away, "SSL", "security.protocol"),
        (&secure, timeout.into(), away, "Disconnected", "security.protocol"),
    ] {
        for error in errors(&kafka, servers, &options, code) {
            assert!(error.message.contains(expected), "{error}");
            assert!(error.advice.as_ref().is_some_and(|text| text.contains(advice)), "{error}");
        }
    }
}
