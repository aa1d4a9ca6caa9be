//! Where the boxes of a graph without cycles are, and how its edges run between them.
//!
//! Boxes stand in layers, each below all that it follows from (Sugiyama, Tagawa and Toda, 1981): an edge through several layers has an empty
//! slot in those between, so that it crosses no box. The slots of a layer are ordered by where their neighbours are, and moved below them.

/// Pixels between boxes of a layer.
const GAP_ACROSS: f64 = 26.0;
/// Pixels between layers, in which edges run aside.
const GAP_DOWN: f64 = 44.0;
/// Pixels that an edge takes between boxes.
const EDGE: f64 = 8.0;
/// How often the slots are ordered and moved, down and up again.
const SWEEPS: usize = 6;

/// Width and height of a box, in pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A point: to the right, and down.
pub(super) type Point = (f64, f64);

/// Places, within a rectangle from (0, 0).
#[derive(Debug)]
pub(super) struct Layout {
    /// Left upper corners of the boxes.
    pub(super) places: Vec<Point>,
    /// A route for each edge. It runs down from a point of even number to the next, and aside to the one after that.
    pub(super) routes: Vec<Vec<Point>>,
    pub(super) size: Size,
}

/// A place in a layer: of a box, or of an edge that goes through.
struct Slot {
    layer: usize,
    size: Size,
    x: f64,
    above: Vec<usize>,
    below: Vec<usize>,
}

impl Slot {
    fn middle(&self) -> f64 {
        self.x + self.size.width / 2.0
    }
}

/// Lays out boxes of these sizes. Edges are pairs of boxes, and have no cycles.
pub(super) fn layout(sizes: &[Size], edges: &[(usize, usize)]) -> Layout {
    let layers = layers(sizes.len(), edges);
    let box_slot =
        |(i, size): (usize, &Size)| Slot { layer: layers[i], size: *size, x: 0.0, above: vec![], below: vec![] };
    let mut slots: Vec<Slot> = sizes.iter().enumerate().map(box_slot).collect();
    // The slots of each edge, its boxes among them.
    let mut paths = Vec::new();
    for &(from, to) in edges {
        let mut path = vec![from];
        for layer in layers[from] + 1..layers[to] {
            path.push(slots.len());
            slots.push(Slot { layer, size: Size { width: EDGE, height: 0.0 }, x: 0.0, above: vec![], below: vec![] });
        }
        path.push(to);
        for pair in path.windows(2) {
            slots[pair[0]].below.push(pair[1]);
            slots[pair[1]].above.push(pair[0]);
        }
        paths.push(path);
    }
    let depth = layers.iter().max().map_or(0, |last| last + 1);
    let mut rows: Vec<Vec<usize>> = vec![vec![]; depth];
    for (slot, Slot { layer, .. }) in slots.iter().enumerate() {
        rows[*layer].push(slot);
    }
    rows.iter().for_each(|row| pack(row, &mut slots));
    for _ in 0..SWEEPS {
        for row in &mut rows {
            order(row, &mut slots, |slot| &slot.above);
        }
        for row in rows.iter_mut().rev() {
            order(row, &mut slots, |slot| &slot.below);
        }
    }
    for _ in 0..SWEEPS {
        rows.iter().for_each(|row| attract(row, &mut slots, |slot| &slot.above));
        rows.iter().rev().for_each(|row| attract(row, &mut slots, |slot| &slot.below));
    }
    let left = slots.iter().map(|slot| slot.x).fold(f64::INFINITY, f64::min);
    slots.iter_mut().for_each(|slot| slot.x -= left);
    placed(sizes, &slots, &rows, &paths)
}

/// The layer of each box: one more than the last of those that it follows.
fn layers(boxes: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut layers = vec![0; boxes];
    // A path visits each box once at most.
    for _ in 0..boxes {
        let mut is_settled = true;
        for &(from, to) in edges {
            if layers[to] <= layers[from] {
                (layers[to], is_settled) = (layers[from] + 1, false);
            }
        }
        if is_settled {
            break;
        }
    }
    layers
}

/// Puts the slots of a layer beside each other.
fn pack(row: &[usize], slots: &mut [Slot]) {
    let mut x = 0.0;
    for &slot in row {
        slots[slot].x = x;
        x += slots[slot].size.width + GAP_ACROSS;
    }
}

/// The mean middle of a slot's neighbours; its own without any.
fn aim(slot: &Slot, slots: &[Slot], neighbours: fn(&Slot) -> &Vec<usize>) -> f64 {
    let near = neighbours(slot);
    match near.len() {
        0 => slot.middle(),
        count => near.iter().map(|&i| slots[i].middle()).sum::<f64>() / count as f64,
    }
}

/// Orders the slots of a layer by where their neighbours are.
fn order(row: &mut [usize], slots: &mut [Slot], neighbours: fn(&Slot) -> &Vec<usize>) {
    let aims: Vec<f64> = slots.iter().map(|slot| aim(slot, slots, neighbours)).collect();
    row.sort_by(|&a, &b| aims[a].total_cmp(&aims[b]));
    pack(row, slots);
}

/// Moves the slots of a layer to where their neighbours are, as far as they leave room for each other.
fn attract(row: &[usize], slots: &mut [Slot], neighbours: fn(&Slot) -> &Vec<usize>) {
    let wanted: Vec<f64> = row.iter().map(|&i| aim(&slots[i], slots, neighbours) - slots[i].size.width / 2.0).collect();
    // As far to the left as each may be, and as far to the right: both leave room, and so does what is between them.
    let mut rightmost = wanted.clone();
    for k in 1..row.len() {
        rightmost[k] = rightmost[k].max(rightmost[k - 1] + slots[row[k - 1]].size.width + GAP_ACROSS);
    }
    let mut leftmost = wanted;
    for k in (1..row.len()).rev() {
        leftmost[k - 1] = leftmost[k - 1].min(leftmost[k] - slots[row[k - 1]].size.width - GAP_ACROSS);
    }
    for (k, &slot) in row.iter().enumerate() {
        slots[slot].x = f64::midpoint(leftmost[k], rightmost[k]);
    }
}

/// The layout of slots that have been moved.
fn placed(sizes: &[Size], slots: &[Slot], rows: &[Vec<usize>], paths: &[Vec<usize>]) -> Layout {
    let mut tops = Vec::new();
    let mut bottom = 0.0;
    for row in rows {
        let height = row.iter().map(|&slot| slots[slot].size.height).fold(0.0, f64::max);
        tops.push((bottom, bottom + height));
        bottom += height + GAP_DOWN;
    }
    let places: Vec<Point> = (0..sizes.len()).map(|i| (slots[i].x, tops[slots[i].layer].0)).collect();
    let width = slots.iter().map(|slot| slot.x + slot.size.width).fold(0.0, f64::max);
    // Edges leave and enter a box side by side, in the order of where they come from.
    let port = |slot: usize, edge: usize, at: fn(&[usize]) -> (usize, usize)| {
        let mut mine: Vec<usize> = (0..paths.len()).filter(|&e| at(&paths[e]).0 == slot).collect();
        mine.sort_by(|&a, &b| slots[at(&paths[a]).1].middle().total_cmp(&slots[at(&paths[b]).1].middle()));
        let place = mine.iter().position(|&e| e == edge).unwrap_or(0);
        slots[slot].x + slots[slot].size.width * (place + 1) as f64 / (mine.len() + 1) as f64
    };
    let route = |(edge, path): (usize, &Vec<usize>)| {
        let (first, last) = (path[0], path[path.len() - 1]);
        let leaves = port(first, edge, |path| (path[0], path[1]));
        let enters = port(last, edge, |path| (path[path.len() - 1], path[path.len() - 2]));
        let (top, below) = tops[slots[first].layer];
        let mut points = vec![(leaves, top + slots[first].size.height), (leaves, below)];
        for &slot in &path[1..path.len() - 1] {
            let (top, below) = tops[slots[slot].layer];
            points.extend([(slots[slot].middle(), top), (slots[slot].middle(), below)]);
        }
        points.push((enters, tops[slots[last].layer].0));
        points
    };
    let routes = paths.iter().enumerate().map(route).collect();
    Layout { places, routes, size: Size { width, height: (bottom - GAP_DOWN).max(0.0) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of numbers from a seed.
    fn numbers(mut seed: u64) -> impl FnMut(usize) -> usize {
        move |below| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        }
    }

    #[test]
    fn boxes_do_not_overlap_and_edges_cross_none() {
        for seed in 0..60 {
            let mut next = numbers(seed);
            let count = 1 + next(40);
            let sizes: Vec<Size> =
                (0..count).map(|_| Size { width: 60.0 + next(300) as f64, height: 20.0 + next(150) as f64 }).collect();
            let edges: Vec<(usize, usize)> =
                (1..count).flat_map(|to| (0..next(4)).map(|_| (next(to), to)).collect::<Vec<_>>()).collect();
            check(&sizes, &edges);
        }
    }

    fn check(sizes: &[Size], edges: &[(usize, usize)]) {
        let layout = layout(sizes, edges);
        let (width, height) = (layout.size.width, layout.size.height);
        let boxes: Vec<[f64; 4]> =
            layout.places.iter().zip(sizes).map(|(&(x, y), s)| [x, y, x + s.width, y + s.height]).collect();
        for (i, a) in boxes.iter().enumerate() {
            assert!(a[0] >= 0.0 && a[1] >= 0.0 && a[2] <= width + 1e-6 && a[3] <= height + 1e-6, "{a:?} is outside");
            for b in &boxes[..i] {
                let is_apart = a[2] < b[0] || b[2] < a[0] || a[3] < b[1] || b[3] < a[1];
                assert!(is_apart, "{a:?} and {b:?} overlap");
            }
        }
        assert_eq!(layout.routes.len(), edges.len());
        for (route, &(from, to)) in layout.routes.iter().zip(edges) {
            let (start, end) = (route[0], route[route.len() - 1]);
            assert!(boxes[from][0] <= start.0 && start.0 <= boxes[from][2] && start.1 == boxes[from][3]);
            assert!(boxes[to][0] <= end.0 && end.0 <= boxes[to][2] && end.1 == boxes[to][1]);
            for down in route.chunks_exact(2) {
                assert!(down[0].0 == down[1].0 && down[0].1 <= down[1].1);
                let crossed =
                    |b: &[f64; 4]| b[0] < down[0].0 && down[0].0 < b[2] && b[1] < down[1].1 && down[0].1 < b[3];
                assert!(!boxes.iter().any(crossed), "{route:?} crosses a box");
            }
            for aside in route[1..].chunks_exact(2) {
                let crossed = |b: &[f64; 4]| b[1] < aside[1].1 && aside[0].1 < b[3];
                assert!(!boxes.iter().any(crossed), "{route:?} runs aside beside a box");
            }
        }
    }

    #[test]
    fn a_chain_is_straight() {
        let sizes = [100.0, 300.0, 50.0].map(|width| Size { width, height: 20.0 });
        let layout = layout(&sizes, &[(0, 1), (1, 2)]);
        let middles: Vec<f64> = layout.places.iter().zip(&sizes).map(|((x, _), s)| x + s.width / 2.0).collect();
        assert_eq!(middles, [150.0, 150.0, 150.0]);
        assert_eq!((layout.size.width, layout.size.height), (300.0, 20.0 * 3.0 + GAP_DOWN * 2.0));
    }
}
