//! Frames: what a message is cut into, and how they are put together again.
//!
//! ```text
//! header, 32 bytes, little endian                                              body
//! 0 version  1 kind  2 is last  3 zero  4 body length u32  8 sequence u64      up to 4 MiB
//! 16 bytes of the message u64           24 xxh3 of bytes 0 to 24 and the body
//! ```
//!
//! Frames of a stream are numbered from 0. Every field is checked on arrival: a frame that is damaged, missing, doubled or of another version is an error,
//! never a panic. Memory is taken as bytes arrive, whatever a header announces.

use bytes::{Bytes, BytesMut};
use millstream_types::{Diagnostic, code};
use xxhash_rust::xxh3::Xxh3Default;

/// The version of header and handshake.
pub const VERSION: u8 = 1;
/// Bytes of a header of this version.
pub const HEADER_BYTES: usize = 32;
/// The most that a header of any version may have, in bytes.
pub const HEADER_LIMIT: usize = 64 << 10;
/// The most that a body may have, in bytes.
pub const BODY_LIMIT: usize = 4 << 20;
/// Messages above this are cut into bodies of this many bytes.
pub const CUT_BYTES: usize = 2 << 20;
/// The most that a message may have, in bytes.
pub const MESSAGE_LIMIT: usize = 256 << 20;
/// The most that a mark, or any message that is not data, may have, in bytes.
pub const MARK_LIMIT: usize = 64 << 10;

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The first of a stream: who speaks.
    Hello = 1,
    /// Part of a message that takes credit.
    Data = 2,
    /// A message that takes none.
    Mark = 3,
    /// To the sender: bytes of credit given back, as u64.
    Grant = 4,
    /// The last of a stream: everything has been sent.
    End = 5,
}

impl Kind {
    fn of(number: u8) -> Option<Kind> {
        [Kind::Hello, Kind::Data, Kind::Mark, Kind::Grant, Kind::End].into_iter().find(|kind| *kind as u8 == number)
    }

    fn limit(self) -> usize {
        match self {
            Kind::Data => MESSAGE_LIMIT,
            Kind::Hello | Kind::Mark => MARK_LIMIT,
            Kind::Grant => 8,
            Kind::End => 0,
        }
    }
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it is for.
    pub kind: Kind,
    /// Whether it is the last of its message.
    pub is_last: bool,
    /// Its place in the stream, from 0.
    pub sequence: u64,
    /// Bytes of the whole message.
    pub message_bytes: u64,
    /// Its part of the message.
    pub body: Bytes,
}

/// A whole message.
pub type Message = (Kind, Bytes);

pub(crate) fn damaged(how: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(code::DAMAGED_FRAME, format!("a frame is damaged: {how}"))
}

fn checksum(start: &[u8], body: &[u8]) -> u64 {
    let mut hash = Xxh3Default::new();
    hash.update(start);
    hash.update(body);
    hash.digest()
}

impl Frame {
    /// The header; the body follows it as it is.
    pub fn header(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        (header[0], header[1], header[2]) = (VERSION, self.kind as u8, u8::from(self.is_last));
        header[4..8].copy_from_slice(&(self.body.len() as u32).to_le_bytes());
        header[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        header[16..24].copy_from_slice(&self.message_bytes.to_le_bytes());
        let sum = checksum(&header[..24], &self.body);
        header[24..].copy_from_slice(&sum.to_le_bytes());
        header
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// `NODES_DIFFER` for another version, `DAMAGED_FRAME` for anything else.
    pub fn read(header: &[u8], body: Bytes) -> Result<Frame, Diagnostic> {
        if header.len() > HEADER_LIMIT || body.len() > BODY_LIMIT {
            return Err(damaged("it is too long"));
        }
        let version = *header.first().ok_or_else(|| damaged("it has no header"))?;
        if version != VERSION {
            let message = format!("a node speaks version {version} of the protocol, this one version {VERSION}");
            return Err(Diagnostic::new(code::NODES_DIFFER, message));
        }
        let header: &[u8; HEADER_BYTES] = header.try_into().map_err(|_| damaged("its header is cut off"))?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        if word(24) != checksum(&header[..24], &body) {
            return Err(damaged("its checksum is another"));
        }
        let kind = Kind::of(header[1]).ok_or_else(|| damaged("its kind is unknown"))?;
        let (sequence, message_bytes) = (word(8), word(16));
        if word(0) >> 32 != body.len() as u64 {
            return Err(damaged("its body has another length"));
        }
        if header[2] > 1 || header[3] != 0 {
            return Err(damaged("its flags are unknown"));
        }
        if message_bytes > kind.limit() as u64 {
            return Err(damaged("its message is too long"));
        }
        Ok(Frame { kind, is_last: header[2] == 1, sequence, message_bytes, body })
    }
}

/// Cuts the messages of a stream into frames.
#[derive(Debug, Default)]
pub struct Cutter {
    next: u64,
}

impl Cutter {
    /// The frames of a message; at least one.
    pub fn cut(&mut self, kind: Kind, message: Bytes) -> impl Iterator<Item = Frame> {
        let message_bytes = message.len() as u64;
        let mut rest = Some(message);
        std::iter::from_fn(move || {
            let mut body = rest.take()?;
            if body.len() > CUT_BYTES {
                rest = Some(body.split_off(CUT_BYTES));
            }
            let sequence = self.next;
            self.next += 1;
            Some(Frame { kind, is_last: rest.is_none(), sequence, message_bytes, body })
        })
    }
}

/// Puts the frames of a stream together.
#[derive(Debug, Default)]
pub struct Assembler {
    next: u64,
    open: Option<BytesMut>,
    open_kind: Option<(Kind, u64)>,
}

/// What a frame has brought.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken {
    /// Bytes of the message of data that begins with it.
    pub begun: Option<u64>,
    /// The message that ends with it.
    pub message: Option<Message>,
}

impl Assembler {
    /// Takes the next frame.
    ///
    /// # Errors
    /// `DAMAGED_FRAME` when it is not the next one, or does not fit its message. The stream is over then.
    pub fn take(&mut self, frame: Frame) -> Result<Taken, Diagnostic> {
        let Frame { kind, is_last, sequence, message_bytes, body } = frame;
        if sequence != self.next {
            return Err(damaged(format_args!("number {} was expected, and {sequence} came", self.next)));
        }
        self.next += 1;
        let has_begun = self.open_kind.is_some();
        if has_begun && self.open_kind != Some((kind, message_bytes)) {
            return Err(damaged("it belongs to another message"));
        }
        let before = self.open.as_ref().map_or(0, BytesMut::len);
        let so_far = (before + body.len()) as u64;
        // A frame that is not the last brings something, so a message has a bounded number of frames.
        let fits = if is_last { so_far == message_bytes } else { so_far < message_bytes && !body.is_empty() };
        if !fits {
            return Err(damaged("its message has another length"));
        }
        let begun = (kind == Kind::Data && !has_begun).then_some(message_bytes);
        let message = match (self.open.take(), is_last) {
            (None, true) => Some(body),
            (open, _) => {
                let mut open = open.unwrap_or_default();
                open.extend_from_slice(&body);
                match is_last {
                    true => Some(open.freeze()),
                    false => {
                        self.open = Some(open);
                        None
                    }
                }
            }
        };
        self.open_kind = (!is_last).then_some((kind, message_bytes));
        Ok(Taken { begun, message: message.map(|message| (kind, message)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::time::{Duration, Instant};

    fn message(bytes: usize) -> Bytes {
        (0..bytes).map(|i| (i * 31 % 251) as u8).collect()
    }

    fn assembled(frames: impl IntoIterator<Item = Frame>) -> Result<Vec<Message>, Diagnostic> {
        let mut assembler = Assembler::default();
        let mut messages = vec![];
        for frame in frames {
            let frame = Frame::read(&frame.header(), frame.body)?;
            messages.extend(assembler.take(frame)?.message);
        }
        Ok(messages)
    }

    #[test]
    fn messages_of_all_lengths_come_back() {
        let mut cutter = Cutter::default();
        let lengths = [0, 1, 100, CUT_BYTES - 1, CUT_BYTES, CUT_BYTES + 1, 2 * CUT_BYTES, 3 * CUT_BYTES + 7];
        let sent: Vec<Message> = lengths.iter().map(|&bytes| (Kind::Data, message(bytes))).collect();
        let mut frames = vec![];
        for (kind, message) in &sent {
            frames.extend(cutter.cut(*kind, message.clone()));
        }
        assert_eq!(frames.len(), 5 + 2 + 2 + 4);
        assert!(frames.iter().enumerate().all(|(i, frame)| frame.sequence == i as u64));
        assert_eq!(assembled(frames).unwrap(), sent);
    }

    #[test]
    fn each_flipped_bit_is_found() {
        let frame = Cutter::default().cut(Kind::Data, message(40)).next().unwrap();
        let bytes = [frame.header().as_slice(), &frame.body].concat();
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error =
                Frame::read(&bytes[..HEADER_BYTES], Bytes::copy_from_slice(&bytes[HEADER_BYTES..])).unwrap_err();
            let expected = if bit < 8 { code::NODES_DIFFER } else { code::DAMAGED_FRAME };
            assert_eq!(error.code, expected, "bit {bit}");
        }
        for length in 0..bytes.len() {
            let header = &bytes[..length.min(HEADER_BYTES)];
            let error = Frame::read(header, Bytes::copy_from_slice(&bytes[header.len()..length])).unwrap_err();
            assert_eq!(error.code, code::DAMAGED_FRAME);
        }
    }

    #[test]
    fn frames_that_do_not_follow_are_refused() {
        let mut cutter = Cutter::default();
        let mut frames: Vec<Frame> = cutter.cut(Kind::Data, message(2 * CUT_BYTES + 5)).collect();
        frames.extend(cutter.cut(Kind::Mark, message(3)));
        let refused = |change: &dyn Fn(&mut Vec<Frame>)| {
            let mut frames = frames.clone();
            change(&mut frames);
            assert_eq!(assembled(frames).unwrap_err().code, code::DAMAGED_FRAME);
        };
        refused(&|frames| drop(frames.remove(1)));
        refused(&|frames| frames.swap(0, 1));
        refused(&|frames| frames.insert(1, frames[0].clone()));
        refused(&|frames| frames[1].is_last = true);
        refused(&|frames| frames[2].is_last = false);
        refused(&|frames| frames[1].message_bytes += 1);
        refused(&|frames| frames[1].kind = Kind::Mark);
        refused(&|frames| frames[0].message_bytes = MESSAGE_LIMIT as u64 + 1);
        refused(&|frames| frames[1].body = Bytes::new());
        refused(&|frames| frames[3].message_bytes = MARK_LIMIT as u64 + 1);
        refused(&|frames| frames[1].body = message(BODY_LIMIT + 1));
    }

    /// An announced length takes no memory.
    #[test]
    fn memory_follows_what_arrives() {
        let mut assembler = Assembler::default();
        let message_bytes = MESSAGE_LIMIT as u64;
        let frame = Frame { kind: Kind::Data, is_last: false, sequence: 0, message_bytes, body: message(1000) };
        assert_eq!(assembler.take(frame).unwrap(), Taken { begun: Some(message_bytes), message: None });
        assert!(assembler.open.unwrap().capacity() < 10_000);
    }

    /// Damaged streams give an error or what was sent, and nothing else. `make fuzz` runs it for an hour.
    #[test]
    fn damaged_messages_of_nodes_are_refused() {
        let variable = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
        let time = Duration::from_secs(variable("MILLSTREAM_FUZZ_SECONDS").unwrap_or(1));
        let seed = variable("MILLSTREAM_FUZZ_SEED").unwrap_or(1);
        let end = Instant::now() + time;
        for case in seed.. {
            if Instant::now() > end {
                break;
            }
            let mut random = Random::new(case);
            let mut cutter = Cutter::default();
            let mut sent: Vec<Message> = vec![];
            let mut stream: Vec<(Vec<u8>, Vec<u8>)> = vec![];
            for _ in 0..=random.below(5) {
                let kind = [Kind::Data, Kind::Mark, Kind::Grant, Kind::Hello][random.below(4) as usize];
                let message = message(if kind == Kind::Grant { 8 } else { random.below(300) as usize });
                sent.push((kind, message.clone()));
                stream.extend(cutter.cut(kind, message).map(|frame| (frame.header().to_vec(), frame.body.to_vec())));
            }
            for _ in 0..=random.below(3) {
                damage(&mut stream, &mut random);
            }
            let mut assembler = Assembler::default();
            let mut came = vec![];
            for (header, body) in stream {
                let Ok(frame) = Frame::read(&header, body.into()) else { break };
                let Ok(taken) = assembler.take(frame) else { break };
                came.extend(taken.message);
            }
            assert!(sent.starts_with(&came), "MILLSTREAM_FUZZ_SEED={case}");
        }
    }

    fn damage(stream: &mut Vec<(Vec<u8>, Vec<u8>)>, random: &mut Random) {
        let at = random.below(stream.len() as u64) as usize;
        match random.below(6) {
            0 => return stream.insert(at, stream[at].clone()),
            1 if stream.len() > 1 => return drop(stream.remove(at)),
            _ => {}
        }
        let (header, body) = &mut stream[at];
        let part = if random.below(2) == 0 || body.is_empty() { header } else { body };
        if part.is_empty() {
            return;
        }
        let byte = random.below(part.len() as u64) as usize;
        match random.below(5) {
            0 => part.truncate(byte),
            1 => drop(part.remove(byte)),
            2 => part.insert(byte, random.next() as u8),
            3 => part[byte] ^= 1 << random.below(8),
            _ => part[byte] = random.next() as u8,
        }
    }

    /// Whoever computes checksums himself gets no further than an error.
    #[test]
    fn forged_frames_are_refused_or_taken() {
        for case in 0..2000 {
            let mut random = Random::new(case);
            let mut assembler = Assembler::default();
            for sequence in 0..20 {
                let kind = Kind::of(1 + random.below(5) as u8).unwrap();
                let body = message(random.below(20) as usize);
                let message_bytes = [random.below(60), body.len() as u64, random.next()][random.below(3) as usize];
                let frame = Frame { kind, is_last: random.below(2) == 0, sequence, message_bytes, body };
                let taken = Frame::read(&frame.header(), frame.body).and_then(|frame| assembler.take(frame));
                let Ok(Taken { message, .. }) = taken else { break };
                assert!(message.is_none_or(|(kind, message)| message.len() <= kind.limit()));
            }
        }
    }
}
