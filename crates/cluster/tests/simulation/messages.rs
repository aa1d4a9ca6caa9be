//! What nodes of the simulation send each other: what those of the engine do, with numbers instead of rows.

use millstream_runtime::protocol::{Generation, Mark, MessageKind, Purpose};

#[derive(Debug, Clone)]
pub enum Message {
    /// To a stage: a row of a generation, of a time.
    Rows {
        stage: usize,
        generation: u32,
        time: i64,
        /// The generation that the sender has said it has come to.
        said: u32,
    },
    /// To a stage: how far its inputs on the sender have come.
    Mark {
        stage: usize,
        mark: Mark,
    },
    Cut {
        generation: Generation,
        purpose: Purpose,
    },
    AskCut,
    Stored {
        number: u64,
        stored: Stored,
    },
    Completed(u64),
    AllWritten,
    Finish,
    Finished(Stored),
    /// The sender's run has ended by an error.
    Ended,
}

/// How far a split has been read, and the watermark there.
#[derive(Debug, Clone, Copy)]
pub struct SplitAt {
    pub number: usize,
    pub position: u64,
    pub watermark: i64,
}

/// What a node says that it has stored.
#[derive(Debug, Clone)]
pub struct Stored {
    pub attempt: u64,
    pub splits: Vec<SplitAt>,
}

impl Message {
    pub fn kind(&self) -> MessageKind {
        match self {
            Message::Rows { .. } => MessageKind::Frame,
            Message::Mark { mark, .. } => MessageKind::Mark(Generation(mark.release.generation)),
            _ => MessageKind::Control,
        }
    }
}
