"""filter, limit, expressions."""

import datetime
import decimal
from typing import Any

import millstream as ms
import pytest
from millstream import call, col, lit, when


@pytest.mark.parametrize(
    ("condition", "prices"),
    [
        (col("price") > 100, [120, 250]),
        ((col("price") >= 100) & ~(col("auction") == 2), [100, 120]),
        ((col("price") < 50) | (col("auction") != 1), [None, 10, 250]),
        (col("price").between(100, 120), [100, 120]),
        (col("price").is_in([10, 250]), [10, 250]),
        (col("price").is_null(), [None]),
        (col("price").is_not_null() & (col("price") % 100 == 0), [100]),
        (call("ABS", -col("price")) == 10, [10]),
        (100 < col("price"), [120, 250]),
        (when(col("auction") == 1).then(True).otherwise(False), [10, 100, 120]),
        (col("tags")[1] == "a", [100]),
        (col("ts") >= datetime.datetime(2026, 1, 1, 0, 0, 31), [10]),
    ],
)
def test_conditions(bid: ms.Relation, same: Any, condition: ms.Expression, prices: list[int | None]) -> None:
    assert same(bid.filter(condition).select("price")) == [(price,) for price in prices]


def test_several_conditions(bid: ms.Relation) -> None:
    assert bid.filter(col("price") > 50, col("auction") == 1).select("price").fetchall() == [(100,), (120,)]
    with pytest.raises(ValueError, match="condition"):
        bid.filter()


def test_limit(bid: ms.Relation, same: Any) -> None:
    assert len(same(bid.limit(2))) == 2


def test_values(con: ms.Session) -> None:
    values: list[Any] = [None, True, -5, 0.1, float("inf"), "it's", b"\x00\xff", decimal.Decimal("-1.50"), datetime.date(2020, 1, 2)]
    values += [datetime.time(1, 2, 3), datetime.datetime(2020, 1, 2, 3, 4, 5, 6000), datetime.timedelta(days=-1, milliseconds=1), [1, 2]]
    values += [datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)]
    row = con.sql("SELECT 1 AS one").select(**{f"c{i}": lit(value) for i, value in enumerate(values)}).fetchone()
    assert row == tuple(values)
    for value in (object(), {1}, decimal.Decimal("NaN")):
        with pytest.raises(TypeError):
            lit(value)


def test_casts_texts_and_choices(con: ms.Session) -> None:
    relation = con.sql("SELECT 'x1' AS s, ROW(1, 'a') AS r")
    row = relation.select(
        col("s").cast("INT", lenient=True).alias("a"),
        col("s").like("x%").alias("b"),
        when(col("s") == "y").then(1).when(col("s") == "x1").then(2).alias("c"),
        (1 - lit(3)).alias("d"),
        (2.0 / lit(4.0)).alias("e"),
        (3 * lit(2) + 7 % lit(4)).alias("f"),
    ).fetchone()
    assert row == (None, True, 2, -2, 0.5, 9)


def test_filters_in_a_row_are_one_step(bid: ms.Relation, same: Any) -> None:
    several = bid.filter(col("price") > 50).filter(col("auction") == 1, col("price") < 120).select("price")
    assert same(several) == [(100,)]
    assert several.to_sql().count("WHERE") == 1
    assert several.explain() == bid.filter(col("price") > 50, col("auction") == 1, col("price") < 120).select("price").explain()
    # What they are made of stays as it was.
    dear = bid.filter(col("price") > 100)
    dear.filter(col("auction") == 2)
    assert same(dear.select("price")) == [(120,), (250,)]
    long = bid
    for n in range(300):
        long = long.filter(col("price") != n + 11)
    assert same(long.select("price")) == [(10,)]
    with pytest.raises(ms.errors.QueryError, match=r"`prise` in filter\(\) at"):
        dear.filter(col("prise") > 1)


DATA_TYPES = [
    "BIGINT", "decimal(10,2)", "TIMESTAMP_LTZ(3)", "DOUBLE PRECISION", "CHAR(3)", "ARRAY<ARRAY<INT>>", "MAP<STRING, INT>",
    "ROW<a INT, `b--c` STRING>", "INTERVAL DAY TO SECOND", "INT NOT NULL", "INT -- a comment", "INT /* one */", "INT\n",
]


@pytest.mark.parametrize("data_type", DATA_TYPES)
def test_a_cast_has_any_type_of_sql(con: ms.Session, data_type: str) -> None:
    relation = con.sql("SELECT 1 AS one").select(x=lit(None).cast(data_type), y=lit(2))
    assert relation.fetchall() == [(None, 2)]
    assert relation.types[0] == con.sql(f"SELECT CAST(NULL AS {data_type}\n)").types[0]


@pytest.mark.parametrize("data_type", ["", "int64", "TEXT", "`INT`", "INT)", "INT) AS x, (1", "INT /*", "INT; DROP TABLE bid", "NULL", "'INT'"])
def test_a_cast_takes_nothing_else(data_type: str) -> None:
    for lenient in (False, True):
        with pytest.raises(ms.errors.QueryError) as caught:
            col("price").cast(data_type, lenient=lenient)
        assert caught.value.message.startswith(f"'{data_type}' is not a data type of Flink SQL in cast() at {__file__}:")
        assert caught.value.code == "MS2001" and caught.value.advice is not None and "BIGINT" in caught.value.advice
    with pytest.raises(TypeError, match="BIGINT"):
        col("price").cast(int)  # type: ignore[arg-type]


def test_an_expression_is_no_condition_of_python() -> None:
    with pytest.raises(TypeError, match="&"):
        bool(col("a") > 1)
    with pytest.raises(TypeError):
        {col("a")}
    assert repr(col("a") + 1) == "(`a` + 1)" and repr(col("a").alias("b")) == "`a` AS `b`"
    with pytest.raises(ValueError):
        call("1 OR")


def test_an_error_names_the_call(bid: ms.Relation) -> None:
    with pytest.raises(ms.errors.QueryError) as caught:
        bid.filter(col("prise") > 1)
    assert caught.value.code == "MS2003"
    assert "in filter() at" in str(caught.value) and "test_filter.py:" in str(caught.value)
    assert caught.value.advice is not None and "price" in caught.value.advice
    with pytest.raises(ms.errors.QueryError, match=r"in agg\(\) at"):
        bid.key_by("auctoin").agg(n=ms.count())
