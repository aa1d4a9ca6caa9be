//! Knots: strongly connected components of modules, and what would untie them.

use super::arrows::Graph;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Arrows by their ends.
type Arrows = BTreeSet<(usize, usize)>;

/// The components of `count` nodes, the largest first (Tarjan 1972).
pub fn components(count: usize, arrows: &Arrows) -> Vec<Vec<usize>> {
    let mut search = Search { targets: vec![Vec::new(); count], ..Search::default() };
    arrows.iter().for_each(|(from, to)| search.targets[*from].push(*to));
    search.order = vec![None; count];
    search.lowest = vec![0; count];
    search.is_open = vec![false; count];
    (0..count).for_each(|node| search.visit(node));
    search.found.sort_by_key(|c| (Reverse(c.len()), c[0]));
    search.found
}

#[derive(Default)]
struct Search {
    targets: Vec<Vec<usize>>,
    order: Vec<Option<usize>>,
    lowest: Vec<usize>,
    is_open: Vec<bool>,
    stack: Vec<usize>,
    next: usize,
    found: Vec<Vec<usize>>,
}

impl Search {
    fn visit(&mut self, node: usize) {
        if self.order[node].is_some() {
            return;
        }
        let own = self.next;
        self.next += 1;
        self.order[node] = Some(own);
        self.lowest[node] = own;
        self.is_open[node] = true;
        self.stack.push(node);
        for target in self.targets[node].clone() {
            self.visit(target);
            if self.is_open[target] {
                self.lowest[node] = self.lowest[node].min(self.lowest[target]);
            }
        }
        if self.lowest[node] == own {
            let at = self.stack.iter().position(|n| *n == node).expect("it was pushed");
            let mut component = self.stack.split_off(at);
            component.iter().for_each(|n| self.is_open[*n] = false);
            component.sort_unstable();
            self.found.push(component);
        }
    }
}

impl Graph {
    /// The components, the largest first.
    pub fn components(&self) -> Vec<Vec<usize>> {
        components(self.modules.len(), &self.arrows.keys().copied().collect())
    }

    /// The arrows within a component.
    pub fn within(&self, component: &[usize]) -> Arrows {
        let has = |n: &usize| component.binary_search(n).is_ok();
        self.arrows.keys().filter(|(from, to)| has(from) && has(to)).copied().collect()
    }

    /// Few arrows without which no part of a component is larger than `limit`; those that untie most come first, each with
    /// the size of the largest part that is left.
    pub fn cuts(&self, component: &[usize], limit: usize) -> Vec<((usize, usize), usize)> {
        let mut left = self.within(component);
        // The search ends where no single move makes it better: it begins in several places.
        let starts = (0..component.len()).map(|by| {
            let mut order = component.to_vec();
            order.rotate_left(by);
            self.untying(order, &left, limit)
        });
        let names = |cuts: &Vec<_>| -> usize { cuts.iter().map(|cut| self.arrows[cut].len()).sum() };
        let mut found = starts.min_by_key(|cuts| (cuts.len(), names(cuts))).unwrap_or_default();
        let mut cuts = Vec::new();
        while !found.is_empty() {
            let squares = |cut: &(usize, usize)| -> usize {
                let mut rest = left.clone();
                rest.remove(cut);
                self.parts(&rest).iter().map(|c| c.len() * c.len()).sum()
            };
            let best = (0..found.len()).min_by_key(|i| squares(&found[*i])).expect("some are left");
            let cut = found.remove(best);
            left.remove(&cut);
            cuts.push((cut, self.parts(&left)[0].len()));
        }
        cuts
    }

    fn parts(&self, arrows: &Arrows) -> Vec<Vec<usize>> {
        components(self.modules.len(), arrows)
    }

    /// Those of the arrows against an order without which no part is larger than `limit`.
    fn untying(&self, order: Vec<usize>, arrows: &Arrows, limit: usize) -> Vec<(usize, usize)> {
        let mut against = self.against(order, arrows);
        let mut left: Arrows = arrows.iter().filter(|arrow| !against.contains(arrow)).copied().collect();
        // Without all of these nothing is a knot; what does no harm may stay, that which names most items first.
        against.sort_by_key(|arrow| Reverse(self.arrows[arrow].len()));
        against.retain(|arrow| {
            left.insert(*arrow);
            let is_harmful = self.parts(&left)[0].len() > limit;
            if is_harmful {
                left.remove(arrow);
            }
            is_harmful
        });
        against
    }

    /// The arrows against an order of the modules, which is made better first: modules move within it for as long as that
    /// makes the items fewer that are named against it.
    fn against(&self, mut order: Vec<usize>, arrows: &Arrows) -> Vec<(usize, usize)> {
        while let Some((from, to)) = (0..order.len()).find_map(|at| self.better(&order, at)) {
            let node = order.remove(from);
            order.insert(to, node);
        }
        let place: BTreeMap<usize, usize> = order.iter().enumerate().map(|(place, node)| (*node, place)).collect();
        arrows.iter().filter(|(from, to)| place[from] > place[to]).copied().collect()
    }

    /// The best move of the module at a place, if one is better than none.
    fn better(&self, order: &[usize], at: usize) -> Option<(usize, usize)> {
        let weight = |from: usize, to: usize| self.arrows.get(&(from, to)).map_or(0, |items| items.len() as isize);
        // What a move behind another module changes; before it, the opposite.
        let behind = |other: &usize| weight(order[at], *other) - weight(*other, order[at]);
        let (mut best, mut sum) = ((0, at), 0);
        for (to, other) in order.iter().enumerate().skip(at + 1) {
            sum += behind(other);
            best = best.min((sum, to));
        }
        sum = 0;
        for (to, other) in order[..at].iter().enumerate().rev() {
            sum -= behind(other);
            best = best.min((sum, to));
        }
        (best.0 < 0).then_some((at, best.1))
    }
}
