use super::*;

#[test]
fn files_are_objects_that_appear_when_they_are_finished() {
    let root = ObjectDirectory::in_memory();
    let store = root.directory("job-1");
    let mut writer = store.create("b").unwrap();
    writer.write(b"hello ").unwrap();
    writer.write(b"world").unwrap();
    drop(store.create("a").unwrap());
    assert_eq!(store.list().unwrap(), []);
    writer.finish().unwrap();
    assert_eq!(store.list().unwrap(), [StoredFile { name: "b".into(), bytes: 11 }]);
    assert_eq!(store.read("b", 6..11).unwrap(), b"world");
    assert_eq!(store.read("b", 3..3).unwrap(), b"");
    for (name, range) in
        [("b", 6..12), ("b", 11..12), ("c", 0..1), ("b", 5..u64::MAX), ("b", Range { start: 2, end: 1 })]
    {
        assert!(store.read(name, range.clone()).is_err(), "{name} {range:?}");
    }
    assert_eq!(store.place(), "memory://some/prefix/job-1");
    let entries = root.entries().unwrap();
    assert_eq!((entries.files.len(), entries.directories), (0, vec!["job-1".to_string()]));
    store.delete("b").unwrap();
    store.delete("b").unwrap();
    assert_eq!(store.list().unwrap(), []);
}

#[test]
fn large_files_are_written_and_read_in_parts() {
    let store = ObjectDirectory::in_memory();
    let bytes: Vec<u8> = (0..PART as u32 / 2).flat_map(u32::to_le_bytes).chain([1, 2, 3]).collect();
    let mut writer = store.create("large").unwrap();
    let (first, rest) = bytes.split_at(1000);
    writer.write(first).unwrap();
    writer.write(rest).unwrap();
    assert_eq!(store.list().unwrap(), []);
    writer.finish().unwrap();
    assert_eq!(store.list().unwrap()[0].bytes, bytes.len() as u64);
    assert!(store.read("large", 0..bytes.len() as u64).unwrap() == bytes);
    assert!(store.read("large", 77..bytes.len() as u64 - 5).unwrap() == bytes[77..bytes.len() - 5]);
    assert!(store.read("large", 0..bytes.len() as u64 + 1).is_err());
    let mut abandoned = store.create("abandoned").unwrap();
    abandoned.write(&bytes).unwrap();
    drop(abandoned);
    assert_eq!(store.list().unwrap().len(), 1);
}

#[test]
fn pieces_are_read_from_windows() {
    let store = ObjectDirectory::in_memory();
    let bytes: Vec<u8> = (0..WINDOW as u32 * 3 / 4).flat_map(u32::to_le_bytes).collect();
    store.put("pieces", bytes.clone(), false).unwrap();
    let length = bytes.len() as u64;
    for start in (0..length).step_by(100_003) {
        let range = start..(start + 200_000).min(length);
        assert!(store.read("pieces", range.clone()).unwrap() == bytes[range.start as usize..range.end as usize]);
        assert!(store.read("pieces", length - 10..length + 1).is_err());
    }
    assert!(store.windows().len() <= WINDOWS);
    store.delete("pieces").unwrap();
    assert!(store.read("pieces", 0..1).is_err());
}

#[test]
fn a_name_is_taken_once() {
    let store = ObjectDirectory::in_memory();
    store.put("run", b"first".to_vec(), true).unwrap();
    assert_eq!(store.put("run", b"second".to_vec(), true).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(store.get("run").unwrap(), b"first");
    store.put("run", b"third".to_vec(), false).unwrap();
    assert_eq!(store.get("run").unwrap(), b"third");
}
