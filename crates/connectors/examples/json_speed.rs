//! Decodes `bidder` and `dateTime` of bid events and prints the speed on one core in GB/s.
//!
//! `cargo run --release -p millstream-connectors --example json_speed [FILE.jsonl]`; without a file it makes bids of
//! Nexmark's shape. The counting of lines that any reader must do stands beside it for comparison.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for developers")]

use millstream_connectors::{ColumnRequest, RequestOrigin, SourceRequest, open_source};
use millstream_types::{DataType, Field, Options, Schema};
use std::time::Instant;

fn main() {
    let mut made = None;
    let path = std::env::args().nth(1).unwrap_or_else(|| {
        let path = std::env::temp_dir().join(format!("millstream-json-speed-{}.jsonl", std::process::id()));
        std::fs::write(&path, bids(400_000)).unwrap();
        made = Some(path.clone());
        path.to_string_lossy().into_owned()
    });
    let data = std::fs::read(&path).unwrap();
    let gigabytes = data.len() as f64 / 1e9;
    for round in 0..5 {
        let start = Clock::start();
        let mut rows = 0;
        let mut source = open_source(&request(&path)).unwrap();
        let decoder = source.decoder();
        let mut chunks = Vec::new();
        for mut split in source.splits().unwrap() {
            while let Some(chunk) = split.next().unwrap() {
                chunks.push(chunk);
            }
        }
        let read = start.seconds();
        let start = Clock::start();
        for chunk in chunks {
            let decoded = decoder.decode(chunk);
            assert!(decoded.error.is_none(), "{:?}", decoded.error);
            rows += decoded.rows;
        }
        let decode = start.seconds();
        let start = Clock::start();
        let lines = data.iter().filter(|byte| **byte == b'\n').count();
        let count = start.seconds();
        println!(
            "round {round}: {rows} rows of {lines} lines; read {:.2} GB/s, decode {:.2} GB/s ({:.0} ns/row), count lines {:.2} GB/s",
            gigabytes / read,
            gigabytes / decode,
            decode / rows as f64 * 1e9,
            gigabytes / count
        );
    }
    if let Some(path) = made {
        std::fs::remove_file(path).unwrap();
    }
}

/// Time that this thread spent on a core, where the system tells, so that other programs do not spoil the result.
struct Clock {
    wall: Instant,
    cpu: Option<u64>,
}

impl Clock {
    fn start() -> Clock {
        Clock { wall: Instant::now(), cpu: cpu_nanos() }
    }

    fn seconds(&self) -> f64 {
        match (self.cpu, cpu_nanos()) {
            (Some(start), Some(end)) => (end - start) as f64 / 1e9,
            _ => self.wall.elapsed().as_secs_f64(),
        }
    }
}

fn cpu_nanos() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn request(path: &str) -> SourceRequest {
    let bigint = |name: &str| Field::new(name, DataType::BigInt, true);
    let string = |name: &str| Field::new(name, DataType::STRING, true);
    let bid = vec![
        bigint("auction"),
        bigint("bidder"),
        bigint("price"),
        string("channel"),
        string("url"),
        bigint("dateTime"),
        string("extra"),
    ];
    let fields =
        vec![Field::new("event_type", DataType::Int, true), Field::new("bid", DataType::Row(bid.into()), true)];
    let column = |name: &str, path: &[usize]| ColumnRequest {
        name: name.into(),
        origin: RequestOrigin::Path(path.to_vec()),
        data_type: DataType::BigInt,
        nullable: true,
    };
    let options = [("connector", "filesystem"), ("format", "json"), ("path", path)];
    SourceRequest {
        table: "bids".into(),
        options: options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect::<Options>(),
        schema: Schema::new(fields),
        columns: vec![column("bid.bidder", &[1, 1]), column("bid.dateTime", &[1, 5])],
        ..SourceRequest::default()
    }
}

fn bids(count: u64) -> Vec<u8> {
    let mut out = String::new();
    for i in 0..count {
        let random = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let extra = "rufnynxjdbicgrgxqaxoaciusbndotisqbrmpyepkgmnrtypallngxmuhzqwertyuiop"
            .get(..40 + (i % 24) as usize)
            .unwrap();
        out.push_str(&format!(
            "{{\"event_type\":2,\"bid\":{{\"auction\":{},\"bidder\":{},\"price\":{},\"channel\":\"channel-{}\",\
             \"url\":\"https://www.nexmark.com/zlxo/igjr/juz/item.htm?query=1&channel_id={}\",\"dateTime\":{},\"extra\":\"{extra}\"}}}}\n",
            1000 + random % 500,
            1000 + random % 700,
            random % 5_000_000,
            random % 10_000,
            random % 1_000_000_000,
            1_700_006_360_000 + i
        ));
    }
    out.into_bytes()
}
