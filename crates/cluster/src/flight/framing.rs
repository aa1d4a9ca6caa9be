//! Frames in messages of Flight: the header in `app_metadata`, the body in `data_body`.

use crate::frame::Frame;
use arrow_flight::FlightData;
use bytes::Bytes;
use millstream_types::Diagnostic;

/// A frame for gRPC.
pub(super) fn flight_data(frame: Frame) -> FlightData {
    let header = Bytes::copy_from_slice(&frame.header());
    FlightData { app_metadata: header, data_body: frame.body, ..FlightData::default() }
}

/// The frame in a message.
///
/// # Errors
/// Those of [`Frame::read`].
pub(super) fn frame_of(data: FlightData) -> Result<Frame, Diagnostic> {
    Frame::read(&data.app_metadata, data.data_body)
}
