//! Records in the file of a span, one behind the other.
//!
//! ```text
//! flags (1 byte) · key · value · timestamp (8 bytes) · headers: count (4 bytes), each a name, 1 byte and a value
//! ```
//! Of these there is what the flags say. Keys, values and names have their length before them (4 bytes); numbers are little-endian.

use super::metadata::Headers;
use super::record::{Record, records};
use crate::Encoded;
use crate::spans::CheckedReader;
use millstream_types::Diagnostic;
use std::io::Read;

const KEY: u8 = 1;
const VALUE: u8 = 2;
const TIMESTAMP: u8 = 4;
const HEADERS: u8 = 8;

/// The records of a piece, and their number.
pub(super) fn keep_all(piece: &Encoded) -> Result<(Vec<u8>, usize), Diagnostic> {
    let (mut kept, mut count) = (Vec::new(), 0);
    for record in records(piece)? {
        keep(&record, &mut kept);
        count += 1;
    }
    Ok((kept, count))
}

/// Appends a record.
fn keep(record: &Record<'_>, to: &mut Vec<u8>) {
    let flag = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
    to.push(
        flag(record.key.is_some(), KEY)
            | flag(record.value.is_some(), VALUE)
            | flag(record.timestamp.is_some(), TIMESTAMP)
            | flag(!record.headers.is_empty(), HEADERS),
    );
    record.key.into_iter().chain(record.value).for_each(|bytes| keep_bytes(bytes, to));
    to.extend(record.timestamp.into_iter().flat_map(i64::to_le_bytes));
    if record.headers.is_empty() {
        return;
    }
    to.extend((record.headers.len() as u32).to_le_bytes());
    for (name, value) in &record.headers {
        keep_bytes(name.as_bytes(), to);
        to.push(u8::from(value.is_some()));
        value.iter().for_each(|value| keep_bytes(value, to));
    }
}

fn keep_bytes(bytes: &[u8], to: &mut Vec<u8>) {
    to.extend((bytes.len() as u32).to_le_bytes());
    to.extend(bytes);
}

/// Reads the records of a file.
pub(super) struct KeptRecords<'a> {
    file: CheckedReader<'a>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'a> KeptRecords<'a> {
    pub(super) fn new(file: CheckedReader<'a>) -> KeptRecords<'a> {
        KeptRecords { file, key: Vec::new(), value: Vec::new() }
    }

    /// The next record; `None` behind the last, when the file has been found to be what was written.
    pub(super) fn next(&mut self) -> Result<Option<Record<'_>>, Diagnostic> {
        if self.file.left() == 0 {
            // A file that is longer than what was written is found out by its length.
            let more = self.file.read(&mut [0]);
            more.map_err(|e| self.file.damaged(&format!("cannot be read: {e}")))?;
            return self.file.check().map(|()| None);
        }
        let flags = self.byte()?;
        let has = |flag: u8| flags & flag != 0;
        if flags & !(KEY | VALUE | TIMESTAMP | HEADERS) != 0 {
            return Err(self.file.damaged("has a record that makes no sense"));
        }
        if has(KEY) {
            self.key = self.bytes()?;
        }
        if has(VALUE) {
            self.value = self.bytes()?;
        }
        let timestamp = if has(TIMESTAMP) { Some(i64::from_le_bytes(self.array()?)) } else { None };
        let mut headers = Headers::new();
        if has(HEADERS) {
            for _ in 0..u32::from_le_bytes(self.array()?) {
                let name = String::from_utf8(self.bytes()?);
                let name = name.map_err(|_| self.file.damaged("has a header whose name is no text"))?;
                let value = if self.byte()? == 1 { Some(self.bytes()?) } else { None };
                headers.push((name, value));
            }
        }
        let (key, value) = (has(KEY).then_some(&*self.key), has(VALUE).then_some(&*self.value));
        Ok(Some(Record { key, value, timestamp, headers }))
    }

    fn byte(&mut self) -> Result<u8, Diagnostic> {
        self.array().map(|[byte]: [u8; 1]| byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Diagnostic> {
        let mut array = [0; N];
        self.fill(&mut array)?;
        Ok(array)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, Diagnostic> {
        let length = u32::from_le_bytes(self.array()?);
        if u64::from(length) > self.file.left() {
            return Err(self.file.damaged("is cut off"));
        }
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Diagnostic> {
        self.file.read_exact(bytes).map_err(|e| self.file.damaged(&format!("cannot be read: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spans::{DurableSpan, SpanFiles, SpanRows};
    use crate::{SinkJob, SinkWriter};
    use millstream_types::code;
    use std::path::Path;
    use std::sync::Arc;

    fn files(directory: &Path) -> SpanFiles {
        let job = SinkJob {
            job: "j".into(),
            sink: 0,
            writer: SinkWriter::first(1),
            is_distributed: true,
            resumes: None,
            directory: directory.into(),
            remote: None,
            shared: Arc::default(),
        };
        SpanFiles::new(&job).unwrap()
    }

    fn span(directory: &Path, bytes: &[u8], rows: usize) -> DurableSpan {
        let mut span = SpanRows::new(directory, "span-");
        span.write(bytes, rows).unwrap();
        span.keep(7).unwrap()
    }

    #[test]
    fn records_come_back_as_they_were() {
        let headers = vec![("a".to_string(), Some(vec![1, 2])), (String::new(), None), ("ü".into(), Some(vec![]))];
        let records = [
            Record { key: Some(b"key"), value: Some(b"value"), timestamp: Some(-1), headers },
            Record { key: None, value: None, timestamp: None, headers: vec![] },
            Record { key: Some(b""), value: None, timestamp: Some(i64::MAX), headers: vec![] },
            Record { key: None, value: Some(&[7; 100_000]), timestamp: None, headers: vec![] },
        ];
        let mut bytes = Vec::new();
        records.iter().for_each(|record| keep(record, &mut bytes));
        let directory = tempfile::tempdir().unwrap();
        let (files, span) = (files(directory.path()), span(directory.path(), &bytes, records.len()));
        let mut kept = KeptRecords::new(files.open(&span).unwrap());
        for record in &records {
            assert_eq!(kept.next().unwrap().as_ref(), Some(record));
        }
        assert_eq!(kept.next().unwrap(), None);
    }

    /// What makes no sense is found out however it was written: neither a panic, nor memory for lengths that nothing has.
    #[test]
    fn bytes_that_are_no_records_are_damage() {
        let directory = tempfile::tempdir().unwrap();
        let files = files(directory.path());
        let cases: [&[u8]; 7] = [
            &[16],
            &[1],
            &[1, 255, 255, 255, 255, 0],
            &[4, 1, 2, 3],
            &[8, 255, 255, 255, 255],
            &[8, 1, 0, 0, 0, 1, 0, 0, 0, 0xff, 0],
            &[2, 3, 0, 0, 0, 1, 2],
        ];
        for bytes in cases {
            let span = span(directory.path(), bytes, 1);
            let mut kept = KeptRecords::new(files.open(&span).unwrap());
            assert_eq!(kept.next().unwrap_err().code, code::CHECKPOINT_DAMAGED, "{bytes:?}");
        }
    }
}
