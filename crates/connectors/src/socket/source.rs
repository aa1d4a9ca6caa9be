//! The `socket` source: a split for each connection.

use super::CONNECTIONS;
use super::endpoint::{Endpoint, READ_MOMENT, is_wait};
use crate::declaration::ReadySource;
use crate::filesystem::RecordsOfStreams;
use crate::format::Format;
use crate::option_table::option_fault;
use crate::records::RecordCutter;
use crate::text_chunk::FileInfo;
use crate::{Chunk, RequestOrigin, Source, SourceRequest, SplitReader};
use millstream_types::{Diagnostic, Place, code};
use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

/// Connections of one table; each has a thread and a block of memory.
const MOST_CONNECTIONS: usize = 1024;

/// Opens the source.
pub(super) fn open(request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
    let options = &request.options;
    let format = Format::of(options)?;
    for column in &request.columns {
        if let RequestOrigin::Metadata(key) = &column.origin
            && !(format.gives_changes() && request.says_changes(column))
        {
            return Err(Diagnostic::new(code::INVALID_TABLE, format!("the socket connector has no metadata '{key}'")));
        }
    }
    let records = (format.stream)(request)?.ok_or_else(|| no_stream(format))?;
    let connections: usize = CONNECTIONS.parse(options)?;
    if connections == 0 || connections > MOST_CONNECTIONS {
        return Err(options.invalid(CONNECTIONS.key, "a number from 1 to 1024"));
    }
    let endpoint = Arc::new(Endpoint::open(options, connections, None)?);
    let reader = |number: usize| {
        let name = endpoint.name();
        let name = if connections == 1 { name } else { format!("{name} #{number}") };
        let info = Arc::new(FileInfo { path: name.clone(), name: name.clone(), ..FileInfo::default() });
        let cutter = RecordCutter::new((records.framer)(info));
        let reader = SocketReader { name, endpoint: endpoint.clone(), link: Link::Wanted(None), cutter, ready: None };
        Box::new(reader) as Box<dyn SplitReader>
    };
    let splits = (1..=connections).map(reader).collect();
    let decoder = Arc::new(RecordsOfStreams { records: records.decoder, columns: Vec::new() });
    Ok(Box::new(ReadySource { splits, decoder, is_bounded: false, is_replayable: false }))
}

/// The error for a format that needs a file.
pub(super) fn no_stream(format: &Format) -> Diagnostic {
    let message = format!("the format '{}' needs a file; it cannot come over a connection", format.name);
    option_fault(code::INVALID_OPTION, "format", message, "use 'arrow' for columns over a connection")
}

struct SocketReader {
    name: String,
    endpoint: Arc<Endpoint>,
    link: Link,
    cutter: RecordCutter,
    /// What `next` will give.
    ready: Option<Chunk>,
}

enum Link {
    /// There is none yet; since when it is waited for.
    Wanted(Option<Instant>),
    Open(TcpStream),
    /// The peer has closed it.
    Closed,
}

impl SocketReader {
    /// Takes what has arrived, and waits a moment for it.
    fn receive(&mut self) -> Result<(), Diagnostic> {
        match &mut self.link {
            Link::Wanted(since) => {
                let since = *since.get_or_insert_with(Instant::now);
                if let Some(stream) = self.endpoint.connection(since)? {
                    stream.set_read_timeout(Some(READ_MOMENT)).map_err(|e| self.lost(&e))?;
                    self.link = Link::Open(stream);
                }
            }
            Link::Open(stream) => match stream.read(self.cutter.room()) {
                Ok(0) => self.link = Link::Closed,
                Ok(count) => {
                    self.cutter.advance(count);
                    self.ready = self.cutter.cut()?;
                }
                Err(e) if is_wait(&e) => {}
                Err(e) => return Err(self.lost(&e)),
            },
            Link::Closed => self.ready = self.cutter.finish()?,
        }
        Ok(())
    }

    fn lost(&self, error: &std::io::Error) -> Diagnostic {
        let offset = Some(self.cutter.received());
        let place = Place::Data { resource: self.name.clone(), offset, line: None, column: None };
        self.endpoint.lost(error).at(place)
    }

    fn has_ended(&self) -> bool {
        matches!(self.link, Link::Closed)
    }
}

impl SplitReader for SocketReader {
    fn name(&self) -> &str {
        &self.name
    }

    fn limit_records(&mut self, bytes: usize) {
        self.cutter.limit_records(bytes);
    }

    fn aim(&mut self, bytes: usize) {
        self.cutter.aim(bytes);
    }

    fn wait(&mut self) -> Result<bool, Diagnostic> {
        if self.ready.is_none() && !self.has_ended() {
            self.receive()?;
        }
        Ok(self.ready.is_some() || self.has_ended())
    }

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        while self.ready.is_none() && !self.has_ended() {
            self.receive()?;
        }
        if self.ready.is_none() {
            self.receive()?;
        }
        Ok(self.ready.take())
    }
}
