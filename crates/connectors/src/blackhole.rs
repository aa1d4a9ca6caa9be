//! The `blackhole` connector: takes rows and forgets them, for measurements.

use crate::declaration::Connector;
use crate::{Encoded, Encoder, Sink};
use arrow_array::ArrayRef;
use millstream_types::{Diagnostic, TakesChanges};
use std::sync::Arc;

/// The entry of the registry.
pub(crate) const CONNECTOR: Connector = Connector {
    name: "blackhole",
    summary: "Takes rows and forgets them, for measurements.",
    sink: Some(|_| Ok(discarding_sink())),
    is_on_every_node: |_| true,
    changes: |_| TakesChanges::Anything,
    ..Connector::NEITHER
};

/// A sink that forgets rows: that of the connector, for who needs no table.
pub fn discarding_sink() -> Box<dyn Sink> {
    encoding_sink(Arc::new(Forgetting))
}

/// A sink that forgets what this encoder has made of rows: all that is done with them is done there.
pub fn encoding_sink(encoder: Arc<dyn Encoder>) -> Box<dyn Sink> {
    Box::new(Blackhole(encoder))
}

struct Forgetting;

impl Encoder for Forgetting {
    fn encode(&self, _: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic> {
        Ok(Encoded::Bytes { data: Vec::new(), rows })
    }
}

struct Blackhole(Arc<dyn Encoder>);

impl Sink for Blackhole {
    fn encoder(&self) -> Arc<dyn Encoder> {
        Arc::clone(&self.0)
    }

    fn write(&mut self, _: Encoded) -> Result<(), Diagnostic> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), Diagnostic> {
        Ok(())
    }
}
