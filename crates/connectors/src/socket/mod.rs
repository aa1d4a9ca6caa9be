//! The `socket` connector: records over TCP, as a client or as a server.
//!
//! Each connection is a split. What has arrived is handed over at once, be it one record or a block full: while the
//! engine is busy more arrives, so blocks grow with the rate by themselves. When the engine has no room the reader
//! stops reading, and TCP slows the producer down.

mod endpoint;
mod sink;
mod source;
#[cfg(test)]
mod tests;

use crate::declaration::{Connector, TakesFormats};
use crate::format::Format;
use crate::option_table::option_list;
use millstream_types::TakesChanges;

/// The connector's entry in the registry.
pub(crate) const CONNECTOR: Connector = Connector {
    name: "socket",
    summary: "Records over TCP connections, each of which is a split: it ends when its peer closes it, and the query when \
        all have ended. A sink writes to one connection.",
    options: OPTIONS,
    formats: TakesFormats::OfStreams,
    source: Some(source::open),
    sink: Some(sink::open),
    changes: |options| Format::of(options).map_or(TakesChanges::Nothing, Format::takes_changes),
    gives_changes: |options| Format::of(options).is_ok_and(Format::gives_changes),
    split_front: Some(Format::split_front),
    ..Connector::NEITHER
};

option_list! {
    OPTIONS;
    MODE = "mode": Choice(&["client", "server"]), "client", "`client` connects to `hostname` and `port`; `server` listens there.";
    "hostname": Text, "localhost", "Where to connect to, or the address to listen on: `0.0.0.0` for all of this machine.";
    "port": Required(&Integer), "", "The port, from 1 to 65535.";
    "format": Required(&Format("")), "", "Format of the records.";
    "connect.timeout": Duration, "",
        "How long connections may take to come about; a client tries again meanwhile. Default: 5 s for a client, 1 min for a sink that is a \
         server, and no end for a source that is one.";
    CONNECTIONS = "scan.connections": Integer, "1", "How many connections a source reads: a server waits for this number of producers, a client connects this number of times.";
    STALL = "sink.timeout": Duration, "1 min", "A sink fails when its peer has taken nothing for this long.";
}
