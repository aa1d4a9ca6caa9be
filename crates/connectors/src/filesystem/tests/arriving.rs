//! Files that appear while they are read: each comes once, also over restarts, and the watermark waits for those that belong together.

use super::super::monitor::Monitor;
use super::{path, source_request};
use crate::{Decoder, Outlook, Position, SourceRequest, SplitReader, Witness, open_source};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use millstream_types::{Diagnostic, code};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::sync::Arc;
use tempfile::TempDir;

/// A reader that looks as often as it can.
fn request(path: &str, format: &str, extra: &[(&str, &str)]) -> SourceRequest {
    let mut options = vec![("source.monitor-interval", "100 us")];
    options.extend(extra);
    source_request(path, format, &options)
}

/// The shares of a table, one after the other in one thread.
struct Shares {
    decoder: Arc<dyn Decoder>,
    shares: Vec<Box<dyn SplitReader>>,
    witnesses: Vec<Arc<dyn Witness>>,
    at: Vec<Option<Position>>,
}

/// What a checkpoint has of each share.
type Kept = Vec<(String, Option<Position>, Option<Value>)>;

impl Shares {
    fn open(request: &SourceRequest) -> Shares {
        Shares::resumed(request, &[]).unwrap()
    }

    fn resumed(
        request: &SourceRequest,
        kept: &[(String, Option<Position>, Option<Value>)],
    ) -> Result<Shares, Diagnostic> {
        let mut source = open_source(request)?;
        assert!(source.is_replayable() && !source.is_bounded() && source.waits());
        source.resumes(&kept.iter().map(|(name, _, _)| name.as_str()).collect::<Vec<_>>());
        let (decoder, mut shares) = (source.decoder(), source.splits()?);
        let mut at = vec![None; shares.len()];
        let of = |share: &dyn SplitReader| kept.iter().find(|(name, _, _)| name == share.name());
        for share in &shares {
            if let Some((_, _, Some(described))) = of(&**share) {
                share.verify(described, false)?;
            }
        }
        let witnesses = shares.iter().map(|share| share.witness().unwrap()).collect();
        for (share, at) in shares.iter_mut().zip(&mut at).filter(|_| !kept.is_empty()) {
            *at = of(&**share).and_then(|(_, at, _)| *at);
            share.resume(*at)?;
            share.aim(4096);
        }
        Ok(Shares { decoder, shares, witnesses, at })
    }

    /// The next chunk of one of the shares: its rows.
    fn next(&mut self) -> Option<Vec<i64>> {
        // A file is found, told of, begun and read in a turn each; a look is due in every other.
        for _ in 0..20 {
            for (share, at) in self.shares.iter_mut().zip(&mut self.at) {
                share.aim(4096);
                if !share.wait().unwrap() {
                    continue;
                }
                let chunk = share.next().unwrap().unwrap();
                assert!(chunk.after.map(|after| after.at) > at.map(|at| at.at), "positions count on");
                *at = chunk.after;
                let decoded = self.decoder.decode(chunk);
                assert!(decoded.error.is_none(), "{:?}", decoded.error);
                return Some(decoded.columns[0].as_primitive::<Int64Type>().values().to_vec());
            }
        }
        None
    }

    fn rest(&mut self) -> Vec<i64> {
        let mut rows = Vec::new();
        while let Some(some) = self.next() {
            rows.extend(some);
        }
        rows.sort_unstable();
        rows
    }

    fn kept(&self) -> Kept {
        let kept = |share: usize| {
            let described = self.witnesses[share].describe(self.at[share], false);
            (self.shares[share].name().to_string(), self.at[share], described)
        };
        (0..self.shares.len()).map(kept).collect()
    }
}

fn lines(from: i64, to: i64) -> String {
    (from..to).map(|id| format!("{{\"id\":{id},\"name\":\"the name of row {id:06}\"}}\n")).collect()
}

/// Names of files of one share.
fn of_one_share(directory: &str, count: usize) -> Vec<String> {
    let names = (0..).map(|number| format!("{directory}/f-{number}.json"));
    let first = Monitor::share_of(&format!("{directory}/f-0.json"));
    names.filter(|name| Monitor::share_of(name) == first).take(count).collect()
}

#[test]
fn files_are_read_once_when_they_appear() {
    let directory = TempDir::new().unwrap();
    let folder = path(&directory, "in");
    fs::create_dir_all(format!("{folder}/day=1")).unwrap();
    fs::write(format!("{folder}/a.json"), lines(0, 300)).unwrap();
    fs::write(format!("{folder}/_started"), "no row").unwrap();
    let mut shares = Shares::open(&request(&folder, "json", &[]));
    assert_eq!(shares.rest(), (0..300).collect::<Vec<_>>());
    // Compressed, further down, empty, hidden, and one that was read under its old name.
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zipped.write_all(lines(300, 400).as_bytes()).unwrap();
    fs::write(format!("{folder}/.b.json.gz"), zipped.finish().unwrap()).unwrap();
    fs::write(format!("{folder}/empty.json"), "").unwrap();
    fs::write(format!("{folder}/day=1/c.json"), lines(400, 500)).unwrap();
    assert_eq!(shares.rest(), (400..500).collect::<Vec<_>>());
    fs::rename(format!("{folder}/.b.json.gz"), format!("{folder}/b.json.gz")).unwrap();
    fs::write(format!("{folder}/a.json"), lines(0, 310)).unwrap();
    fs::remove_file(format!("{folder}/empty.json")).unwrap();
    assert_eq!(shares.rest(), (300..400).collect::<Vec<_>>());
    assert_eq!(shares.rest(), [] as [i64; 0]);
}

#[test]
fn a_glob_may_match_nothing_yet() {
    let directory = TempDir::new().unwrap();
    let glob = path(&directory, "in/*.csv");
    let mut shares = Shares::open(&request(&glob, "csv", &[("scan.rate-limit.rows-per-second", "1000000")]));
    assert_eq!(shares.rest(), [] as [i64; 0]);
    fs::create_dir(directory.path().join("in")).unwrap();
    fs::write(path(&directory, "in/a.csv"), "1,a\n2,b\n").unwrap();
    fs::write(path(&directory, "in/a.csv.tmp"), "3,c\n").unwrap();
    assert_eq!(shares.rest(), [1, 2]);
    fs::rename(path(&directory, "in/a.csv.tmp"), path(&directory, "in/b.csv")).unwrap();
    assert_eq!(shares.rest(), [3]);
}

#[test]
fn files_of_a_look_hold_the_watermark_to_the_last() {
    let directory = TempDir::new().unwrap();
    let folder = path(&directory, "in");
    fs::create_dir(&folder).unwrap();
    let names = of_one_share(&folder, 4);
    let share = Monitor::share_of(&names[0]);
    let mut source = open_source(&request(&folder, "json", &[])).unwrap();
    let mut splits = source.splits().unwrap();
    let mut other = splits.swap_remove(if share == 0 { 1 } else { 0 });
    let mut split = splits.into_iter().find(|split| split.name().contains(&format!("share {} of", share + 1))).unwrap();
    let decoder = source.decoder();
    let seen = |split: &mut Box<dyn SplitReader>, until: Outlook| {
        let mut seen = Vec::new();
        for _ in 0..50 {
            let is_ready = split.wait().unwrap();
            if is_ready {
                let chunk = split.next().unwrap().unwrap();
                seen.push((decoder.decode(chunk).columns[0].as_primitive::<Int64Type>().value(0), split.outlook()));
            } else if split.outlook() == until {
                return seen;
            }
        }
        panic!("it is {:?} after {seen:?}", split.outlook());
    };
    for (number, name) in names[..3].iter().enumerate() {
        fs::write(name, lines(number as i64, number as i64 + 1)).unwrap();
    }
    let all = [(0, Outlook::Holds), (1, Outlook::Holds), (2, Outlook::Rows)];
    assert_eq!(seen(&mut split, Outlook::Settled), all, "in the order of their names");
    assert_eq!(seen(&mut split, Outlook::Silent), []);
    assert_eq!(seen(&mut other, Outlook::Silent), [], "it gets none");
    // Both are silent. The query is told before either reads a row of the next look.
    fs::write(&names[3], lines(3, 4)).unwrap();
    let elsewhere = (0..).map(|n| format!("{folder}/g-{n}.json"));
    let elsewhere =
        elsewhere.into_iter().find(|name| other.name().contains(&format!("share {} of", Monitor::share_of(name) + 1)));
    fs::write(elsewhere.unwrap(), lines(4, 5)).unwrap();
    assert_eq!(seen(&mut split, Outlook::Settled), []);
    for _ in 0..5 {
        assert!(!split.wait().unwrap(), "the other share does not know yet");
    }
    assert!(!other.wait().unwrap());
    assert_eq!(other.outlook(), Outlook::Settled);
    assert!(!split.wait().unwrap(), "nor has the query heard of it");
    assert_eq!(seen(&mut other, Outlook::Silent), [(4, Outlook::Rows)]);
    assert_eq!(seen(&mut split, Outlook::Silent), [(3, Outlook::Rows)]);
}

#[test]
fn reading_goes_on_behind_any_chunk_and_finds_what_came_meanwhile() {
    let directory = TempDir::new().unwrap();
    let folder = path(&directory, "in");
    fs::create_dir(&folder).unwrap();
    // Two files of one share, an empty one between them, and others.
    let names = of_one_share(&folder, 3);
    fs::write(&names[0], lines(0, 400)).unwrap();
    fs::write(&names[1], "").unwrap();
    fs::write(&names[2], lines(400, 700)).unwrap();
    fs::write(format!("{folder}/x.json"), lines(700, 800)).unwrap();
    let request = request(&folder, "json", &[]);
    let all: Vec<i64> = (0..800).collect();
    let (mut shares, mut read, mut chunks) = (Shares::open(&request), Vec::new(), 0);
    loop {
        let kept = shares.kept();
        let mut resumed = Shares::resumed(&request, &kept).unwrap();
        let mut rows = [read.clone(), resumed.rest()].concat();
        rows.sort_unstable();
        assert_eq!(rows, all, "behind chunk {chunks}");
        // One that had been resumed is resumed again.
        let mut again = Shares::resumed(&request, &resumed.kept()).unwrap();
        assert_eq!(again.rest(), [] as [i64; 0], "behind chunk {chunks}");
        let Some(rows) = shares.next() else { break };
        read.extend(rows);
        chunks += 1;
    }
    assert!(chunks > 8, "{chunks}");
    let kept = shares.kept();
    fs::write(format!("{folder}/y.json"), lines(800, 900)).unwrap();
    // What has been read may go.
    fs::remove_file(&names[2]).unwrap();
    assert_eq!(Shares::resumed(&request, &kept).unwrap().rest(), (800..900).collect::<Vec<_>>());
    // A job that had read file by file knows those that it has read by their names.
    let files = [format!("{folder}/x.json"), names[0].clone()];
    let of_files: Kept = files.iter().map(|name| (name.clone(), None, None)).collect();
    let mut resumed = Shares::resumed(&request, &of_files).unwrap();
    resumed.shares.retain(|share| !files.contains(&share.name().to_string()));
    assert_eq!(resumed.shares.len(), super::super::monitor::SHARES);
    assert_eq!(resumed.rest(), (800..900).collect::<Vec<_>>());
}

#[test]
fn parquet_goes_on_within_a_file() {
    let directory = TempDir::new().unwrap();
    let folder = path(&directory, "in");
    fs::create_dir(&folder).unwrap();
    let write = |name: &str, from: i64, to: i64| super::resume::parquet(&format!("{folder}/{name}"), from, to);
    write("a.parquet", 0, 3000);
    let request = SourceRequest { buffer_rows: 1024, ..request(&folder, "parquet", &[]) };
    let mut shares = Shares::open(&request);
    let read = shares.next().unwrap();
    assert!(read.len() < 3000);
    let kept = shares.kept();
    write("b.parquet", 3000, 3100);
    let mut resumed = Shares::resumed(&request, &kept).unwrap();
    assert_eq!(resumed.rest(), (read.len() as i64..3100).collect::<Vec<_>>());
    let kept = resumed.kept();
    assert_eq!(Shares::resumed(&request, &kept).unwrap().rest(), [] as [i64; 0]);
    write("a.parquet", 0, 3001);
    let error = Shares::resumed(&request, &kept).err().unwrap();
    assert_eq!(error.code, code::INPUT_CHANGED, "{error}");
}

#[test]
fn changed_files_and_damaged_checkpoints_are_refused() {
    let directory = TempDir::new().unwrap();
    let folder = path(&directory, "in");
    fs::create_dir(&folder).unwrap();
    let names = of_one_share(&folder, 2);
    fs::write(&names[0], lines(0, 10)).unwrap();
    fs::write(&names[1], lines(10, 1000)).unwrap();
    let request = request(&folder, "json", &[]);
    let mut shares = Shares::open(&request);
    while shares.next().unwrap().last().unwrap() < &10 {}
    let kept = shares.kept();
    let refused = || Shares::resumed(&request, &kept).err().unwrap();
    fs::write(&names[0], lines(0, 11)).unwrap();
    assert_eq!(refused().code, code::INPUT_CHANGED);
    assert!(refused().to_string().contains("nobody would read"), "{}", refused());
    fs::write(&names[0], lines(0, 10)).unwrap();
    fs::write(&names[1], lines(11, 1000)).unwrap();
    assert_eq!(refused().code, code::INPUT_CHANGED);
    fs::remove_file(&names[1]).unwrap();
    assert!(refused().to_string().contains("is gone, but had not been read to its end"), "{}", refused());
    fs::write(&names[1], lines(10, 1000)).unwrap();
    assert!(Shares::resumed(&request, &kept).is_ok());
    for damage in
        [Value::Null, serde_json::json!({ "read": "AAAA", "current": 7 }), serde_json::json!({ "read": "////" })]
    {
        let damaged: Kept = kept.iter().map(|(name, at, _)| (name.clone(), *at, Some(damage.clone()))).collect();
        assert_eq!(Shares::resumed(&request, &damaged).err().unwrap().code, code::CHECKPOINT_DAMAGED, "{damage}");
    }
    // A position without a file is none.
    let without: Kept = kept.iter().map(|(name, at, _)| (name.clone(), *at, None)).collect();
    assert_eq!(Shares::resumed(&request, &without).err().unwrap().code, code::CHECKPOINT_DAMAGED);
}

#[test]
fn what_cannot_be_looked_at_again_is_an_error() {
    let directory = TempDir::new().unwrap();
    let file = path(&directory, "a.json");
    fs::write(&file, lines(0, 1)).unwrap();
    let error = |path: &str, interval: &str| {
        open_source(&source_request(path, "json", &[("source.monitor-interval", interval)])).err().unwrap()
    };
    let folder = path(&directory, "");
    for (path, interval, what) in [
        (&*folder, "0 s", "'0 s', which is not a duration longer than 0"),
        (&folder, "often", "'often', which is not a duration"),
        (&file, "1 s", "a.json' is a file"),
        ("-", "1 s", "standard input is no directory"),
        ("/dev/stdin", "1 s", "standard input is no directory"),
    ] {
        let error = error(path, interval);
        assert!(error.code == code::INVALID_OPTION && error.to_string().contains(what), "{error}");
        assert!(error.to_string().contains("source.monitor-interval"), "{error}");
    }
    assert_eq!(error(&path(&directory, "nowhere"), "1 s").code, code::FILE_NOT_FOUND);
    let pipe = path(&directory, "in/pipe");
    fs::create_dir(directory.path().join("in")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let request = request(&path(&directory, "in"), "json", &[]);
    let mut splits = open_source(&request).unwrap().splits().unwrap();
    let error = splits[0].wait().unwrap_err();
    assert!(error.code == code::READ_FAILED && error.message.contains("in/pipe' is a pipe"), "{error}");
    // A directory that goes away while it is read.
    fs::remove_file(&pipe).unwrap();
    assert!(!splits[0].wait().unwrap());
    fs::remove_dir(directory.path().join("in")).unwrap();
    let gone = (0..50).find_map(|_| splits[0].wait().err()).unwrap();
    assert_eq!(gone.code, code::FILE_NOT_FOUND, "{gone}");
}
