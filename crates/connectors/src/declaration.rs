//! What a connector is: what it says of itself, and how it is opened.
//!
//! Each connector describes itself as a [`Connector`]; which there are says [`crate::registry`].

use crate::format::Format;
use crate::option_table::OptionInfo;
use crate::{Chunk, Decoder, Sink, SinkRequest, Source, SourceRequest, SplitReader};
use millstream_types::{Diagnostic, Inferred, Options, TakesChanges};
use std::path::PathBuf;
use std::sync::Arc;

/// A connector.
pub(crate) struct Connector {
    /// Value of the option `connector`.
    pub name: &'static str,
    /// For the documentation, in Markdown.
    pub summary: &'static str,
    /// Its options, without those that every table has.
    pub options: &'static [OptionInfo],
    /// What its formats are, whose options it has as well.
    pub formats: TakesFormats,
    /// Finds out what is missing, once all options are known ones.
    pub require: fn(&Options) -> Result<(), Diagnostic>,
    /// Opens it for reading, if it can be read.
    pub source: Option<OpenSource>,
    /// Opens it for writing, if it can be written.
    pub sink: Option<OpenSink>,
    /// The local file or directory that a sink of a table with these options writes, under the one name that it has.
    pub written_path: fn(&Options) -> Option<PathBuf>,
    /// Whether each of several nodes may have a sink of the table, which writes the rows of that node.
    pub is_on_every_node: fn(&SinkRequest) -> bool,
    /// Which changes a table with these options can be given, if it can be written.
    pub changes: fn(&Options) -> TakesChanges,
    /// Whether the rows of a table with these options and a primary key are changes of it, if it can be read. Then a metadata column says
    /// what each does ([`CHANGE_COLUMN`](millstream_types::CHANGE_COLUMN)).
    pub gives_changes: fn(&Options) -> bool,
    /// Lets a chunk be handed out in parts, see [`SplitFront`]; sources without it cannot be slowed down.
    pub split_front: Option<SplitFront>,
    /// Whether a source with these options ends by itself.
    pub is_bounded: fn(&Options) -> bool,
    /// The rows per second that the connector's own options ask for.
    pub own_rate: Option<OwnRate>,
    /// Which columns a table with these options has, if its input says so.
    pub infer: Option<InferTable>,
}

impl Connector {
    /// What a connector is unless it says otherwise.
    pub const NEITHER: Connector = Connector {
        name: "",
        summary: "",
        options: &[],
        formats: TakesFormats::None,
        require: |_| Ok(()),
        source: None,
        sink: None,
        written_path: |_| None,
        is_on_every_node: |_| false,
        changes: |_| TakesChanges::Nothing,
        gives_changes: |_| false,
        split_front: None,
        is_bounded: |_| false,
        own_rate: None,
        infer: None,
    };
}

/// Which formats a connector takes.
pub(crate) enum TakesFormats {
    /// It has its own.
    None,
    /// One of streams of bytes, which the option `format` names.
    OfStreams,
    /// Those of messages, which these options name.
    OfMessages(fn(&Options) -> Result<Vec<PartFormat>, Diagnostic>),
}

/// A format of a table, and what the names of its options have before them.
pub(crate) struct PartFormat {
    /// `value.`, `key.`, or nothing.
    pub prefix: &'static str,
    /// The format.
    pub format: &'static Format,
}

/// A source whose splits are known when it is opened.
pub(crate) struct ReadySource {
    pub splits: Vec<Box<dyn SplitReader>>,
    pub decoder: Arc<dyn Decoder>,
    pub is_bounded: bool,
    pub is_replayable: bool,
}

impl Source for ReadySource {
    fn splits(&mut self) -> Result<Vec<Box<dyn SplitReader>>, Diagnostic> {
        Ok(std::mem::take(&mut self.splits))
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        self.decoder.clone()
    }

    fn is_bounded(&self) -> bool {
        self.is_bounded
    }

    fn is_replayable(&self) -> bool {
        self.is_replayable
    }
}

/// Opens a table for reading.
pub(crate) type OpenSource = fn(&SourceRequest) -> Result<Box<dyn Source>, Diagnostic>;

/// Says which columns a table with these options has.
pub(crate) type InferTable = fn(&Options) -> Result<Inferred, Diagnostic>;

/// Opens a table for writing.
pub(crate) type OpenSink = fn(&SinkRequest) -> Result<Box<dyn Sink>, Diagnostic>;

/// Reads a rate from a connector's own options.
pub(crate) type OwnRate = fn(&Options) -> Result<Option<u64>, Diagnostic>;

/// Cuts about the first `rows` rows off a chunk; gives them and their number, or `None` when nothing is left.
pub(crate) type SplitFront = fn(chunk: &mut Chunk, rows: u64) -> Option<(Chunk, u64)>;
