//! What a job does, tells and shows while brokers are away or a partition is silent.

use crate::broker::{Kafka, alone, shared};
use crate::support::millstream;
use crate::watching::Watching;
use std::fs;
use std::path::Path;
use std::process::Command;

fn command(folder: &Path, script: &str) -> Command {
    fs::write(folder.join("job.sql"), script).unwrap();
    let mut command = millstream(folder);
    command.args(["run", "job.sql", "--workers", "1"]);
    command
}

/// A table over a topic that is read without an end.
fn endless(kafka: &Kafka, name: &str, columns: &str, topic: &str, options: &str) -> String {
    kafka.table(name, columns, topic, &format!("'scan.bounded.mode' = 'unbounded', {options}"))
}

/// Sends `{"n": …}`, one for each number.
fn send(kafka: &Kafka, topic: &str, partition: i32, numbers: std::ops::Range<u64>) {
    let texts: Vec<String> = numbers.map(|n| format!("{{\"n\":{n}}}")).collect();
    kafka.send(topic, partition, &texts.iter().map(String::as_str).collect::<Vec<_>>());
}

/// The series of a split of the only source.
fn of_split(metric: &str, job: &str, split: &str) -> String {
    format!("millstream_{metric}{{job=\"{job}\",source=\"source 0: table t\",split=\"{split}\"}}")
}

const NOWHERE: &str = "CREATE TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole');";

#[test]
fn lag_is_what_was_not_read() {
    let Some(kafka) = shared() else { return };
    let (topic, folder) = (kafka.topic(2), tempfile::tempdir().unwrap());
    send(&kafka, &topic, 0, 0..2000);
    // Behind the last message is the marker of its transaction.
    kafka.send_in_transaction(&topic, 1, &[r#"{"n":0}"#; 1000]);
    let rate = "'scan.rate-limit.rows-per-second' = '500'";
    let script = endless(&kafka, "t", "n BIGINT", &topic, rate) + NOWHERE + "INSERT INTO nowhere SELECT n FROM t";
    let job = Watching::start(&mut command(folder.path(), &script));
    for (partition, messages) in [(0, 2000.0), (1, 1001.0)] {
        let split = format!("{topic}-{partition}");
        let (rows, lag) =
            (of_split("split_rows_total", "nowhere", &split), of_split("split_lag_records", "nowhere", &split));
        let is_between = |samples: &[f64]| samples[0] > 0.0 && samples[1] > 0.0 && samples[0] + samples[1] == messages;
        job.shows(&[&rows, &lag], is_between);
    }
    let all = "millstream_source_lag_records{job=\"nowhere\",source=\"source 0: table t\"}";
    let rows = "millstream_rows_in_total{job=\"nowhere\"}";
    job.shows(&[all, rows], |samples| samples == [0.0, 3000.0]);
    assert_eq!(job.stopped().0, Some(130));
}

#[test]
fn the_partition_that_holds_event_time_back_is_named() {
    let Some(kafka) = shared() else { return };
    let (topic, folder) = (kafka.topic(2), tempfile::tempdir().unwrap());
    send(&kafka, &topic, 0, 0..1000);
    let columns = "n BIGINT, ts AS TO_TIMESTAMP_LTZ(n * 1000, 3), WATERMARK FOR ts AS ts";
    let rate = "'scan.rate-limit.rows-per-second' = '20'";
    let script = endless(&kafka, "t", columns, &topic, rate)
        + NOWHERE
        + "INSERT INTO nowhere SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) \
           GROUP BY window_start, window_end";
    let job = Watching::start(&mut command(folder.path(), &script));
    let (lively, silent) = (format!("{topic}-0"), format!("{topic}-1"));
    let told = format!(
        "windows, joins and beats of event time wait for '{silent}' of source 0: table t, which sends no rows (no watermark yet)"
    );
    job.tells(&[&told]);
    let [lively, silent] = [lively, silent].map(|split| of_split("split_silent_seconds", "nowhere", &split));
    job.shows(&[&lively, &silent], |samples| samples[0] < 5.0 && samples[1] > 10.0);
    // It speaks.
    send(&kafka, &topic, 1, 5000..5001);
    job.shows(&["millstream_windows_total{job=\"nowhere\"}"], |samples| samples[0] > 5.0);
    assert_eq!(job.stopped().0, Some(130));
}

/// Brokers that are away before a job starts, and in the middle of others, one of which waits for them itself, while
/// the other is started again.
#[test]
fn an_outage_is_waited_out() {
    let Some(kafka) = alone() else { return };
    let (input, output) = (kafka.topic(1), kafka.topic(1));
    send(&kafka, &input, 0, 0..6000);
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let settings = "SET 'execution.checkpointing.interval' = '200 ms';
        SET 'restart-strategy.exponential-delay.initial-backoff' = '300 ms';";
    let source = |options: &str| settings.to_string() + &endless(&kafka, "t", "n BIGINT", &input, options);
    let start = |folder: usize, script: String| {
        Watching::start(command(folders[folder].path(), &script).args(["--state-dir", "state"]))
    };
    let written = "CREATE TABLE files (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'csv');
        INSERT INTO files SELECT n FROM t";
    let patient = start(0, source("'connect.timeout' = '1 s'") + written);
    let sink = "'sink.delivery-guarantee' = 'exactly-once', 'properties.delivery.timeout.ms' = '2000', 'connect.timeout' = '1 s'";
    let writer = source("'connect.timeout' = '1 s', 'scan.rate-limit.rows-per-second' = '500'")
        + &kafka.table("o", "n BIGINT", &output, sink)
        + "INSERT INTO o SELECT n FROM t";
    let writer = start(1, writer);
    let series = |metric: &str, job: &str| format!("millstream_{metric}{{job=\"{job}\"}}");
    patient.shows(&[&series("checkpoints_total", "files"), &series("rows_out_total", "files")], |samples| {
        samples[0] > 1.0 && samples[1] == 6000.0
    });
    writer.shows(&[&series("checkpoints_total", "o")], |samples| samples[0] > 2.0);

    kafka.kill();
    let late = start(2, source("'connect.timeout' = '1 s'") + written);
    // A server that was there is waited for by its client.
    let unreachable = of_split("split_unreachable", "files", &format!("{input}-0"));
    patient.shows(&[&unreachable], |samples| samples[0] == 1.0);
    let told = format!(
        "'{input}-0' of source 0: table t has sent no rows for 10 s: the brokers '{}' do not answer",
        kafka.servers
    );
    patient.tells(&[&told]);
    // One that is not there at the start, or takes no rows, has the job started again.
    let names = format!("cannot be asked of the brokers '{}'", kafka.servers);
    for (job, name) in [(&late, "files"), (&writer, "o")] {
        job.tells(&["error[MS5001]", &names, "note: restart 1 in 300.0 ms", "note: restart 2 in 450.0 ms"]);
        job.shows(&[&series("job_ready", name), &series("job_restarts_total", name)], |samples| {
            samples[0] == 0.0 && samples[1] > 0.0
        });
    }
    writer.tells(&["error[MS5002]"]);
    kafka.restart();

    patient.shows(&[&unreachable], |samples| samples[0] == 0.0);
    send(&kafka, &input, 0, 6000..6100);
    for job in [&patient, &late] {
        let rows = of_split("split_lag_records", "files", &format!("{input}-0"));
        job.shows(&[&rows, &series("job_ready", "files")], |samples| samples == [0.0, 1.0]);
    }
    writer.shows(&[&of_split("split_lag_records", "o", &format!("{input}-0")), &series("job_ready", "o")], |samples| {
        samples == [0.0, 1.0]
    });
    assert!(!patient.log().contains("restart"), "{}", patient.log());
    assert!(writer.log().contains("note: resuming from checkpoint"), "{}", writer.log());
    for job in [patient, late, writer] {
        let (code, log) = job.stopped();
        assert_eq!(code, Some(0), "{log}");
    }
    let expected: Vec<u64> = (0..6100).collect();
    for folder in [0, 2] {
        let files = fs::read_dir(folders[folder].path().join("out")).unwrap().map(|file| file.unwrap().path());
        let shown = files.filter(|file| !file.file_name().unwrap().to_string_lossy().starts_with('.'));
        let text: String = shown.map(|file| fs::read_to_string(file).unwrap()).collect();
        let mut numbers: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
        numbers.sort_unstable();
        assert!(numbers == expected, "{} rows", numbers.len());
    }
    let number = |text: &String| text.trim_start_matches("{\"n\":").trim_end_matches('}').parse().unwrap();
    kafka.shows(&output, |texts| {
        let mut numbers: Vec<u64> = texts.iter().map(number).collect();
        numbers.sort_unstable();
        numbers == expected
    });
}
