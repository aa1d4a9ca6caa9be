//! Windows over TIMESTAMP_LTZ begin at full hours, days, … of the session's time zone, as in Flink.
//!
//! Their times are instants, so the windows are those of UTC, shifted by the zone's offset. (A zone whose offset changes
//! within the year moves windows longer than the change: they are aligned to the offset at the start of the query.)

use crate::expr::{Expr, ExprKind};
use crate::logical::Rel;
use crate::window::{Overlap, Slicing, WindowAssigner};
use millstream_types::DataType;

/// Shifts the windows of a plan whose zone is `offset_ms` ahead of UTC.
pub(super) fn align(rel: &mut Rel, offset_ms: i64) {
    if offset_ms == 0 {
        return;
    }
    for input in rel.inputs_mut() {
        align(input, offset_ms);
    }
    for expr in rel.expressions_mut() {
        let taken = std::mem::replace(expr, Expr::boolean(false));
        *expr = taken.rewrite(&mut |mut e| {
            if let ExprKind::WindowStart(time, slicing) = &mut e.kind
                && is_instant(&time.data_type)
            {
                *slicing = shifted(*slicing, offset_ms);
            }
            e
        });
    }
    match rel {
        Rel::Windowed { assigner, time, .. } if is_instant(&time.data_type) => {
            *assigner = aligned(*assigner, offset_ms)
        }
        Rel::Aggregate { window, .. } if window.time.as_ref().is_some_and(|t| is_instant(&t.data_type)) => {
            window.assigner = aligned(window.assigner, offset_ms);
        }
        _ => {}
    }
}

fn is_instant(data_type: &DataType) -> bool {
    matches!(data_type, DataType::TimestampLtz(_))
}

fn shifted(slicing: Slicing, by_ms: i64) -> Slicing {
    Slicing { offset_ms: (slicing.offset_ms - by_ms).rem_euclid(slicing.size_ms), ..slicing }
}

fn aligned(assigner: WindowAssigner, by_ms: i64) -> WindowAssigner {
    match assigner {
        WindowAssigner::Tumble(slicing) => WindowAssigner::Tumble(shifted(slicing, by_ms)),
        WindowAssigner::Overlap(Overlap::Hop { size_ms, slide_ms, offset_ms }) => {
            let offset_ms = (offset_ms - by_ms).rem_euclid(slide_ms);
            WindowAssigner::Overlap(Overlap::Hop { size_ms, slide_ms, offset_ms })
        }
        WindowAssigner::Overlap(Overlap::Cumulate { size_ms, step_ms, offset_ms }) => {
            let offset_ms = (offset_ms - by_ms).rem_euclid(size_ms);
            WindowAssigner::Overlap(Overlap::Cumulate { size_ms, step_ms, offset_ms })
        }
        other => other,
    }
}
