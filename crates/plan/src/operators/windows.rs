//! The window table functions HOP and CUMULATE without an aggregation: a row for each window that it is in.

use super::lookup::LookupTable;
use crate::expansion::{Brought, Expansion};
use crate::explain::shown::Shown;
use crate::expr::Expr;
use crate::shape::meaning::Digester;
use crate::window::{Overlap, WindowAssigner};
use millstream_types::{Field, Schema};
use std::collections::BTreeMap;

/// Once for each window of the row. Appends `window_start`, `window_end` and `window_time` in the type of `time`,
/// milliseconds since the epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Windows {
    /// Which windows.
    pub windows: Overlap,
    /// TIMESTAMP(3) or TIMESTAMP_LTZ(3). NULL makes the row an error.
    pub time: Expr,
}

impl Expansion for Windows {
    fn arguments(&self) -> &[Expr] {
        std::slice::from_ref(&self.time)
    }

    fn appended(&self, _: &[LookupTable]) -> Vec<Field> {
        let named = |name| Field::new(name, self.time.data_type.clone(), false);
        ["window_start", "window_end", "window_time"].map(named).to_vec()
    }

    fn text(&self, schema: &Schema, _: &[LookupTable]) -> String {
        let time = Shown(&self.time, schema).to_string();
        format!("repeat for each window {}", WindowAssigner::Overlap(self.windows).text(&time))
    }

    fn step(&self, _: &Brought<'_>) -> (&'static str, Digester) {
        // By name: digests of checkpoints have them in this order.
        let constants: BTreeMap<&str, String> = overlap_constants(self.windows).into_iter().collect();
        let digester = Digester::new("windows");
        ("windows of", constants.iter().fold(digester, |d, (name, value)| d.text(name).text(value)))
    }
}

/// The constants of overlapping windows by their names in checkpoints.
pub(crate) fn overlap_constants(overlap: Overlap) -> Vec<(&'static str, String)> {
    let (window, size_ms, (step, step_ms), offset_ms) = match overlap {
        Overlap::Hop { size_ms, slide_ms, offset_ms } => ("HOP", size_ms, ("slide_ms", slide_ms), offset_ms),
        Overlap::Cumulate { size_ms, step_ms, offset_ms } => ("CUMULATE", size_ms, ("step_ms", step_ms), offset_ms),
    };
    vec![
        ("window", window.into()),
        ("size_ms", size_ms.to_string()),
        (step, step_ms.to_string()),
        ("offset_ms", offset_ms.to_string()),
    ]
}
