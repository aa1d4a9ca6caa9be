//! The form of files, and the bound of a directory.

use super::*;
use std::os::unix::fs::PermissionsExt;
use std::time::UNIX_EPOCH;

fn key(text: &str) -> CodeKey {
    CodeKey::of(text.to_string())
}

#[test]
fn no_flipped_bit_and_no_missing_byte_goes_unnoticed() {
    let (key, object) = (key("the key"), b"the object".as_slice());
    let bytes = pack(&key, object);
    assert_eq!(unpack(&bytes, &key), Ok(object));
    for place in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << bit;
            assert!(unpack(&flipped, &key).is_err(), "bit {bit} of byte {place}");
        }
        assert!(unpack(&bytes[..place], &key).is_err(), "{place} bytes");
    }
}

/// A file with a right checksum over wrong content, as a defect of ours would write it.
#[test]
fn lengths_and_versions_are_checked_apart_from_the_checksum() {
    let key = key("the key");
    let bytes = pack(&key, b"the object");
    let content = &bytes[..bytes.len() - CHECKSUM];
    let with = |place: usize, value: u8| {
        let mut changed = content.to_vec();
        changed[place] = value;
        let checksum = xxh3_128(&changed).to_le_bytes();
        [changed, checksum.to_vec()].concat()
    };
    assert!(unpack(&with(0, b'm'), &key).unwrap_err().contains("another form"));
    assert!(unpack(&with(8, 9), &key).unwrap_err().contains("another form"));
    assert_eq!(unpack(&with(12, 6), &key), Err("is damaged"));
    assert_eq!(unpack(&with(27, 255), &key), Err("is damaged"));
    assert!(unpack(&with(HEADER, b'T'), &key).unwrap_err().contains("another program"));
}

#[test]
fn the_code_of_another_cpu_is_another_program() {
    let folder = tempfile::tempdir().unwrap();
    let directory = CodeDirectory::new(folder.path().join("made/when/needed"));
    let (here, elsewhere) = (key("znver4 program"), key("skylake program"));
    assert_eq!(directory.read(&here), Ok(None));
    directory.write(&elsewhere, b"code").unwrap();
    assert_eq!(directory.read(&here), Ok(None));
    assert_eq!(directory.read(&elsewhere), Ok(Some(b"code".to_vec())));
    fs::rename(directory.file(&elsewhere), directory.file(&here)).unwrap();
    assert!(matches!(directory.read(&here), Err(reason) if reason.ends_with("another program or machine")));
}

#[test]
fn only_the_user_can_read_and_write() {
    let folder = tempfile::tempdir().unwrap();
    let directory = CodeDirectory::new(folder.path().join("code"));
    let key = key("program");
    directory.write(&key, b"code").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&directory.path), mode(&directory.file(&key))), (0o700, 0o600));
    fs::set_permissions(directory.file(&key), fs::Permissions::from_mode(0o660)).unwrap();
    assert!(matches!(directory.read(&key), Err(reason) if reason.ends_with("can be written by others")));
    directory.write(&key, b"code").unwrap();
    assert_eq!(directory.read(&key), Ok(Some(b"code".to_vec())));
    // Only root may give files away.
    if std::os::unix::fs::chown(directory.file(&key), Some(1), None).is_ok() {
        assert!(matches!(directory.read(&key), Err(reason) if reason.ends_with("belongs to another user")));
    }
}

#[test]
fn links_pipes_and_directories_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let directory = CodeDirectory::new(folder.path().to_path_buf());
    let (linked, folder_like) = (key("a link"), key("a directory"));
    directory.write(&key("program"), b"code").unwrap();
    std::os::unix::fs::symlink(directory.file(&key("program")), directory.file(&linked)).unwrap();
    fs::create_dir(directory.file(&folder_like)).unwrap();
    for key in [linked, folder_like] {
        assert!(directory.read(&key).is_err());
    }
}

#[test]
fn the_files_used_last_stay_within_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let directory = CodeDirectory { path: folder.path().to_path_buf(), limit: 1000 };
    let keys: Vec<CodeKey> = (0..4).map(|n| key(&format!("program {n}"))).collect();
    let age = |key: &CodeKey, seconds: u64| {
        let file = File::open(directory.file(key)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)).unwrap();
    };
    for (n, key) in keys[..3].iter().enumerate() {
        directory.write(key, &[7; 250]).unwrap();
        age(key, n as u64);
    }
    assert_ne!(directory.read(&keys[0]), Ok(None));
    directory.write(&keys[3], &[7; 250]).unwrap();
    directory.trim().unwrap();
    let there: Vec<bool> = keys.iter().map(|key| directory.read(key) != Ok(None)).collect();
    assert_eq!(there, [true, false, true, true]);
    // Of many programs, some look whether there are too many files.
    (0..200).for_each(|n| directory.write(&key(&format!("one of many {n}")), &[7; 250]).unwrap());
    assert!(fs::read_dir(folder.path()).unwrap().count() < 100);
    // What is longer than the bound is not kept, and pushes nothing out.
    directory.write(&key("long"), &[7; 1000]).unwrap();
    assert_eq!(directory.read(&key("long")), Ok(None));
}

#[test]
fn half_written_files_of_others_go_when_they_are_old() {
    let folder = tempfile::tempdir().unwrap();
    let directory = CodeDirectory::new(folder.path().to_path_buf());
    let (old, new, foreign) = ([TEMPORARY, "old"].concat(), [TEMPORARY, "new"].concat(), "notes".to_string());
    for name in [&old, &new, &foreign] {
        fs::write(folder.path().join(name), "half").unwrap();
    }
    for name in [&old, &foreign] {
        File::open(folder.path().join(name)).unwrap().set_modified(UNIX_EPOCH).unwrap();
    }
    directory.trim().unwrap();
    assert_eq!([old, new, foreign].map(|name| folder.path().join(name).exists()), [false, true, true]);
}
