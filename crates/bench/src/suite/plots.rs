//! Plots of records as SVG: lines over a parameter (keys, windows, threads), or a bar for every case and system.

use super::{Failure, Record, median};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use std::path::Path;

const WIDTH: u32 = 900;
const HEIGHT: u32 = 420;
const BAR_HEIGHT: u32 = 22;
/// What the title and the scale take of a plot with bars.
const FRAME_HEIGHT: u32 = 90;
const LABEL_WIDTH: u32 = 330;
/// Values over more than this factor get a logarithmic scale.
const LOGARITHMIC: f64 = 20.0;
/// Free space above the highest value.
const ROOM: f64 = 1.2;
const LABELS: (&str, u32) = ("sans-serif", 16);

/// The median over the repetitions of a system.
pub(crate) struct Point<'a> {
    /// One of its records: they have case, system and threads in common.
    pub(crate) record: &'a Record,
    pub(crate) seconds: f64,
    pub(crate) rows_per_s: f64,
    pub(crate) bytes_per_s: f64,
}

impl Point<'_> {
    /// System and threads.
    pub(crate) fn series(&self) -> (String, usize) {
        (self.record.system.clone(), self.record.threads)
    }
}

/// Medians of the records, in the order in which each case and system comes first.
pub(crate) fn points<'a>(records: &[&'a Record]) -> Vec<Point<'a>> {
    let same = |a: &Record, b: &Record| a.case == b.case && a.system == b.system && a.threads == b.threads;
    let mut points: Vec<Point<'_>> = Vec::new();
    for record in records {
        if points.iter().any(|point| same(point.record, record)) {
            continue;
        }
        let of_point = |value: fn(&Record) -> f64| -> Vec<f64> {
            records.iter().filter(|r| same(r, record)).map(|r| value(r)).collect()
        };
        let (rows_per_s, bytes_per_s) = (median(&of_point(|r| r.rows_per_s)), median(&of_point(|r| r.bytes_per_s)));
        points.push(Point { record, seconds: median(&of_point(|r| r.seconds)), rows_per_s, bytes_per_s });
    }
    points
}

/// Draws the points of a figure: lines if its cases are values of one parameter, else bars.
pub(crate) fn draw(file: &Path, title: &str, points: &[Point<'_>]) -> Result<(), Failure> {
    match parameter(points) {
        Some(name) => lines(file, title, name, points),
        None => bars(file, title, points),
    }
}

/// The parameter whose values all cases are, if there are at least two.
fn parameter<'a>(points: &[Point<'a>]) -> Option<&'a str> {
    let (name, first) = points.first()?.record.parameter()?;
    let all: Option<Vec<(&str, f64)>> = points.iter().map(|point| point.record.parameter()).collect();
    let all = all?;
    let is_line = all.iter().all(|(other, value)| *other == name && *value > 0.0);
    (is_line && all.iter().any(|(_, value)| *value != first)).then_some(name)
}

/// Series in the order in which they come.
fn series(points: &[Point<'_>]) -> Vec<(String, usize)> {
    let mut all: Vec<(String, usize)> = Vec::new();
    for point in points {
        if !all.contains(&point.series()) {
            all.push(point.series());
        }
    }
    all
}

fn lines(file: &Path, title: &str, parameter: &str, points: &[Point<'_>]) -> Result<(), Failure> {
    let root = SVGBackend::new(file, (WIDTH, HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    let values = || points.iter().filter_map(|point| point.record.parameter()).map(|(_, value)| value);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let (slowest, fastest) = (rate(points, f64::INFINITY, f64::min), rate(points, 0.0, f64::max));
    let x = least..most;
    let y = slowest / ROOM..fastest * ROOM;
    match (most / least > LOGARITHMIC, fastest / slowest > LOGARITHMIC) {
        (true, true) => draw_lines(&root, title, parameter, points, (x.log_scale(), y.log_scale()))?,
        (true, false) => draw_lines(&root, title, parameter, points, (x.log_scale(), 0.0..y.end))?,
        (false, true) => draw_lines(&root, title, parameter, points, (x, y.log_scale()))?,
        (false, false) => draw_lines(&root, title, parameter, points, (x, 0.0..y.end))?,
    }
    root.present()?;
    Ok(())
}

/// The least or most of the millions of rows per second.
fn rate(points: &[Point<'_>], first: f64, choose: fn(f64, f64) -> f64) -> f64 {
    points.iter().map(|point| point.rows_per_s / 1e6).fold(first, choose)
}

fn draw_lines<X, Y>(
    root: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    parameter: &str,
    points: &[Point<'_>],
    (x, y): (X, Y),
) -> Result<(), Failure>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 24))
        .margin(12)
        .x_label_area_size(45)
        .y_label_area_size(70)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .x_desc(parameter)
        .y_desc("million rows per second")
        .x_label_formatter(&|value| number(*value))
        .y_label_formatter(&|value| number(*value))
        .light_line_style(WHITE)
        .label_style(LABELS)
        .axis_desc_style(LABELS)
        .draw()?;
    for (system, threads) in series(points) {
        let style = style(&system, threads);
        let at = |point: &Point<'_>| Some((point.record.parameter()?.1, point.rows_per_s / 1e6));
        let mut line: Vec<(f64, f64)> =
            points.iter().filter(|p| p.series() == (system.clone(), threads)).filter_map(at).collect();
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        chart
            .draw_series(LineSeries::new(line, style.stroke_width(2)).point_size(3))?
            .label(label(&system, threads))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style.stroke_width(3)));
    }
    chart
        .configure_series_labels()
        .label_font(LABELS)
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

fn bars(file: &Path, title: &str, points: &[Point<'_>]) -> Result<(), Failure> {
    let height = FRAME_HEIGHT + BAR_HEIGHT * points.len() as u32;
    let root = SVGBackend::new(file, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let highest = rate(points, 0.0, f64::max) * ROOM;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 24))
        .margin(12)
        .margin_left(LABEL_WIDTH)
        .x_label_area_size(40)
        .build_cartesian_2d(0.0..highest, 0.0..points.len() as f64)?;
    chart
        .configure_mesh()
        .x_desc("million rows per second")
        .disable_y_mesh()
        .disable_y_axis()
        .x_label_formatter(&|value| number(*value))
        .light_line_style(WHITE)
        .label_style(LABELS)
        .axis_desc_style(LABELS)
        .draw()?;
    for (i, point) in points.iter().enumerate() {
        // The first bar is the uppermost.
        let low = (points.len() - 1 - i) as f64;
        let rate = point.rows_per_s / 1e6;
        let (system, threads) = point.series();
        let bar = Rectangle::new([(0.0, low + 0.15), (rate, low + 0.85)], style(&system, threads).filled());
        chart.draw_series([bar])?;
        let value = Text::new(format!(" {}", number(rate)), (rate, low + 0.75), LABELS);
        chart.draw_series([value])?;
        let (_, y) = chart.backend_coord(&(0.0, low + 0.75));
        let text = match point.record.point() {
            "" => label(&system, threads),
            case => format!("{case}: {}", label(&system, threads)),
        };
        root.draw(&Text::new(text, (12, y), LABELS))?;
    }
    root.present()?;
    Ok(())
}

/// A colour for each system, stronger with more threads.
fn style(system: &str, threads: usize) -> RGBAColor {
    let base = match system.split('/').next().unwrap_or(system) {
        "millstream" => RGBColor(0, 90, 181),
        "columnar" => RGBColor(220, 50, 32),
        "row" => RGBColor(230, 140, 0),
        "iterator" => RGBColor(120, 120, 120),
        "limit" => RGBColor(40, 40, 40),
        "duckdb" => RGBColor(200, 180, 0),
        "polars" => RGBColor(0, 150, 130),
        "flink" => RGBColor(190, 50, 140),
        _ => RGBColor(130, 90, 60),
    };
    // Variants of a system, after the slash, differ in strength as well.
    let variant = system.split_once('/').map_or(0, |(_, variant)| variant.bytes().map(usize::from).sum::<usize>() % 4);
    let strength = if threads == 1 { 0.55 } else { 1.0 };
    base.mix(strength - 0.12 * variant as f64)
}

fn label(system: &str, threads: usize) -> String {
    format!("{system}, {threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// As short as it can be read.
fn number(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{} M", v / 1e6),
        v if v >= 1e4 => format!("{} k", v / 1e3),
        v if v >= 100.0 || v.fract() == 0.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{v:.1}"),
        v => format!("{v:.3}"),
    }
}
