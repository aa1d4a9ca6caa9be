use crate::ring::Ring;
use crate::{Caching, Reading, Writer};
use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;

/// With and without the page cache, on a ring and without one.
fn ways() -> impl Iterator<Item = (Caching, Option<&'static Ring>)> {
    let cachings = [Caching::Direct, Caching::PageCache];
    cachings.into_iter().flat_map(|caching| [(caching, Ring::of_process()), (caching, None)])
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn write(path: &Path, bytes: &[u8], piece: usize, (caching, ring): (Caching, Option<&'static Ring>)) {
    let mut writer = Writer::create_with(path, caching, ring).unwrap();
    for piece in bytes.chunks(piece) {
        writer.write(piece).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn files_have_the_bytes_that_were_given_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for way in ways() {
        for (count, piece) in [(0, 1), (1, 1), (4095, 100), (4096, 5000), (70_000, 33), (9_000_001, 300_001)] {
            let bytes = bytes(count);
            write(&path, &bytes, piece, way);
            assert!(fs::read(&path).unwrap() == bytes, "{count} bytes in pieces of {piece}");
        }
    }
}

#[test]
fn any_range_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let bytes = bytes(5_000_123);
    fs::write(&path, &bytes).unwrap();
    let ranges = [0..0, 7..7, 0..1, 4095..4097, 4096..8192, 100..5_000_123, 5_000_122..5_000_123, 0..5_000_123];
    for (caching, ring) in ways() {
        for range in ranges.clone() {
            let reading = Reading::begin_with(&path, range.start as u64..range.end as u64, caching, ring).unwrap();
            assert!(reading.finish().unwrap() == bytes[range.clone()], "{range:?}");
        }
        let backwards = Range { start: 5, end: 4 };
        let too_far = [1..5_000_124, u64::MAX - 1..u64::MAX, backwards, 0..u64::MAX];
        for range in too_far {
            let error = Reading::begin_with(&path, range, caching, ring).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        }
    }
}

#[test]
fn a_file_that_becomes_shorter_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for (caching, ring) in ways() {
        fs::write(&path, bytes(9_000_000)).unwrap();
        let reading = Reading::begin_with(&path, 0..9_000_000, caching, ring).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(4_000_000).unwrap();
        assert_eq!(reading.finish().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}

#[test]
fn threads_share_the_ring_and_requests_outlive_the_thread_that_began_them() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..4).map(|i| folder.path().join(i.to_string())).collect();
    std::thread::scope(|scope| {
        for path in &paths {
            scope.spawn(move || write(path, &bytes(3_000_000), 10_000, (Caching::Direct, Ring::of_process())));
        }
    });
    let begun: Vec<Reading> = std::thread::scope(|scope| {
        let begin =
            |path| move || (0..30).map(|i| Reading::begin(path, i..3_000_000, Caching::Direct).unwrap()).collect();
        let threads: Vec<_> = paths.iter().map(|path| scope.spawn(begin(path))).collect();
        threads.into_iter().flat_map(|thread| -> Vec<Reading> { thread.join().unwrap() }).collect()
    });
    std::thread::scope(|scope| {
        for (number, reading) in begun.into_iter().enumerate() {
            // Some are given up, others waited for, by several threads at once.
            scope.spawn(move || {
                if number % 3 > 0 {
                    assert!(reading.finish().unwrap() == bytes(3_000_000)[number % 30..]);
                }
            });
        }
    });
}

#[test]
fn a_full_disk_is_an_error() {
    for (caching, ring) in ways() {
        let written = Writer::create_with(Path::new("/dev/full"), caching, ring).and_then(|mut writer| {
            (0..100).try_for_each(|_| writer.write(&[1; 100_000]))?;
            writer.finish()
        });
        assert_eq!(written.unwrap_err().kind(), ErrorKind::StorageFull);
    }
}
