//! The report: a page with what every benchmark says about itself, its plots, and its medians in tables.

use super::plots::{self, Point};
use super::{Benchmark, CURVE, EVENTS, Failure, Record, curves, one_line};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Writes `index.html`, the plots and `records.jsonl` into a folder.
pub(crate) fn write(
    folder: &Path,
    benchmarks: &[&Benchmark],
    records: &[Record],
    machine: &str,
) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|e| format!("{} cannot be made: {e}", folder.display()))?;
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Millstream: benchmarks</title>\n\
         <style>{STYLE}</style></head><body>\n<h1>Millstream: benchmarks</h1>\n<p>{}<br><code>{}</code></p>\n",
        escape(machine),
        escape(&command)
    );
    for name in names(records) {
        let own: Vec<&Record> = records.iter().filter(|record| record.benchmark == name).collect();
        section(folder, &mut page, name, benchmarks.iter().copied().find(|b| b.name == name), &own)?;
    }
    page.push_str("</body></html>\n");
    let lines = records.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
    fs::write(folder.join("records.jsonl"), lines.join("\n") + "\n")?;
    fs::write(folder.join("index.html"), page)?;
    Ok(())
}

const STYLE: &str = "body{font:15px sans-serif;max-width:60em;margin:2em auto;padding:0 1em}\
    table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}\
    td:first-child,th:first-child,td:nth-child(2),th:nth-child(2){text-align:left}img{max-width:100%}dt{font-weight:bold}";

/// Benchmarks in the order in which they were measured.
fn names(records: &[Record]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for record in records {
        if !names.contains(&record.benchmark.as_str()) {
            names.push(&record.benchmark);
        }
    }
    names
}

fn section(
    folder: &Path,
    page: &mut String,
    name: &str,
    benchmark: Option<&Benchmark>,
    records: &[&Record],
) -> Result<(), Failure> {
    let title = benchmark.map_or(String::new(), |b| format!(": {}", b.title));
    writeln!(page, "<h2 id=\"{0}\">{0}{1}</h2>", escape(name), escape(&title))?;
    if let Some(benchmark) = benchmark {
        page.push_str("<dl>");
        for (term, text) in [("Data", benchmark.data), ("Query", benchmark.query), ("Measured", benchmark.measured)] {
            write!(page, "<dt>{term}</dt><dd>{}</dd>", escape(&one_line(text)))?;
        }
        page.push_str("</dl>\n");
    }
    let mut figures: Vec<&str> = Vec::new();
    for record in records {
        if !figures.contains(&record.figure()) {
            figures.push(record.figure());
        }
    }
    for figure in figures {
        let own: Vec<&Record> = records.iter().copied().filter(|record| record.figure() == figure).collect();
        let points = plots::points(&own);
        let file = file_name(name, figure);
        if points.iter().all(|point| point.rows_per_s == 0.0) {
            table(page, &points)?;
            continue;
        }
        let title = if figure.is_empty() { name.to_string() } else { format!("{name}: {figure}") };
        if curves::are_curves(&own) {
            curves::draw(&folder.join(&file), &title, &own)?;
        } else {
            plots::draw(&folder.join(&file), &title, &points)?;
        }
        writeln!(page, "<p><img src=\"{file}\" alt=\"{}\"></p>", escape(&title))?;
        table(page, &points)?;
        decisions(page, &own)?;
    }
    Ok(())
}

/// Letters and digits of the names, so that any file system takes it.
fn file_name(benchmark: &str, figure: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = format!("{benchmark} {figure}").trim().chars().map(plain).collect();
    format!("{name}.svg")
}

fn table(page: &mut String, points: &[Point<'_>]) -> Result<(), Failure> {
    page.push_str(
        "<table><tr><th>case</th><th>system</th><th>threads</th><th>seconds</th><th>M rows/s</th><th>GB/s</th>\
         <th>Millstream is</th><th></th></tr>\n",
    );
    for point in points {
        let record = point.record;
        let ours = points.iter().find(|p| {
            p.record.system == "millstream" && p.record.case == record.case && p.record.threads == record.threads
        });
        let ratio = ours.map_or(String::new(), |ours| format!("×{:.2}", ours.rows_per_s / point.rows_per_s));
        let bytes = if point.bytes_per_s > 0.0 { format!("{:.2}", point.bytes_per_s / 1e9) } else { String::new() };
        writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.4}</td><td>{:.2}</td><td>{bytes}</td><td>{ratio}</td>\
             <td>{}</td></tr>",
            escape(record.point()),
            escape(&record.system),
            record.threads,
            point.seconds,
            point.rows_per_s / 1e6,
            escape(&more(record)),
        )?;
    }
    page.push_str("</table>\n");
    Ok(())
}

/// What was decided, in each phase.
fn decisions(page: &mut String, records: &[&Record]) -> Result<(), Failure> {
    for record in records {
        let events = curves::events(record);
        if !events.is_empty() {
            writeln!(page, "<p>{}, {}</p><ul>", escape(record.point()), escape(&record.system))?;
            for (at, text) in events {
                writeln!(page, "<li>after {at:.3} s: {}</li>", escape(&text))?;
            }
            page.push_str("</ul>\n");
        }
    }
    Ok(())
}

/// Measures that only this benchmark has, of the first repetition.
fn more(record: &Record) -> String {
    let value = |value: &serde_json::Value| match value.as_f64() {
        Some(number) => format!("{number:.3}"),
        None => value.to_string(),
    };
    let shown = record.more.iter().filter(|(name, _)| ![CURVE, EVENTS].contains(&name.as_str()));
    shown.map(|(name, v)| format!("{name}: {}", value(v))).collect::<Vec<_>>().join(", ")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
