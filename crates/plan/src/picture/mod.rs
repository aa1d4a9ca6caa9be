//! The pipelines of a plan as a picture: SVG that stands by itself, or within a page.
//!
//! Sources are above, sinks below; what is between are pipelines and what they end in. The picture has no colours for text and lines but those
//! of the page (`currentColor`), so it fits dark and light ones; alone it follows what the viewer prefers. A box has a stripe in the colour of
//! its kind, which its title says as well. Text is measured for fonts a little wider than usual ones, and long text is cut; the whole of it is
//! the title of its box, which browsers show under the pointer.

mod layout;

use crate::explain::Part;
use crate::graph::{Item, Kind, Node, edges, items, title};
use crate::pipeline::{Aggregation, QueryPlan};
use layout::{Layout, Point, Size, layout};
use millstream_types::counted;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The most boxes of a picture.
pub const MOST_BOXES: usize = 100;

/// Pixels of the font, of a place of it, of a line, and around the lines of a box.
const FONT: f64 = 12.0;
const PLACE: f64 = 0.62 * FONT;
const LINE: f64 = 16.0;
const AROUND: f64 = 9.0;
/// Pixels around the picture.
const MARGIN: f64 = 8.0;
/// Places of a line, lines of a step, and lines of a box.
const PLACES: usize = 46;
const LINES_OF_STEP: usize = 3;
const LINES_OF_BOX: usize = 18;

/// Colours that the colour-blind can tell apart (Okabe and Ito).
fn colour(kind: Kind) -> &'static str {
    match kind {
        Kind::Source => "#0072B2",
        Kind::Pipeline => "#8C8C8C",
        Kind::Aggregation => "#E69F00",
        Kind::Operator => "#CC79A7",
        Kind::Sort => "#56B4E9",
        Kind::Lookup => "#009E73",
        Kind::Sink => "#D55E00",
    }
}

/// A line of a box.
struct Line {
    text: String,
    is_note: bool,
    /// It goes on with the step of the line before.
    is_rest: bool,
}

/// Draws a plan. `merge` and `notes` are those of [`crate::explain::annotated_pipelines`].
pub fn picture(
    plan: &QueryPlan,
    merge: impl Fn(&Aggregation) -> String,
    notes: impl Fn(Part) -> Vec<String>,
) -> String {
    let all = edges(plan);
    let mut nodes = in_order(plan, &all);
    let left_out = left_out(&nodes.split_off(nodes.len().min(MOST_BOXES)));
    let place = |node: &Node| nodes.iter().position(|known| known == node);
    let edges: Vec<(usize, usize)> = all.iter().filter_map(|(from, to)| Some((place(from)?, place(to)?))).collect();
    let items: Vec<Vec<Item>> = nodes.iter().map(|node| items(*node, plan, &merge, &notes)).collect();
    let boxes: Vec<Vec<Line>> = items.iter().map(|items| box_lines(items)).collect();
    let sizes: Vec<Size> = nodes.iter().zip(&boxes).map(|(node, lines)| size_of(&title(*node), lines)).collect();
    let layout = layout(&sizes, &edges);
    let (width, mut height) = (layout.size.width + 2.0 * MARGIN, layout.size.height + 2.0 * MARGIN);
    let width = left_out.as_ref().map_or(width, |text| width.max(places(text) as f64 * PLACE + 2.0 * MARGIN));
    let mut body = String::new();
    draw_edges(&layout, &edges, &nodes, &mut body);
    for (i, node) in nodes.iter().enumerate() {
        draw_box(*node, layout.places[i], sizes[i], &boxes[i], &items[i], &mut body);
    }
    if let Some(text) = left_out {
        height += LINE;
        // Writing to a String cannot fail.
        let _ = write!(
            body,
            "<text x=\"{MARGIN}\" y=\"{:.1}\" font-style=\"italic\">{}</text>",
            height - MARGIN,
            escaped(&text)
        );
    }
    let flow: Vec<String> = edges.iter().map(|&(a, b)| format!("{} to {}", title(nodes[a]), title(nodes[b]))).collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" font-family=\"ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace\" font-size=\"{FONT}\" \
         fill=\"currentColor\" style=\"color-scheme:light dark\"><title>Plan of a query</title><desc>{}</desc>{body}</svg>\n",
        escaped(&flow.join(", "))
    )
}

/// All parts, each with what follows from it: the first ones are a plan as well.
fn in_order(plan: &QueryPlan, edges: &[(Node, Node)]) -> Vec<Node> {
    let roots = Kind::ALL.into_iter().flat_map(|kind| (0..kind.count(plan)).map(move |i| (kind, i)));
    let (mut nodes, mut seen) = (Vec::new(), BTreeSet::new());
    for root in roots {
        let mut waiting = vec![root];
        while let Some(node) = waiting.pop() {
            if seen.insert(node) {
                nodes.push(node);
                waiting.extend(edges.iter().rev().filter(|(from, _)| *from == node).map(|(_, to)| *to));
            }
        }
    }
    nodes
}

/// Says what a picture lacks.
fn left_out(nodes: &[Node]) -> Option<String> {
    let counted = |kind: Kind| match nodes.iter().filter(|(of, _)| *of == kind).count() {
        0 => None,
        1 => Some(format!("1 {}", kind.name())),
        count if kind == Kind::Lookup => Some(format!("{count} lookups")),
        count => Some(format!("{count} {}s", kind.name())),
    };
    let counts: Vec<String> = Kind::ALL.into_iter().filter_map(counted).collect();
    (!nodes.is_empty()).then(|| format!("left out: {}; EXPLAIN has them", counts.join(", ")))
}

/// The lines of a box, as many as it may have.
fn box_lines(items: &[Item]) -> Vec<Line> {
    let mut lines = Vec::new();
    for Item { text, is_note } in items {
        let wrapped = wrapped(text).into_iter().enumerate();
        lines.extend(wrapped.map(|(i, text)| Line { text, is_note: *is_note, is_rest: i > 0 }));
    }
    if lines.len() > LINES_OF_BOX {
        let more = lines.len() - (LINES_OF_BOX - 1);
        lines.truncate(LINES_OF_BOX - 1);
        lines.push(Line { text: format!("… {}", counted(more, "more line")), is_note: true, is_rest: false });
    }
    lines
}

/// A step in lines, cut where it is longer than it may be. Lines after the first are two places shorter.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let room = |lines: &[String]| if lines.len() == 1 { PLACES } else { PLACES - 2 };
    for word in text.split_whitespace() {
        let line = lines.len() - 1;
        if !lines[line].is_empty() && places(&lines[line]) + 1 + places(word) > room(&lines) {
            lines.push(String::new());
        } else if !lines[line].is_empty() {
            lines[line].push(' ');
        }
        // A word that is longer than a line is broken.
        for c in word.chars() {
            let line = lines.len() - 1;
            if places(&lines[line]) + places_of(c) > room(&lines) {
                lines.push(String::new());
            }
            let line = lines.len() - 1;
            lines[line].push(c);
        }
    }
    if lines.len() > LINES_OF_STEP {
        lines.truncate(LINES_OF_STEP);
        let last = &mut lines[LINES_OF_STEP - 1];
        while places(last) > PLACES - 3 {
            last.pop();
        }
        last.push('…');
    }
    lines
}

/// How many places a text takes, or more: what is not ASCII may be wide.
fn places(text: &str) -> usize {
    text.chars().map(places_of).sum()
}

fn places_of(c: char) -> usize {
    if c.is_ascii() || c == '…' { 1 } else { 2 }
}

fn size_of(title: &str, lines: &[Line]) -> Size {
    let longest = lines.iter().map(|line| places(&line.text) + if line.is_rest { 2 } else { 0 });
    let longest = longest.chain([places(title) + 2]).max().unwrap_or(0);
    Size { width: longest as f64 * PLACE + 2.0 * AROUND, height: (lines.len() + 1) as f64 * LINE + 2.0 * AROUND }
}

fn draw_edges(layout: &Layout, edges: &[(usize, usize)], nodes: &[Node], out: &mut String) {
    for (route, &(from, to)) in layout.routes.iter().zip(edges) {
        let at = |(x, y): Point| (x + MARGIN, y + MARGIN);
        let (x, y) = at(route[0]);
        let mut path = format!("M{x:.1} {y:.1}");
        for (i, pair) in route.windows(2).enumerate() {
            let ((x, y), (to_x, to_y)) = (at(pair[0]), at(pair[1]));
            let _ = match i % 2 {
                0 => write!(path, "V{to_y:.1}"),
                _ => {
                    let middle = f64::midpoint(y, to_y);
                    write!(path, "C{x:.1} {middle:.1} {to_x:.1} {middle:.1} {to_x:.1} {to_y:.1}")
                }
            };
        }
        let (x, y) = at(route[route.len() - 1]);
        // What is looked up is there before, and does not flow.
        let dashes = if nodes[from].0 == Kind::Lookup { " stroke-dasharray=\"5 4\"" } else { "" };
        let _ = write!(
            out,
            "<g opacity=\"0.7\"><title>{} to {}</title><path d=\"{path}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\"{dashes}/>\
             <path d=\"M{:.1} {:.1}L{x:.1} {y:.1}L{:.1} {:.1}z\"/></g>",
            title(nodes[from]),
            title(nodes[to]),
            x - 4.0,
            y - 8.0,
            x + 4.0,
            y - 8.0
        );
    }
}

fn draw_box(node: Node, (x, y): Point, size: Size, lines: &[Line], items: &[Item], out: &mut String) {
    let (x, y, Size { width, height }) = (x + MARGIN, y + MARGIN, size);
    let whole: Vec<&str> = items.iter().map(|item| item.text.as_str()).collect();
    let _ = write!(
        out,
        "<g><title>{}: {}</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"4\" fill-opacity=\"0.05\" \
         stroke=\"currentColor\" stroke-opacity=\"0.45\"/><path d=\"M{:.1} {:.1}V{:.1}\" stroke=\"{}\" stroke-width=\"4\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
        title(node),
        escaped(&whole.join("\n")),
        x + 2.0,
        y + 4.0,
        y + height - 4.0,
        colour(node.0),
        x + AROUND,
        y + AROUND + FONT,
        title(node)
    );
    for (i, line) in lines.iter().enumerate() {
        let (across, down) =
            (x + AROUND + if line.is_rest { 2.0 * PLACE } else { 0.0 }, y + AROUND + FONT + LINE * (i + 1) as f64);
        let quiet = if line.is_note { " opacity=\"0.7\"" } else { "" };
        let _ = write!(out, "<text x=\"{across:.1}\" y=\"{down:.1}\"{quiet}>{}</text>", escaped(&line.text));
    }
    out.push_str("</g>");
}

/// Text within XML, which has no control characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push('\n'),
            c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{CompareOp, Expr};
    use crate::logical::JoinKind;
    use crate::pipeline::*;
    use millstream_types::{DataType, Field, Schema, Value};

    /// Pipelines from constant rows, each through a filter for this text into a sink of its own.
    fn plan(pipelines: usize, text: &str) -> QueryPlan {
        let schema = Schema::new(vec![Field::new("s", DataType::STRING, true)]);
        let (column, literal) = (Expr::column(0, DataType::STRING, true), Value::String(text.into()));
        let is_text = Expr::compare(CompareOp::Equal, column, Expr::literal(literal, DataType::STRING));
        let source = SourcePlan { scan: ScanKind::Values(vec![]), columns: vec![], watermark: None, phase: 0 };
        let pipeline = |i| Pipeline {
            input: PipelineInput::Source(i),
            schema: schema.clone(),
            operators: vec![Operator::Filter(is_text.clone())],
            end: PipelineEnd::Sink(i),
        };
        let sink = SinkPlan {
            table: None,
            schema: schema.clone(),
            changes: None,
            skip: 0,
            limit: Some(3),
            is_on_every_node: false,
        };
        QueryPlan {
            sources: vec![source; pipelines],
            pipelines: (0..pipelines).map(pipeline).collect(),
            sinks: vec![sink; pipelines],
            ..QueryPlan::default()
        }
    }

    fn drawn(plan: &QueryPlan) -> String {
        picture(plan, |_| String::new(), |_| vec!["a note".into()])
    }

    struct Element {
        tag: String,
        /// Attributes that are numbers.
        numbers: Vec<(String, f64)>,
        text: String,
    }

    impl Element {
        fn number(&self, name: &str) -> f64 {
            let found = self.numbers.iter().find(|(known, _)| known == name);
            found.unwrap_or_else(|| panic!("{} has no {name}", self.tag)).1
        }
    }

    /// The elements of a picture, after a look whether it is well-formed.
    fn elements(svg: &str) -> Vec<Element> {
        let (mut open, mut found, mut rest) = (Vec::new(), Vec::new(), svg.trim_end());
        while let Some(tag) = rest.strip_prefix('<') {
            let (tag, behind) = tag.split_once('>').expect("a tag ends");
            let (text, _) = behind.split_once('<').unwrap_or((behind, ""));
            assert!(!text.contains(|c: char| c == '>' || c.is_control() && c != '\n') && !tag.contains('<'), "{text}");
            for reference in text.split('&').skip(1) {
                assert!(["amp;", "lt;", "gt;", "quot;"].iter().any(|name| reference.starts_with(name)), "{reference}");
            }
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name));
            } else {
                let name = tag.split(' ').next().expect("there is a first part").to_string();
                let values: Vec<&str> = tag.trim_end_matches('/').split('"').collect();
                assert_eq!(values.len() % 2, 1, "quotes of {tag}");
                let number = |pair: &[&str]| {
                    Some((pair[0].trim_matches([' ', '=']).rsplit(' ').next()?.into(), pair[1].parse().ok()?))
                };
                let numbers = values.chunks_exact(2).filter_map(number).collect();
                found.push(Element { tag: name.clone(), numbers, text: text.to_string() });
                if !tag.ends_with('/') {
                    open.push(name);
                }
            }
            rest = &behind[text.len()..];
        }
        assert!(open.is_empty() && rest.is_empty(), "{open:?} {rest}");
        found
    }

    fn texts<'a>(elements: &'a [Element], tag: &str) -> Vec<&'a str> {
        elements.iter().filter(|element| element.tag == tag).map(|element| element.text.as_str()).collect()
    }

    #[test]
    fn every_part_has_a_box_and_every_way_a_line() {
        let mut plan = plan(3, "<b> & \"c\"");
        // The second builds what the third looks up.
        plan.sinks.remove(1);
        plan.lookups.push(LookupTable {
            name: "sides".into(),
            schema: plan.pipelines[1].schema.clone(),
            keys: vec![0],
        });
        plan.pipelines[1].end = PipelineEnd::Build { lookup: 0 };
        plan.pipelines[2].end = PipelineEnd::Sink(1);
        let key = Expr::column(0, DataType::STRING, true);
        let lookup = Lookup { table: 0, kind: JoinKind::Inner, keys: vec![key], residual: None };
        plan.pipelines[2].operators.push(Operator::FlatMap(FlatMap::Lookup(lookup)));
        let elements = elements(&drawn(&plan));
        let shown = texts(&elements, "text");
        for part in [
            "source 0",
            "source 1",
            "source 2",
            "pipeline 0",
            "pipeline 1",
            "pipeline 2",
            "lookup 0",
            "sink 0",
            "sink 1",
        ] {
            assert_eq!(shown.iter().filter(|text| **text == part).count(), 1, "{part} of {shown:?}");
        }
        assert!(shown.contains(&"filter (s = '&lt;b&gt; &amp; &quot;c&quot;')") && shown.contains(&"a note"));
        assert!(shown.contains(&"result, the first 3 rows"));
        let titles = texts(&elements, "title");
        for way in
            ["source 0 to pipeline 0", "pipeline 1 to lookup 0", "lookup 0 to pipeline 2", "pipeline 2 to sink 1"]
        {
            assert!(titles.contains(&way) && texts(&elements, "desc")[0].contains(way), "{way} of {titles:?}");
        }
        assert_eq!(titles.iter().filter(|title| title.contains(" to ")).count(), 7);
    }

    #[test]
    fn text_stays_within_its_box_and_boxes_within_the_picture() {
        for text in ["x", &"語 ".repeat(300), &"long".repeat(100), "\u{1b}[2J\n"] {
            let elements = elements(&drawn(&plan(4, text)));
            let (width, height) = (elements[0].number("width"), elements[0].number("height"));
            let mut place = [0.0; 4];
            for element in &elements {
                let (tag, at) = (element.tag.as_str(), |name| element.number(name));
                if tag == "rect" {
                    place = [at("x"), at("y"), at("x") + at("width"), at("y") + at("height")];
                    assert!(place[0] >= 0.0 && place[1] >= 0.0 && place[2] <= width && place[3] <= height, "{place:?}");
                }
                if tag == "text" {
                    let end = at("x") + places(&element.text) as f64 * 0.61 * FONT;
                    assert!(at("x") > place[0] && end <= place[2], "{} is too wide", element.text);
                    assert!(at("y") < place[3] && at("y") - FONT > place[1], "{} is too high or low", element.text);
                }
            }
        }
    }

    #[test]
    fn a_picture_has_a_hundred_boxes_at_most_and_says_what_it_lacks() {
        let elements = elements(&drawn(&plan(50, "x")));
        let boxes = texts(&elements, "rect").len();
        assert_eq!(boxes, MOST_BOXES);
        let shown = texts(&elements, "text");
        assert_eq!(shown.last(), Some(&"left out: 16 sources, 17 pipelines, 17 sinks; EXPLAIN has them"));
        // What is there is whole: it goes from source to sink.
        assert!(shown.contains(&"sink 32") && shown.contains(&"source 33") && !shown.contains(&"source 34"));
    }

    #[test]
    fn text_is_wrapped_at_spaces_and_cut() {
        assert_eq!(wrapped("project [a, b]"), ["project [a, b]"]);
        let long = wrapped(&"word ".repeat(100));
        assert_eq!(long.len(), LINES_OF_STEP);
        assert!(long[0].len() <= PLACES && long[0].ends_with("word") && long[2].ends_with('…'));
        let wide = wrapped(&"語".repeat(200));
        assert!(wide.iter().all(|line| places(line) <= PLACES), "{wide:?}");
        assert_eq!(wrapped(""), [""]);
    }

    #[test]
    fn xml_has_no_markup_and_no_control_characters() {
        assert_eq!(escaped("a < \"b\" & c > d\u{1b}\u{FFFE}"), "a &lt; &quot;b&quot; &amp; c &gt; d\u{FFFD}\u{FFFD}");
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let nodes = [(Kind::Source, 3), (Kind::Pipeline, 7), (Kind::Pipeline, 8)];
        assert_eq!(left_out(&nodes).as_deref(), Some("left out: 1 source, 2 pipelines; EXPLAIN has them"));
        assert_eq!(left_out(&[]), None);
    }
}
