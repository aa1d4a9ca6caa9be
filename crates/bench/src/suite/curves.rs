//! Plots over time: a line for each system, phase after phase, and a mark where something was decided.
//!
//! Systems take different times for the same rows, so every phase begins for all of them at the same place, and lasts as
//! long as the slowest of them took.

use super::{Failure, Record};
use plotters::prelude::*;
use serde_json::Value;
use std::path::Path;

const WIDTH: u32 = 1200;
const HEIGHT: u32 = 480;
/// Free space above the highest value, where the names of phases and of systems are.
const ROOM: f64 = 1.45;
const LABELS: (&str, u32) = ("sans-serif", 16);
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 90, 181),
    RGBColor(120, 120, 120),
    RGBColor(220, 50, 32),
    RGBColor(230, 140, 0),
    RGBColor(0, 150, 130),
    RGBColor(190, 50, 140),
    RGBColor(130, 90, 60),
];

/// The field with the points of a curve: pairs of seconds since the beginning of the phase and millions of rows per
/// second.
pub(crate) const CURVE: &str = "curve";
/// The field with what was decided: pairs of seconds since the beginning of the phase and a text.
pub(crate) const EVENTS: &str = "events";
/// The field with the number of the phase.
const PHASE: &str = "phase";

/// A record with a curve.
struct Curve<'a> {
    record: &'a Record,
    phase: usize,
    points: Vec<(f64, f64)>,
}

/// Whether these records are drawn over time.
pub(crate) fn are_curves(records: &[&Record]) -> bool {
    records.iter().any(|record| record.more.contains_key(CURVE))
}

/// What was decided in a record's phase.
pub(crate) fn events(record: &Record) -> Vec<(f64, String)> {
    let event = |event: &Value| Some((event.get(0)?.as_f64()?, event.get(1)?.as_str()?.to_string()));
    let events = record.more.get(EVENTS).and_then(Value::as_array);
    events.map(|events| events.iter().filter_map(event).collect()).unwrap_or_default()
}

/// Draws the records that have curves.
pub(crate) fn draw(file: &Path, title: &str, records: &[&Record]) -> Result<(), Failure> {
    let curves: Vec<Curve<'_>> = records.iter().filter_map(|record| curve(record)).collect();
    let phases = curves.iter().map(|curve| curve.phase + 1).max().unwrap_or(0);
    let length = |phase: usize| {
        let of_phase = curves.iter().filter(|curve| curve.phase == phase);
        of_phase.map(|curve| curve.record.seconds).fold(0.0, f64::max)
    };
    let begins = (0..phases).scan(0.0, |at, phase| {
        let begin = *at;
        *at += length(phase);
        Some(begin)
    });
    let begins: Vec<f64> = begins.collect();
    let end = begins.last().map_or(1.0, |begin| begin + length(phases - 1)).max(1e-3);
    let highest = curves.iter().flat_map(|c| &c.points).map(|point| point.1).fold(1e-3, f64::max) * ROOM;
    let root = SVGBackend::new(file, (WIDTH, HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 24))
        .margin(12)
        .x_label_area_size(45)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..end, 0.0..highest)?;
    chart
        .configure_mesh()
        .x_desc("seconds; each phase begins for all at the same place")
        .y_desc("million rows per second")
        .light_line_style(WHITE)
        .label_style(LABELS)
        .axis_desc_style(LABELS)
        .draw()?;
    for (phase, begin) in begins.iter().enumerate() {
        chart.draw_series([PathElement::new([(*begin, 0.0), (*begin, highest)], BLACK.mix(0.5))])?;
        let name = curves.iter().find(|curve| curve.phase == phase).map_or("", |curve| curve.record.point());
        chart.draw_series([Text::new(format!(" {name}"), (*begin, highest * 0.99), LABELS)])?;
    }
    for curve in &curves {
        let marks = events(curve.record).into_iter().map(|(at, _)| begins[curve.phase] + at);
        let mark = |at: f64| PathElement::new([(at, 0.0), (at, highest / ROOM)], COLOURS[0].mix(0.35));
        chart.draw_series(marks.map(mark))?;
    }
    for (number, system) in systems(&curves).into_iter().enumerate() {
        let style = COLOURS[number % COLOURS.len()].stroke_width(if number == 0 { 3 } else { 1 });
        for (part, curve) in curves.iter().filter(|curve| curve.record.system == system).enumerate() {
            let points = curve.points.iter().map(|(at, rate)| (begins[curve.phase] + at, *rate));
            let line = chart.draw_series(LineSeries::new(points, style))?;
            if part == 0 {
                line.label(system).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
            }
        }
    }
    chart
        .configure_series_labels()
        .label_font(LABELS)
        .position(SeriesLabelPosition::Coordinate(90, 70))
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}

fn curve<'a>(record: &'a Record) -> Option<Curve<'a>> {
    let point = |point: &Value| Some((point.get(0)?.as_f64()?, point.get(1)?.as_f64()?));
    let points = record.more.get(CURVE)?.as_array()?.iter().filter_map(point).collect();
    Some(Curve { record, phase: record.more.get(PHASE)?.as_u64()? as usize, points })
}

/// The one without a setting after its name first.
fn systems<'a>(curves: &[Curve<'a>]) -> Vec<&'a str> {
    let mut systems: Vec<&str> = Vec::new();
    for curve in curves {
        if !systems.contains(&curve.record.system.as_str()) {
            systems.push(&curve.record.system);
        }
    }
    systems.sort_by_key(|system| system.contains('/'));
    systems
}
