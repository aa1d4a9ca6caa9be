"""Operators with as few parentheses as they need, and many of them."""

import functools
import operator
from typing import Any

import millstream as ms
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from millstream import Expression, col, lit

from .test_chains import EXAMPLES

SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "%": operator.mod}
WORDS = {"AND": operator.and_, "OR": operator.or_}

CON = ms.connect(settings={"pipeline.tier": "interpret"})
NUMBERS = CON.table(pa.table({"a": [7], "b": [3], "c": [2]}))
#: TRUE, FALSE and NULL for each.
LOGIC = [True, False, None]
CONDITIONS = CON.table(pl.DataFrame([(p, q, r) for p in LOGIC for q in LOGIC for r in LOGIC], schema=["p", "q", "r"], orient="row"))

#: An expression, and its text with parentheses everywhere.
Pair = tuple[Expression, str]


@st.composite
def numbers(draw: Any, depth: int = 4) -> Pair:
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        name = draw(st.sampled_from("abc"))
        return col(name), f"`{name}`"
    (one, one_text), (other, other_text) = draw(numbers(depth - 1)), draw(numbers(depth - 1))
    sign = draw(st.sampled_from([*SIGNS, "="]))
    if sign == "=":
        # Something that is no chain between two.
        return ms.call("ABS", one) + other, f"(ABS({one_text}) + {other_text})"
    return SIGNS[sign](one, other), f"({one_text} {sign} {other_text})"


@st.composite
def conditions(draw: Any, depth: int = 4) -> Pair:
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        name = draw(st.sampled_from("pqr"))
        return col(name), f"`{name}`"
    (one, one_text), (other, other_text) = draw(conditions(depth - 1)), draw(conditions(depth - 1))
    word = draw(st.sampled_from([*WORDS, "NOT", "="]))
    if word == "NOT":
        return ~one, f"(NOT {one_text})"
    made = one == other if word == "=" else WORDS[word](one, other)
    return made, f"({one_text} {word} {other_text})"


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(numbers())
def test_arithmetic_has_the_plan_that_parentheses_give_it(pair: Pair) -> None:
    made, text = pair
    assert NUMBERS.select(x=made).explain() == NUMBERS.select(x=Expression(text)).explain()


@settings(max_examples=EXAMPLES // 3, deadline=None, suppress_health_check=list(HealthCheck))
@given(conditions())
def test_conditions_have_the_values_that_parentheses_give_them(pair: Pair) -> None:
    made, text = pair
    rows = CONDITIONS.select("p", "q", "r", made=made, text=Expression(text)).fetchall()
    assert len(rows) == 27 and all(row[3] is row[4] for row in rows)


def test_parentheses_are_where_they_are_needed() -> None:
    a, b, c = col("a"), col("b"), col("c")
    assert repr(a + b - c + 1) == "(`a` + `b` - `c` + 1)"
    assert repr(a - (b - c)) == "(`a` - (`b` - `c`))" and repr(a + (b + c)) == "(`a` + (`b` + `c`))"
    assert repr(a * b / c % 2) == "(`a` * `b` / `c` % 2)" and repr(a * (b / c)) == "(`a` * (`b` / `c`))"
    assert repr(a + b * c) == "(`a` + (`b` * `c`))" and repr((a + b) * c) == "((`a` + `b`) * `c`)"
    assert repr(1 - a - -2) == "(1 - `a` - (-2))" and repr(sum([a, b, c])) == "(0 + `a` + `b` + `c`)"
    assert repr((a > b) & (b > c) & c) == "((`a` > `b`) AND (`b` > `c`) AND `c`)"
    assert repr(a & (b & c)) == "(`a` AND `b` AND `c`)" and repr((a | b) | (c | a)) == "(`a` OR `b` OR `c` OR `a`)"
    assert repr((a & b) | c) == "((`a` AND `b`) OR `c`)" and repr(~(a & b)) == "(NOT (`a` AND `b`))"
    assert repr((a < b) < c) == "((`a` < `b`) < `c`)" and repr(-(a + b)) == "(- (`a` + `b`))"
    # A name changes nothing, and what was made is not changed by what is made of it.
    both = (a + b).alias("both")
    assert repr(both + c) == "(`a` + `b` + `c`)" and repr(both) == "(`a` + `b`) AS `both`"


COLUMNS = [f"c{n}" for n in range(100)]
WIDE = CON.table(pa.table({name: [n] for n, name in enumerate(COLUMNS)}))


def terms(count: int) -> list[Expression]:
    return [col(COLUMNS[n % 100]) for n in range(count)]


@pytest.mark.parametrize("count", [100, 900])
def test_many_numbers(count: int) -> None:
    added, taken = functools.reduce(operator.add, terms(count)), functools.reduce(operator.sub, terms(count))
    products = sum(term * 2 for term in terms(count))
    assert isinstance(products, Expression)
    assert WIDE.select(added, taken, products).fetchall() == [(49.5 * count, -49.5 * count, 99 * count)]


@pytest.mark.parametrize("count", [200, 1000, 3000])
def test_many_conditions(count: int) -> None:
    holds = [term >= n % 100 for n, term in enumerate(terms(count))]
    fails = [~condition for condition in holds]
    # One that decides is the last one.
    for conditions, word, value in [
        (holds, operator.and_, True), ([*holds, fails[0]], operator.and_, False),
        (fails, operator.or_, False), ([*fails, holds[0]], operator.or_, True),
    ]:
        from_left = functools.reduce(word, conditions)
        from_right = functools.reduce(lambda made, condition: word(condition, made), reversed(conditions))
        assert repr(from_left) == repr(from_right)
        assert WIDE.select(x=from_left).fetchall() == [(value,)]
    assert len(WIDE.filter(*holds).fetchall()) == 1


def test_too_many_numbers_are_an_error() -> None:
    with pytest.raises(ms.errors.QueryError, match=r"more than 1000 operators in select\(\) at .*test_operators.py"):
        WIDE.select(x=sum(terms(2000), lit(0)))
