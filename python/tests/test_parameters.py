"""Values of the program in a script."""

import datetime
import decimal
from typing import Any

import millstream as ms
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63) + 1, 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    st.binary(),
    st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31)),
    st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    st.datetimes(),
)


@given(VALUES)
def test_a_value_comes_back_as_it_is(value: Any) -> None:
    [(found,)] = ms.sql("SELECT ? AS v", [value]).fetchall()
    assert found == value and type(found) is type(value)


def test_names_positions_and_types(con: ms.Session) -> None:
    assert con.sql("SELECT $a + $b, $a", {"a": 1, "b": 2}).fetchall() == [(3, 1)]
    assert con.sql("SELECT $2, $1", ["x", "y"]).fetchall() == [("y", "x")]
    values = [
        decimal.Decimal("-12.50"),
        datetime.timedelta(days=-1, milliseconds=1),
        datetime.datetime(2020, 1, 2, 3, 4, 5, 6_000, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
        [1, 2, None],
        numpy.int32(7),
        numpy.float64(0.5),
    ]
    assert con.sql("SELECT ?, ?, ?, ?, ?, ?", values).fetchall() == [tuple(values)]
    assert con.sql("SELECT * FROM (VALUES (1), (2), (3)) AS t (n) LIMIT ?", [2]).fetchall() == [(1,), (2,)]


def test_a_text_is_never_sql(con: ms.Session) -> None:
    text = "'; DROP TABLE t; -- ${HOME} `"
    assert con.sql("SELECT ? AS s", [text]).fetchall() == [(text,)]


@pytest.mark.parametrize(
    ("script", "parameters", "message"),
    [
        ("SELECT ?", [], "parameter 1 has no value"),
        ("SELECT ?", [1, 2], "2 parameters are given"),
        ("SELECT $x", {"y": 1}, "`\\$x` has no value"),
        ("SELECT ?", {"y": 1}, "has no name"),
    ],
)
def test_what_does_not_fit(con: ms.Session, script: str, parameters: Any, message: str) -> None:
    with pytest.raises(ms.errors.ConfigurationError, match=message):
        con.sql(script, parameters)


@pytest.mark.parametrize("value", [object(), {1, 2}, decimal.Decimal("NaN")])
def test_values_that_sql_does_not_have(con: ms.Session, value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        con.sql("SELECT ?", [value])
    with pytest.raises(TypeError):
        con.sql("SELECT ?", "text")  # a sequence, but of characters
