//! Windows over TIMESTAMP_LTZ about the changes of clocks, against a model that reads every instant as local time; what that
//! is, `java.time` says. (Flink is asked in `tests/flink`; of clocks that are changed by half an hour, or for good, it knows
//! less.)

use crate::configurations::{self, Configuration};
use crate::nexmark::{Bag, actual, difference};
use millstream::{Collected, Outcome, RunMonitor, Session, code};
use millstream_types::TimeUnit;
use millstream_types::text::zone::Zone;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// Zones with an hour, half an hour or a whole day of summer time, some that have given it up or moved for good, one without.
const ZONES: [&str; 9] = [
    "America/New_York",
    "Europe/Berlin",
    "Asia/Kathmandu",
    "Europe/Moscow",
    "Europe/Istanbul",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "-03:30",
];

/// A row: number, key, instant in milliseconds.
type Row = (i64, i64, i64);

/// Rows about the last changes of a zone, out of order by less than an hour.
fn rows(zone: Zone) -> Vec<Row> {
    let (from, to) = (1_293_840_000, 1_798_761_600); // The years from 2011 to 2026.
    let changes: Vec<i64> =
        (from..to).step_by(3_600).filter(|&s| zone.offset_at(s) != zone.offset_at(s - 3_600)).collect();
    let recent = changes.len().saturating_sub(8);
    let mut places: Vec<i64> = changes[recent..].to_vec();
    if places.is_empty() {
        places.push(to);
    }
    let mut bits = 16_u64;
    let mut random = |below: i64| {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((bits >> 33) as i64) % below
    };
    let mut rows = Vec::new();
    for place in places {
        let mut time = (place - 3 * 3_600) * 1_000;
        while time < (place + 3 * 3_600) * 1_000 {
            rows.push((rows.len() as i64, random(2), time));
            time += [1, MINUTE, 5 * MINUTE, 9 * MINUTE, 30 * MINUTE][random(5) as usize];
        }
    }
    rows.sort_by_key(|&(id, _, time)| (time + (id * 7919 % 59) * MINUTE, id));
    rows
}

#[derive(Debug, Clone, Copy)]
enum Windows {
    Tumble { size: i64, offset: i64 },
    Hop { size: i64, slide: i64 },
    Cumulate { size: i64, step: i64 },
    Session { gap: i64 },
}

const WINDOWS: [Windows; 6] = [
    Windows::Tumble { size: HOUR, offset: 0 },
    Windows::Tumble { size: 24 * HOUR, offset: -5 * HOUR },
    Windows::Tumble { size: HOUR, offset: 25 * MINUTE },
    Windows::Hop { size: HOUR, slide: 20 * MINUTE },
    Windows::Cumulate { size: 6 * HOUR, step: 30 * MINUTE },
    Windows::Session { gap: 12 * MINUTE },
];

impl Windows {
    fn sql(self) -> String {
        let minutes = |ms: i64| format!("INTERVAL '{}' MINUTE", ms / MINUTE);
        let table = "TABLE t, DESCRIPTOR(ts)";
        let function = match self {
            Windows::Tumble { size, offset } => format!("TUMBLE({table}, {}, {})", minutes(size), minutes(offset)),
            Windows::Hop { size, slide } => format!("HOP({table}, {}, {})", minutes(slide), minutes(size)),
            Windows::Cumulate { size, step } => format!("CUMULATE({table}, {}, {})", minutes(step), minutes(size)),
            Windows::Session { gap } => format!("SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), {})", minutes(gap)),
        };
        format!(
            "SELECT window_start, window_end, window_time, k, COUNT(*) AS n, SUM(id) AS s FROM TABLE({function}) \
             GROUP BY window_start, window_end, window_time, k"
        )
    }

    /// The windows that a time lies in, but sessions.
    fn of(self, time: i64) -> Vec<(i64, i64)> {
        let start = |size: i64, offset: i64| time - (time - offset).rem_euclid(size);
        match self {
            Windows::Tumble { size, offset } => vec![(start(size, offset), start(size, offset) + size)],
            Windows::Hop { size, slide } => {
                let starts = (0..size / slide).map(|i| start(slide, 0) - i * slide);
                starts.map(|start| (start, start + size)).filter(|&(start, end)| start <= time && time < end).collect()
            }
            Windows::Cumulate { size, step } => {
                let ends = (1..=size / step).map(|i| (start(size, 0), start(size, 0) + i * step));
                ends.filter(|&(_, end)| time < end).collect()
            }
            Windows::Session { .. } => vec![],
        }
    }

    /// Count and sum of the rows of each window and key.
    fn groups(self, rows: &[Row], zone: Zone) -> BTreeMap<(i64, i64, i64), (i64, i64)> {
        let mut groups: BTreeMap<(i64, i64, i64), (i64, i64)> = BTreeMap::new();
        let mut local: Vec<(i64, i64, i64)> =
            rows.iter().map(|&(id, key, time)| (key, zone.utc_to_local(time, TimeUnit::Milli), id)).collect();
        let mut add = |window: (i64, i64), key: i64, id: i64| {
            let group = groups.entry((window.0, window.1, key)).or_default();
            *group = (group.0 + 1, group.1 + id);
        };
        let Windows::Session { gap } = self else {
            local.iter().for_each(|&(key, time, id)| self.of(time).into_iter().for_each(|w| add(w, key, id)));
            return groups;
        };
        local.sort_unstable();
        for session in local.chunk_by(|a, b| a.0 == b.0 && b.1 <= a.1 + gap) {
            let window = (session[0].1, session[session.len() - 1].1 + gap);
            session.iter().for_each(|&(key, _, id)| add(window, key, id));
        }
        groups
    }

    fn expected(self, rows: &[Row], zone: Zone) -> Bag {
        let mut bag = Bag::new();
        for ((start, end, key), (count, sum)) in self.groups(rows, zone) {
            let time = zone.local_to_utc(end - 1, TimeUnit::Milli);
            let row = format!("{start},{end},{time},{key},{count},{sum}");
            *bag.entry(row).or_default() += 1;
        }
        bag
    }
}

fn write(rows: &[Row], folder: &Path) {
    let mut lines = String::new();
    rows.iter().for_each(|(id, k, e)| writeln!(lines, "{{\"id\": {id}, \"k\": {k}, \"e\": {e}}}").unwrap());
    std::fs::write(folder.join("rows.jsonl"), lines).unwrap();
}

fn define(session: &mut Session, zone: &str, folder: &Path) {
    session.set("table.local-time-zone", zone).unwrap();
    let sql = format!(
        "CREATE TABLE t (id BIGINT, k BIGINT, e BIGINT, ts AS TO_TIMESTAMP_LTZ(e, 3), \
         WATERMARK FOR ts AS ts - INTERVAL '1' HOUR) \
         WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json')",
        folder.join("rows.jsonl").display()
    );
    session.run(&sql).unwrap();
}

#[test]
fn windows_of_instants_are_those_of_local_time() {
    let configurations = configurations::all();
    let mut failures = String::new();
    for (number, name) in ZONES.into_iter().enumerate() {
        let zone = Zone::parse(name).unwrap();
        let (rows, folder) = (rows(zone), tempfile::tempdir().unwrap());
        write(&rows, folder.path());
        for (kind, windows) in WINDOWS.into_iter().enumerate() {
            let expected = windows.expected(&rows, zone);
            // Each configuration meets several zones with every kind of windows.
            for configuration in configurations.iter().skip((number + kind) % 3).step_by(3) {
                let mut session = configuration.session();
                define(&mut session, name, folder.path());
                let found = actual(&mut session, &windows.sql()).unwrap();
                if found != expected {
                    let difference = difference(&expected, &found);
                    writeln!(failures, "{windows:?} in {name} under {}:\n{difference}", configuration.name).unwrap();
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn queries_that_are_stopped_about_a_change_of_clocks_lose_nothing() {
    let settings = [("2", "auto"), ("1", "always"), ("3", "auto"), ("1", "auto")];
    for (kind, (windows, name)) in WINDOWS.into_iter().zip(ZONES).enumerate() {
        let zone = Zone::parse(name).unwrap();
        let (rows, folder) = (rows(zone), tempfile::tempdir().unwrap());
        write(&rows, folder.path());
        let out = folder.path().join("out");
        let mut usual = Duration::ZERO;
        // The first run is for its time only.
        for run in 0..=settings.len() {
            let (workers, spill) = settings[run % settings.len()];
            let state = folder.path().join(if run == 0 { "first" } else { "state" });
            let settings = [
                ("pipeline.tier", "interpreted"),
                ("pipeline.buffer-rows", "4"),
                ("parallelism.default", workers),
                ("pipeline.spill", spill),
                ("execution.checkpointing.dir", &*state.to_string_lossy()),
                ("execution.checkpointing.interval", "1 ms"),
            ];
            let mut session = Configuration::new("stopped", &settings).session();
            define(&mut session, name, folder.path());
            let into = if run == 0 { folder.path().join("unstopped") } else { out.clone() };
            session
                .run(&format!(
                    "CREATE TABLE o (window_start TIMESTAMP(3), window_end TIMESTAMP(3), window_time TIMESTAMP_LTZ(3), \
                     k BIGINT, n BIGINT, s BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'parquet')",
                    into.display()
                ))
                .unwrap();
            let statement = &session.parse(&format!("INSERT INTO o {}", windows.sql())).unwrap()[0];
            let (monitor, started) = (RunMonitor::new(), Instant::now());
            let cancel = monitor.cancel().clone();
            let stop_after = usual * (1 + (run as u32 * 5 + kind as u32 * 3) % 9) / 12;
            let stopper = (run > 0 && run < 4).then(|| {
                std::thread::spawn(move || {
                    std::thread::sleep(stop_after);
                    cancel.stop();
                })
            });
            let outcome = session.execute(statement, &mut Collected::new(), &monitor);
            stopper.into_iter().for_each(|thread| thread.join().unwrap());
            match outcome {
                Ok(Outcome::Ran(_) | Outcome::Done(_)) => {}
                Err(diagnostic) if diagnostic.code == code::SUSPENDED && run < 4 => {}
                other => panic!("{windows:?} in {name}: {:?}", other.err()),
            }
            if run == 0 {
                usual = started.elapsed();
            }
        }
        let mut session = Configuration::new("read", &[]).session();
        session
            .run(&format!(
                "CREATE TABLE o (window_start TIMESTAMP(3), window_end TIMESTAMP(3), window_time TIMESTAMP_LTZ(3), k BIGINT, \
                 n BIGINT, s BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'parquet')",
                out.display()
            ))
            .unwrap();
        let found = actual(&mut session, "SELECT * FROM o").unwrap();
        let difference = difference(&windows.expected(&rows, zone), &found);
        assert!(difference.is_empty(), "{windows:?} in {name}:\n{difference}");
    }
}
