//! GROUPING SETS, ROLLUP and CUBE: which sets of keys a GROUP BY stands for.
//!
//! The elements of GROUP BY combine: `GROUP BY w, ROLLUP (a, b)` is the sets `(w, a, b)`, `(w, a)` and `(w)`. Each set
//! becomes a separate aggregation over the same input, and their union is the result.

use super::place::{error, span_of, unsupported};
use millstream_plan::expr::Span;
use millstream_types::{Diagnostic, code};
use sqlparser::ast;

/// More sets than this are refused: each is an aggregation.
const MAX_SETS: usize = 256;

/// The keys of one set, as written.
pub(super) type KeySet<'a> = Vec<&'a ast::Expr>;

/// Whether a GROUP BY has an element that stands for several sets of keys.
pub(super) fn has_sets(group_by: &ast::GroupByExpr) -> bool {
    match group_by {
        ast::GroupByExpr::All(_) => false,
        ast::GroupByExpr::Expressions(elements, modifiers) => {
            !modifiers.is_empty() || elements.iter().any(stands_for_sets)
        }
    }
}

fn stands_for_sets(element: &ast::Expr) -> bool {
    matches!(element, ast::Expr::GroupingSets(_) | ast::Expr::Rollup(_) | ast::Expr::Cube(_))
}

/// The sets that a GROUP BY stands for; one, which may be empty, unless it [`has_sets`].
pub(super) fn sets(group_by: &ast::GroupByExpr) -> Result<Vec<KeySet<'_>>, Diagnostic> {
    // The keys of ALL are those of the select list.
    let (elements, modifiers): (&[ast::Expr], _) = match group_by {
        ast::GroupByExpr::All(modifiers) => (&[], modifiers),
        ast::GroupByExpr::Expressions(elements, modifiers) => (elements, modifiers),
    };
    let place = span_of(group_by);
    let mut sets: Vec<KeySet<'_>> = vec![vec![]];
    for element in elements {
        sets = combine(sets, alternatives(element)?, place)?;
    }
    for modifier in modifiers {
        match modifier {
            ast::GroupByWithModifier::GroupingSets(element) => sets = combine(sets, alternatives(element)?, place)?,
            other => {
                let message = format!("Flink SQL has no GROUP BY … {other}");
                return Err(error(code::SYNTAX, place, message).advise("write ROLLUP (a, b) or CUBE (a, b)"));
            }
        }
    }
    Ok(sets)
}

fn combine<'a>(
    sets: Vec<KeySet<'a>>,
    alternatives: Vec<KeySet<'a>>,
    place: Span,
) -> Result<Vec<KeySet<'a>>, Diagnostic> {
    if sets.len().saturating_mul(alternatives.len()) > MAX_SETS {
        return Err(unsupported(&format!("more than {MAX_SETS} grouping sets"), place, "write fewer sets"));
    }
    let both = |set: &KeySet<'a>, more: &KeySet<'a>| set.iter().chain(more).copied().collect();
    Ok(sets.iter().flat_map(|set| alternatives.iter().map(move |more| both(set, more))).collect())
}

/// The sets of one element.
fn alternatives(element: &ast::Expr) -> Result<Vec<KeySet<'_>>, Diagnostic> {
    Ok(match element {
        ast::Expr::GroupingSets(sets) => {
            let mut all = Vec::new();
            for set in sets {
                // A set may itself be a ROLLUP or CUBE.
                match set.as_slice() {
                    [inner] if stands_for_sets(inner) => all.extend(alternatives(inner)?),
                    keys => all.push(flat(keys)),
                }
            }
            all
        }
        ast::Expr::Rollup(parts) => {
            (0..=parts.len()).rev().map(|n| parts[..n].iter().flat_map(|p| flat(p)).collect()).collect()
        }
        ast::Expr::Cube(parts) => {
            if parts.len() >= usize::BITS as usize || 1usize << parts.len() > MAX_SETS {
                let feature = format!("more than {MAX_SETS} grouping sets");
                return Err(unsupported(&feature, span_of(element), "write fewer columns in CUBE"));
            }
            let chosen = |bits: usize| {
                let among = parts.iter().enumerate().filter(move |(i, _)| bits >> (parts.len() - 1 - i) & 1 == 1);
                among.flat_map(|(_, part)| flat(part)).collect()
            };
            (0..1usize << parts.len()).rev().map(chosen).collect()
        }
        key => vec![keys_of(key)],
    })
}

/// The keys of an element without sets: a row of keys is its keys.
fn keys_of(element: &ast::Expr) -> KeySet<'_> {
    match element {
        ast::Expr::Nested(inner) => keys_of(inner),
        ast::Expr::Tuple(parts) => parts.iter().flat_map(keys_of).collect(),
        key => vec![key],
    }
}

fn flat(parts: &[ast::Expr]) -> KeySet<'_> {
    parts.iter().flat_map(keys_of).collect()
}
