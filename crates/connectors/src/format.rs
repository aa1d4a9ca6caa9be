//! What a format is: how records are told apart, decoded and encoded.
//!
//! Each format describes itself as a [`Format`]; which there are says [`crate::formats`].

use crate::declaration::ReadySource;
use crate::filesystem::{Output, PartWriter};
use crate::infer::{FormatInput, not_known};
use crate::messages::{ChangeEncoder, MessageDecoder, MessageEncoder};
use crate::option_table::OptionInfo;
use crate::records::{Framer, TextFramer};
use crate::text_chunk::{FileInfo, Framing, TextChunk};
use crate::{Chunk, Decoded, Encoder, SinkRequest, SourceRequest};
use millstream_types::{Diagnostic, Inferred, TakesChanges};
use std::path::PathBuf;
use std::sync::Arc;

/// How streams of bytes become columns.
pub(crate) struct StreamFormat {
    /// Makes the framer of one stream.
    pub framer: MakeFramer,
    /// Decodes the chunks of every stream.
    pub decoder: Arc<dyn StreamDecoder>,
}

/// Says which columns the records of a format have.
pub(crate) type InferFormat = fn(&FormatInput<'_>) -> Result<Inferred, Diagnostic>;

/// Makes the framer of the stream with this name.
pub(crate) type MakeFramer = Box<dyn Fn(Arc<FileInfo>) -> Box<dyn Framer> + Send + Sync>;

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

/// Opens files for reading.
pub(crate) type OpenFiles = fn(&SourceRequest, Vec<(Option<PathBuf>, FileInfo)>) -> Result<ReadySource, Diagnostic>;

/// Begins a file of a sink.
pub(crate) type BeginFile = fn(Output, &SinkRequest) -> Result<Box<dyn PartWriter>, Diagnostic>;

/// How columns are read from files that are sought in, and written to files as a whole.
pub(crate) struct FileFormat {
    /// Opens files, each with its path unless it is standard input.
    pub open: OpenFiles,
    /// Makes the encoder of a sink.
    pub encoder: fn(&SinkRequest) -> Result<Arc<dyn Encoder>, Diagnostic>,
    /// Begins a file.
    pub writer: BeginFile,
}

/// Decodes the records of a chunk into the columns that have a path, in the order of the request.
pub(crate) trait RecordDecoder: Send + Sync {
    /// Decodes a chunk.
    fn decode(&self, chunk: &TextChunk) -> Decoded;
}

impl<D: RecordDecoder> StreamDecoder for D {
    fn decode(&self, chunk: Chunk) -> (Decoded, Arc<FileInfo>) {
        match chunk.content::<TextChunk>() {
            Ok(chunk) => (RecordDecoder::decode(self, &chunk), chunk.file),
            Err(bug) => (Decoded::failed(bug), Arc::default()),
        }
    }
}

/// A format. What it does not say is as of [`Format::NONE`].
pub(crate) struct Format {
    /// Value of the option `format`.
    pub name: &'static str,
    /// For the documentation.
    pub summary: &'static str,
    /// Its options.
    pub options: &'static [OptionInfo],
    /// Of files that a sink names; `None` of a format that has no bounds of its own: it is only for connectors of messages.
    pub extension: Option<&'static str>,
    /// How it is read from a stream of bytes; `None` if it needs a file to seek in.
    pub stream: fn(&SourceRequest) -> Result<Option<StreamFormat>, Diagnostic>,
    /// How it is written as a stream of bytes; `None` if it is written otherwise.
    pub stream_output: fn(&SinkRequest) -> Result<Option<StreamOutput>, Diagnostic>,
    /// How whole files are read and written, for a format that is no stream.
    pub files: Option<FileFormat>,
    /// How its records come and go one by one, if they do.
    pub messages: Option<MessageFormat>,
    /// Which columns its records have, if they or what stands before them say so.
    pub infer: Option<InferFormat>,
}

impl Format {
    /// A format that can do nothing.
    pub const NONE: Format = Format {
        name: "",
        summary: "",
        options: &[],
        extension: None,
        stream: |_| Ok(None),
        stream_output: |_| Ok(None),
        files: None,
        messages: None,
        infer: None,
    };
}

impl Format {
    /// Whether its records say which rows come and which are gone.
    pub(crate) fn gives_changes(&self) -> bool {
        self.messages.as_ref().is_some_and(|messages| messages.change_decoder.is_some())
    }

    /// Which changes its records can say.
    pub(crate) fn takes_changes(&self) -> TakesChanges {
        let says = self.messages.as_ref().is_some_and(|messages| messages.changes.is_some());
        if says { TakesChanges::Anything } else { TakesChanges::Nothing }
    }

    /// How its files are read and written, since they are no streams.
    pub(crate) fn files(&self) -> Result<&FileFormat, Diagnostic> {
        self.files.as_ref().ok_or_else(|| Diagnostic::bug(format!("the format '{}' is not for files", self.name)))
    }

    /// The columns that the format finds in its input.
    pub(crate) fn columns(&self, input: &FormatInput<'_>) -> Result<Inferred, Diagnostic> {
        let message = || not_known(format!("the format '{}' does not say which columns a table has", self.name));
        self.infer.ok_or_else(message)?(input)
    }
}

/// A stream of records that follow each other, text or packed columns; `framing` tells them apart.
pub(crate) fn record_stream(
    framing: Framing,
    decoder: impl RecordDecoder + 'static,
) -> Result<Option<StreamFormat>, Diagnostic> {
    let framer = move |info| Box::new(TextFramer::new(info, framing)) as Box<dyn Framer>;
    Ok(Some(StreamFormat { framer: Box::new(framer), decoder: Arc::new(decoder) }))
}

/// A stream of records that follow each other, behind a header.
pub(crate) fn record_output(
    encoder: impl Encoder + 'static,
    header: Vec<u8>,
) -> Result<Option<StreamOutput>, Diagnostic> {
    Ok(Some(StreamOutput { encoder: Arc::new(encoder), header, trailer: b"" }))
}

/// Makes a decoder of messages.
pub(crate) type OpenMessageDecoder = fn(&SourceRequest) -> Result<Box<dyn MessageDecoder>, Diagnostic>;

/// Makes an encoder of changes.
pub(crate) type OpenChangeEncoder = fn(&SinkRequest) -> Result<Box<dyn ChangeEncoder>, Diagnostic>;

/// How records come and go as messages ([`crate::messages`]).
pub(crate) struct MessageFormat {
    /// Makes a decoder.
    pub decoder: OpenMessageDecoder,
    /// Makes an encoder.
    pub encoder: fn(&SinkRequest) -> Result<Box<dyn MessageEncoder>, Diagnostic>,
    /// Makes a decoder of changes, if messages say them: its rows [come](crate::messages::DecodedMessages::comes) or go.
    pub change_decoder: Option<OpenMessageDecoder>,
    /// Makes an encoder of changes, if messages can say them.
    pub changes: Option<OpenChangeEncoder>,
    /// Whether a message without a value is a row; if not, it is nothing, like the delete markers of compacted topics.
    pub null_is_row: bool,
}
