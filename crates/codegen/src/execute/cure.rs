//! What to write instead of an expression that has failed, from its text.

use millstream_types::{Code, code};

/// What to do about an expression `what` that has failed with `code`; nothing when its text does not say enough.
pub(super) fn cure(failed: Code, what: &str, message: &str) -> Option<String> {
    match failed {
        code::DIVISION_BY_ZERO => {
            let divisor = divisor(what)?;
            let inner = divisor.strip_prefix('(').and_then(|d| d.strip_suffix(')')).filter(|d| !d.contains('('));
            Some(format!(
                "write NULLIF({}, 0) instead of {divisor}: the result is NULL where the divisor is 0",
                inner.unwrap_or(divisor)
            ))
        }
        code::INVALID_CAST => {
            let (operand, target) = cast(what)?;
            Some(match operand.starts_with('\'') {
                true => {
                    let article = if target.starts_with('I') { "an" } else { "a" };
                    format!(
                        "write a constant that is {article} {target} instead of {operand}, or TRY_CAST({operand} AS {target}) for NULL"
                    )
                }
                false => format!("write TRY_CAST({operand} AS {target}): it gives NULL for what cannot be cast"),
            })
        }
        code::NULL_IN_NOT_NULL => {
            let column = what.strip_prefix("column ")?.split(' ').next()?;
            Some(format!(
                "write COALESCE(x, '…') in the query for what may be NULL, leave such rows out with WHERE x IS NOT NULL, or declare \
                 `{column}` without NOT NULL"
            ))
        }
        code::FUNCTION_FAILED if message.contains("where a value is one row") => Some(
            "have the subquery give one row: an aggregate such as MAX(x), or WHERE on a key; LIMIT 1 takes any".into(),
        ),
        code::OVERFLOW => {
            Some("compute in a wider type: CAST(x AS BIGINT), CAST(x AS DECIMAL(38, 0)) or CAST(x AS DOUBLE)".into())
        }
        _ => None,
    }
}

/// The right operand of a quotient or a remainder, without the cast that it was given.
fn divisor(what: &str) -> Option<&str> {
    let inner = what.strip_prefix('(')?.strip_suffix(')')?;
    let mut depth = 0;
    for (at, c) in inner.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            '/' | '%' if depth == 0 => {
                let right = inner[at + 1..].trim();
                return Some(cast(right).map_or(right, |(operand, _)| operand));
            }
            _ => {}
        }
    }
    None
}

/// Operand and type of `CAST(x AS t)`.
fn cast(what: &str) -> Option<(&str, &str)> {
    what.strip_prefix("CAST(")?.strip_suffix(')')?.rsplit_once(" AS ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cure_is_made_of_the_expression() {
        let of = |code, what| cure(code, what, "").unwrap_or_default();
        let quotient = "(price / CAST((bidder - 7) AS DECIMAL(19, 0)))";
        assert!(of(code::DIVISION_BY_ZERO, quotient).starts_with("write NULLIF(bidder - 7, 0)"));
        assert!(of(code::DIVISION_BY_ZERO, "(a % b)").starts_with("write NULLIF(b, 0)"));
        assert!(of(code::INVALID_CAST, "CAST(x AS INT)").starts_with("write TRY_CAST(x AS INT)"));
        assert!(of(code::INVALID_CAST, "CAST('x' AS INT)").contains("an INT instead of 'x'"));
        assert_eq!(cure(code::INVALID_CAST, "an expression", ""), None);
    }
}
