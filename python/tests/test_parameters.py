"""Values of the program in a script."""

import datetime
import decimal
import enum
from typing import Any

import millstream as ms
import numpy
import pandas as pd
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
        ("SELECT ?", [1, 2], "uses 1 of 2 parameters"),
        ("SELECT $x", {"y": 1}, "`\\$x` has no value"),
        ("SELECT ?", {"y": 1}, "has no name"),
    ],
)
def test_what_does_not_fit(con: ms.Session, script: str, parameters: Any, message: str) -> None:
    with pytest.raises(ms.errors.ConfigurationError, match=message):
        con.sql(script, parameters)


class Shown(int):
    def __str__(self) -> str:
        return "1 OR TRUE"

    __repr__ = __str__


class Colour(enum.IntEnum):
    RED = 1


class Money(decimal.Decimal):
    def __format__(self, *_: object) -> str:
        return "(SELECT 5)"


def test_subclasses_do_not_say_what_stands_in_the_query(con: ms.Session) -> None:
    assert con.sql("SELECT ?, ?, ?", [Shown(7), Colour.RED, Money("1.5")]).fetchall() == [(7, 1, decimal.Decimal("1.5"))]


def test_times_of_numpy_and_pandas(con: ms.Session) -> None:
    values = [numpy.datetime64("2020-01-01", "ns"), numpy.timedelta64(5_000_000, "ns"), numpy.datetime64("NaT", "ns"), pd.NaT, pd.Timestamp("2020-01-02")]
    expected = (datetime.datetime(2020, 1, 1), datetime.timedelta(milliseconds=5), None, None, datetime.datetime(2020, 1, 2))
    assert con.sql("SELECT ?, ?, ?, ?, ?", values).fetchall() == [expected]


@pytest.mark.parametrize(
    "value",
    [
        numpy.longdouble(1),
        numpy.timedelta64(5, "ns"),
        datetime.timedelta(microseconds=1500),
        datetime.time(microsecond=1),
        datetime.datetime(2020, 1, 1, microsecond=1, tzinfo=datetime.timezone.utc),
    ],
)
def test_what_would_lose_digits_is_refused(con: ms.Session, value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        con.sql("SELECT ?", [value])


def test_lists_in_themselves(con: ms.Session) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="nested"):
        con.sql("SELECT ?", [endless])


def test_secrets_are_masked(con: ms.Session) -> None:
    with pytest.raises(ms.Error) as caught:
        con.execute(
            "CREATE TABLE t (n INT) WITH ('connector' = 'kafka', 'properties.sasl.password' = ?, 'topic' = 'x', 'nonsense' = ?)",
            ["hunter3secret", "hunter3secret"],
        )
    assert "hunter3secret" not in str(caught.value)


@pytest.mark.parametrize("value", [object(), {1, 2}, decimal.Decimal("NaN")])
def test_values_that_sql_does_not_have(con: ms.Session, value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        con.sql("SELECT ?", [value])
    with pytest.raises(TypeError):
        con.sql("SELECT ?", "text")  # a sequence, but of characters
