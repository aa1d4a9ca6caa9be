//! What a format is: how records are told apart, decoded and encoded.
//!
//! Each format describes itself as a [`TextFormat`] or a [`BareFormat`]; which there are says [`crate::formats`].

use crate::messages::{MessageDecoder, MessageEncoder};
use crate::option_table::OptionInfo;
use crate::records::Framer;
use crate::text_chunk::{FileInfo, Framing, TextChunk};
use crate::{Chunk, Decoded, Encoder, SinkRequest, SourceRequest};
use millstream_types::Diagnostic;
use std::sync::Arc;

/// How streams of bytes become columns.
pub(crate) struct StreamFormat {
    /// Makes the framer of one stream.
    pub framer: MakeFramer,
    /// Decodes the chunks of every stream.
    pub decoder: Arc<dyn StreamDecoder>,
}

/// Makes the framer of the stream with this name.
pub(crate) type MakeFramer = Box<dyn Fn(Arc<FileInfo>) -> Box<dyn Framer> + Send>;

/// Decodes the chunks that a framer has made into the columns that have a path, in the order of the request.
pub(crate) trait StreamDecoder: Send + Sync {
    /// Decodes a chunk; also says of which stream it is.
    fn decode(&self, chunk: Chunk) -> (Decoded, Arc<FileInfo>);
}

/// How columns become a stream of bytes.
pub(crate) struct StreamOutput {
    /// Encodes pieces as bytes.
    pub encoder: Arc<dyn Encoder>,
    /// What the stream starts with.
    pub header: Vec<u8>,
    /// What it ends with.
    pub trailer: &'static [u8],
}

/// Decodes the records of a chunk into the columns that have a path, in the order of the request.
pub(crate) trait RecordDecoder: Send + Sync {
    /// Decodes a chunk.
    fn decode(&self, chunk: &TextChunk) -> Decoded;
}

/// A format of records that follow each other: text, or packed columns.
pub(crate) struct TextFormat {
    /// Value of the option `format`.
    pub name: &'static str,
    /// For the documentation.
    pub summary: &'static str,
    /// Its options.
    pub options: &'static [OptionInfo],
    /// How records are told apart.
    pub framing: fn(&SourceRequest) -> Result<Framing, Diagnostic>,
    /// Makes a decoder.
    pub decoder: fn(&SourceRequest) -> Result<Box<dyn RecordDecoder>, Diagnostic>,
    /// Makes an encoder.
    pub encoder: fn(&SinkRequest) -> Result<Arc<dyn Encoder>, Diagnostic>,
    /// What each file of a sink starts with.
    pub header: fn(&SinkRequest) -> Result<Option<Vec<u8>>, Diagnostic>,
    /// Of files that a sink names.
    pub extension: &'static str,
    /// How its records come and go one by one, if they do.
    pub messages: Option<&'static MessageFormat>,
}

/// How records come and go as messages ([`crate::messages`]).
pub(crate) struct MessageFormat {
    /// Makes a decoder.
    pub decoder: fn(&SourceRequest) -> Result<Box<dyn MessageDecoder>, Diagnostic>,
    /// Makes an encoder.
    pub encoder: fn(&SinkRequest) -> Result<Box<dyn MessageEncoder>, Diagnostic>,
    /// Whether a message without a value is a row; otherwise it is none, as the delete markers of compacted topics.
    pub null_is_row: bool,
}

/// A format that has no bounds of its own: only for connectors of messages.
pub(crate) struct BareFormat {
    /// Value of the option `format`.
    pub name: &'static str,
    /// For the documentation.
    pub summary: &'static str,
    /// Its options.
    pub options: &'static [OptionInfo],
    /// Decoder and encoder.
    pub messages: MessageFormat,
}

/// The error for a chunk that a decoder does not know.
pub(crate) fn foreign_chunk() -> (Decoded, Arc<FileInfo>) {
    let error = Diagnostic::bug("a decoder got a chunk of another source");
    (Decoded { error: Some(error), ..Decoded::default() }, Arc::default())
}
