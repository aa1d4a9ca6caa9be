//! Messages between nodes as bytes: a body, what is to be known of it, and the kind of message in the last byte.
//!
//! The body comes first, so that a frame of rows or partials becomes a message by a few bytes behind it. Nothing that is read is trusted: a
//! message that no node sends is damage, never a panic.

use super::{AtBeatEnd, Mark, NodeMessage, StoredByNode};
use crate::durable::blobs::damaged;
use crate::ids::{Generation, StationId};
use crate::schedule::cut_timing::Purpose;
use millstream_storage::{ByteReader, ByteWriter, Damaged, NodeFiles};
use millstream_sync::epoch_ring::Release;
use millstream_types::{Code, Diagnostic, Place};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

const FRAME: u8 = 0;
const MARK: u8 = 1;
const CUT: u8 = 2;
const ASK_CUT: u8 = 3;
const BEAT_ENDS: u8 = 4;
const AT_BEAT_END: u8 = 5;
const TAKE_BEAT: u8 = 6;
const STORED: u8 = 7;
const COMPLETED: u8 = 8;
const FINISH: u8 = 9;
const FINISHED: u8 = 10;
const ENDED: u8 = 11;
const SPLITS: u8 = 12;
const ALL_WRITTEN: u8 = 13;
const ASK_REPORT: u8 = 14;
const REPORT: u8 = 15;

/// Bytes behind a frame: the station, and the kind of message.
const BEHIND_FRAME: usize = 5;

/// [`StoredByNode`] as JSON.
#[derive(Serialize, Deserialize)]
struct StoredText {
    files: NodeFiles,
    bytes_written: u64,
    reads: BTreeSet<Arc<str>>,
}

/// A message as bytes.
pub(super) fn encode(message: NodeMessage) -> Vec<u8> {
    let mut out = ByteWriter::new();
    let kind = match message {
        NodeMessage::Frame(station, frame) => return encode_frame(station, frame),
        NodeMessage::Mark(station, Mark { release, is_idle }) => {
            out.u32(station.index() as u32);
            out.i64(release.watermark);
            out.u32(release.generation);
            out.i64(release.cut);
            out.u8(u8::from(release.ended));
            out.u8(u8::from(is_idle));
            MARK
        }
        NodeMessage::Splits(source, names, assignment) => {
            out.u32(source as u32);
            out.raw(&as_json(&(names, assignment)));
            SPLITS
        }
        NodeMessage::Cut(generation, purpose) => {
            out.u32(generation.0);
            out.u8(match purpose {
                Purpose::Beat => 0,
                Purpose::Tables => 1,
                Purpose::Checkpoint => 2,
            });
            CUT
        }
        NodeMessage::AskCut => ASK_CUT,
        NodeMessage::BeatEnds(source, split, rows) => {
            out.u32(source as u32);
            out.u32(split as u32);
            out.u64(rows);
            BEAT_ENDS
        }
        NodeMessage::AtBeatEnd(taken, AtBeatEnd { lowest, can_resume }) => {
            out.u64(taken);
            out.u8(u8::from(can_resume));
            out.u8(u8::from(lowest.is_some()));
            out.i64(lowest.unwrap_or_default());
            AT_BEAT_END
        }
        NodeMessage::TakeBeat(lowest) => {
            out.i64(lowest);
            TAKE_BEAT
        }
        NodeMessage::Stored(checkpoint, StoredByNode { files, bytes_written, reads }) => {
            out.u64(checkpoint);
            out.raw(&as_json(&StoredText { files, bytes_written, reads }));
            STORED
        }
        NodeMessage::Completed(checkpoint) => {
            out.u64(checkpoint);
            COMPLETED
        }
        NodeMessage::AllWritten => ALL_WRITTEN,
        NodeMessage::AskReport => ASK_REPORT,
        NodeMessage::Report(report) => {
            out.raw(&as_json(&report));
            REPORT
        }
        NodeMessage::Finish => FINISH,
        NodeMessage::Finished(said) => {
            out.raw(&as_json(&said));
            FINISHED
        }
        NodeMessage::Ended(diagnostic) => {
            diagnostic.iter().for_each(|diagnostic| save_diagnostic(diagnostic, &mut out));
            ENDED
        }
    };
    out.u8(kind);
    out.into_bytes()
}

/// Rows or partials for a station as a message.
pub(super) fn encode_frame(station: StationId, mut frame: Vec<u8>) -> Vec<u8> {
    frame.extend((station.index() as u32).to_le_bytes());
    frame.push(FRAME);
    frame
}

/// What a message says.
///
/// # Errors
/// When no node has written it.
pub(super) fn decode(mut message: Vec<u8>) -> Result<NodeMessage, Diagnostic> {
    let Some(kind) = message.pop() else { return Err(damaged(Damaged("a message of another node is empty".into()))) };
    if kind == FRAME {
        let length = message.len().checked_sub(BEHIND_FRAME - 1);
        let length = length.ok_or_else(|| damaged(Damaged("a frame of another node is cut off".into())))?;
        let mut behind = ByteReader::new(&message[length..]);
        let station = StationId::new(behind.u32().map_err(damaged)? as usize);
        message.truncate(length);
        return Ok(NodeMessage::Frame(station, message));
    }
    small(kind, &message).map_err(damaged)
}

/// The same of messages without a body.
fn small(kind: u8, message: &[u8]) -> Result<NodeMessage, Damaged> {
    let mut from = ByteReader::new(message);
    let decoded = match kind {
        MARK => {
            let station = StationId::new(from.u32()? as usize);
            let (watermark, generation, cut) = (from.i64()?, from.u32()?, from.i64()?);
            let release = Release { watermark, generation, cut, ended: flag(&mut from)? };
            NodeMessage::Mark(station, Mark { release, is_idle: flag(&mut from)? })
        }
        CUT => NodeMessage::Cut(Generation(from.u32()?), purpose(from.u8()?)?),
        ASK_CUT => NodeMessage::AskCut,
        BEAT_ENDS => NodeMessage::BeatEnds(from.u32()? as usize, from.u32()? as usize, from.u64()?),
        AT_BEAT_END => {
            let (taken, can_resume, is_any) = (from.u64()?, flag(&mut from)?, flag(&mut from)?);
            let lowest = from.i64()?;
            NodeMessage::AtBeatEnd(taken, AtBeatEnd { lowest: is_any.then_some(lowest), can_resume })
        }
        TAKE_BEAT => NodeMessage::TakeBeat(from.i64()?),
        STORED => {
            let checkpoint = from.u64()?;
            let StoredText { files, bytes_written, reads } = json(&message[size_of::<u64>()..])?;
            return Ok(NodeMessage::Stored(checkpoint, StoredByNode { files, bytes_written, reads }));
        }
        SPLITS => {
            let source = from.u32()? as usize;
            let (names, assignment) = json(&message[size_of::<u32>()..])?;
            return Ok(NodeMessage::Splits(source, names, assignment));
        }
        COMPLETED => NodeMessage::Completed(from.u64()?),
        ALL_WRITTEN => NodeMessage::AllWritten,
        ASK_REPORT => NodeMessage::AskReport,
        REPORT => return json(message).map(NodeMessage::Report),
        FINISH => NodeMessage::Finish,
        FINISHED => return json(message).map(NodeMessage::Finished),
        ENDED if message.is_empty() => NodeMessage::Ended(None),
        ENDED => NodeMessage::Ended(Some(restore_diagnostic(&mut from)?)),
        _ => return Err(Damaged(format!("no message of a node is of kind {kind}"))),
    };
    from.end()?;
    Ok(decoded)
}

fn as_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("what nodes say has no maps with keys that are not texts")
}

fn json<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, Damaged> {
    serde_json::from_slice(bytes).map_err(|e| Damaged(format!("a message of another node: {e}")))
}

fn flag(from: &mut ByteReader<'_>) -> Result<bool, Damaged> {
    match from.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Damaged(format!("{other} is neither yes nor no"))),
    }
}

fn purpose(number: u8) -> Result<Purpose, Damaged> {
    match number {
        0 => Ok(Purpose::Beat),
        1 => Ok(Purpose::Tables),
        2 => Ok(Purpose::Checkpoint),
        _ => Err(Damaged(format!("no cut is made for {number}"))),
    }
}

/// A diagnostic with its place as text: it is shown where the SQL is not.
fn save_diagnostic(diagnostic: &Diagnostic, out: &mut ByteWriter) {
    out.u32(u32::from(diagnostic.code.0));
    out.bytes(diagnostic.message.as_bytes());
    for text in [&diagnostic.place.as_ref().map(Place::to_string), &diagnostic.advice] {
        out.u8(u8::from(text.is_some()));
        out.bytes(text.as_deref().unwrap_or_default().as_bytes());
    }
}

fn restore_diagnostic(from: &mut ByteReader<'_>) -> Result<Diagnostic, Damaged> {
    let code = u16::try_from(from.u32()?).map_err(|_| Damaged("no error has such a code".into()))?;
    let mut diagnostic = Diagnostic::new(Code(code), text(from.bytes()?)?);
    let (has_place, place) = (flag(from)?, text(from.bytes()?)?);
    let (has_advice, advice) = (flag(from)?, text(from.bytes()?)?);
    if has_place {
        diagnostic.message += &format!(" ({place})");
    }
    diagnostic.advice = has_advice.then_some(advice);
    Ok(diagnostic)
}

fn text(bytes: &[u8]) -> Result<String, Damaged> {
    std::str::from_utf8(bytes).map(str::to_string).map_err(|e| Damaged(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::{Assignment, FinishedNode};
    use super::*;
    use crate::stats::QueryStats;
    use millstream_storage::{BlobRef, SourceState, SplitState};
    use millstream_types::code;

    fn messages() -> Vec<NodeMessage> {
        let release = Release { watermark: -5, generation: 7, cut: i64::MIN, ended: true };
        let mark = Mark { release, is_idle: true };
        let blob = BlobRef { file: "state-1-n2-0.bin".into(), offset: 8, bytes: 9, checksum: 10 };
        let files = NodeFiles { manifest: blob, files: ["a".into()].into(), state_bytes: 11 };
        let stored = StoredByNode { files, bytes_written: 12, reads: ["b".into()].into() };
        let split = SplitState { name: "a.csv".into(), at: Some(1), rows: 2, ..SplitState::default() };
        let sources = vec![SourceState { table: "t".into(), number: 0, splits: vec![split] }];
        let error = Diagnostic::new(code::READ_FAILED, "no").at(Place::Option("path".into())).advise("look");
        vec![
            NodeMessage::Frame(StationId::new(3), vec![1, 2, 3]),
            NodeMessage::Frame(StationId::new(3), vec![]),
            NodeMessage::Mark(StationId::new(0), mark),
            NodeMessage::Splits(
                2,
                vec!["a".into(), "b".into()],
                Assignment::of(0, 2, [(0, 100), (2, 100)].into_iter()),
            ),
            NodeMessage::Cut(Generation(4), Purpose::Beat),
            NodeMessage::Cut(Generation(5), Purpose::Tables),
            NodeMessage::Cut(Generation(6), Purpose::Checkpoint),
            NodeMessage::AskCut,
            NodeMessage::BeatEnds(1, 2, 3),
            NodeMessage::AtBeatEnd(1, AtBeatEnd { lowest: Some(-1), can_resume: true }),
            NodeMessage::AtBeatEnd(1, AtBeatEnd { lowest: None, can_resume: false }),
            NodeMessage::TakeBeat(-9),
            NodeMessage::Stored(8, stored),
            NodeMessage::Completed(8),
            NodeMessage::AllWritten,
            NodeMessage::AskReport,
            NodeMessage::Report(Box::new(QueryStats::default().report(true))),
            NodeMessage::Finish,
            NodeMessage::Finished(FinishedNode { sources, tokens: vec![None, Some("t".into())] }),
            NodeMessage::Ended(None),
            NodeMessage::Ended(Some(error)),
        ]
    }

    #[test]
    fn what_is_sent_is_received() {
        for message in messages() {
            let mut said = format!("{message:?}");
            if let NodeMessage::Ended(Some(error)) = &message {
                let shown = Diagnostic { message: "no (option 'path')".into(), place: None, ..error.clone() };
                said = format!("{:?}", NodeMessage::Ended(Some(shown)));
            }
            assert_eq!(format!("{:?}", decode(encode(message)).unwrap()), said);
        }
    }

    #[test]
    fn damage_is_an_error_or_another_message() {
        for message in messages() {
            let good = encode(message);
            for at in 0..good.len() {
                for bit in 0..8 {
                    let mut bad = good.clone();
                    bad[at] ^= 1 << bit;
                    let _ = decode(bad);
                }
                let _ = decode(good[..at].to_vec());
            }
        }
        assert!(decode(vec![]).is_err() && decode(vec![99]).is_err() && decode(vec![1, 0, FRAME]).is_err());
    }
}
