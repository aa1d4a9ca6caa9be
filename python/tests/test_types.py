"""Arrow types in and out, and types of the package's own code."""

import datetime
import decimal
import os
import pathlib
import subprocess
import sys
from typing import Any

import millstream as ms
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
STRINGS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
BYTES = [pa.binary(), pa.large_binary(), pa.binary_view()]
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
#: Years that nanoseconds reach.
TIMES = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))


def columns() -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    def integer(data_type: pa.DataType) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
        bits, signed = data_type.bit_width, pa.types.is_signed_integer(data_type)
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        return data_type, st.integers(low, high)

    def time(unit: str, zone: str | None) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
        step = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}[unit]
        tz = datetime.timezone.utc if zone else None
        return pa.timestamp(unit, zone), TIMES.map(
            lambda t: t.replace(microsecond=t.microsecond // step * step if step < 1_000_000 else 0, tzinfo=tz)
        )

    plain = [
        (pa.bool_(), st.booleans()),
        (pa.float32(), st.floats(width=32, allow_nan=False)),
        (pa.float64(), st.floats(allow_nan=False)),
        (pa.date32(), st.dates()),
        (pa.time64("us"), st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))),
        (pa.duration("ms"), st.integers(-(10**12), 10**12).map(lambda n: datetime.timedelta(milliseconds=n))),
        (
            pa.decimal128(20, 3),
            st.integers(-(10**19), 10**19).map(lambda n: decimal.Decimal(n).scaleb(-3)),
        ),
        *[integer(data_type) for data_type in INTEGERS],
        *[(data_type, TEXT) for data_type in STRINGS],
        *[(data_type, st.binary()) for data_type in BYTES],
        *[time(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Europe/Berlin")],
    ]
    scalar = st.sampled_from(plain)

    def nested(
        inner: st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]],
    ) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
        lists = inner.map(lambda c: (pa.list_(c[0]), st.lists(st.none() | c[1], max_size=3)))
        large = inner.map(lambda c: (pa.large_list(c[0]), st.lists(c[1], max_size=3)))
        structs = st.tuples(inner, inner).map(
            lambda c: (
                pa.struct([("a", c[0][0]), ("b", c[1][0])]),
                st.fixed_dictionaries({"a": st.none() | c[0][1], "b": st.none() | c[1][1]}),
            )
        )
        return lists | large | structs

    return st.recursive(scalar, nested, max_leaves=3)


def expected(value: Any) -> Any:
    """What SQL makes of a value: an instant is in UTC, an unsigned number of 64 bits a DECIMAL."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.timezone.utc)
    if isinstance(value, list):
        return [expected(item) for item in value]
    if isinstance(value, dict):
        return {key: expected(item) for key, item in value.items()}
    return value


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_arrow_type_comes_out_as_it_went_in(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(columns(), min_size=1, max_size=3))
    rows = data.draw(st.integers(0, 5))
    arrays, values = [], []
    for data_type, strategy in chosen:
        column = data.draw(st.lists(st.none() | strategy, min_size=rows, max_size=rows))
        values.append([expected(value) for value in column])
        arrays.append(pa.array(column, data_type))
    frame = pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])
    relation = ms.sql("SELECT * FROM frame")
    assert relation.fetchall() == list(zip(*values, strict=True))
    assert [list(column.to_pylist()) for column in relation.to_arrow().columns] == values
    assert frame.num_rows == rows


def test_types_of_others(con: ms.Session) -> None:
    frame = pl.DataFrame({
        "e": pl.Series(["a", "b"], dtype=pl.Enum(["a", "b"])),
        "c": pl.Series(["a", "b"], dtype=pl.Categorical),
        "u": pl.Series([1, 2**64 - 1], dtype=pl.UInt64),
        "a": pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int8, 2)),
    })
    nothing = pa.table({"n": pa.nulls(1)})
    relation = con.sql("SELECT frame.*, n FROM frame, nothing")
    assert relation.types == ["STRING", "STRING", "DECIMAL(20, 0)", "ARRAY<TINYINT>", "STRING"]
    assert sorted(relation.fetchall()) == [("a", "a", 1, [1, 2], None), ("b", "b", 2**64 - 1, [3, 4], None)]
    assert frame.height == 2 and nothing.num_rows == 1


def test_columns_of_polars_without_a_type_are_texts(con: ms.Session) -> None:
    frame = pl.DataFrame(
        {
            "i": [1, 2], "n": [None, None], "l": [[], [None]], "s": [{"a": None, "b": 1}, None], "a": [[None, None], None],
            "d": [[{"x": [None]}], None],
        },
        schema_overrides={"n": pl.Null, "l": pl.List(pl.Null), "a": pl.Array(pl.Null, 2)},
    )
    schema = frame.schema
    relation = con.sql("SELECT * FROM frame")
    assert relation.types == [
        "BIGINT", "STRING", "ARRAY<STRING>", "ROW<`a` STRING, `b` BIGINT>", "ARRAY<STRING>", "ARRAY<ROW<`x` ARRAY<STRING>>>",
    ]
    assert relation.fetchall() == [
        (1, None, [], {"a": None, "b": 1}, [None, None], [{"x": [None]}]),
        (2, None, [None], None, None, None),
    ]
    empty = frame.clear()
    assert con.sql("SELECT n, l FROM empty").fetchall() == []
    assert frame.schema == schema

    @ms.udf(by="column", returns="STRING", arrow="polars")
    def nothing(column: pl.Series) -> pl.Series:
        return pl.Series([None] * len(column))

    con.register_function(nothing)
    con.register_source("made", lambda: [frame.select("i", "n")], {"i": "BIGINT", "n": "STRING"}, bounded=True)
    assert con.sql("SELECT i, n, nothing(i) FROM made").fetchall() == [(1, None, None), (2, None, None)]


ROOT = pathlib.Path(__file__).parents[2]
CONFIGURATION = str(ROOT / "pyproject.toml")


@pytest.mark.parametrize(
    "words",
    [
        ["mypy", "--config-file", CONFIGURATION, "-p", "millstream"],
        ["mypy", "--config-file", CONFIGURATION, str(ROOT / "python" / "tests")],
        ["mypy.stubtest", "--mypy-config-file", CONFIGURATION, "--allowlist", "names", "--concise", "millstream"],
    ],
    ids=["package", "tests", "stubs"],
)
def test_types_are_right(words: list[str], tmp_path: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    # Imported for types only, and aliases of literals.
    (tmp_path / "names").write_text("millstream._relation.(pandas|pyarrow)\nmillstream._functions.(Arrow|By)\nmillstream._expressions.JoinKind\nmillstream._charts.Kind\nmillstream._sinks.As\n")
    # What one has found of the libraries the next need not find again.
    cache = os.environ | {"MYPY_CACHE_DIR": str(tmp_path_factory.getbasetemp() / "mypy")}
    result = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, cwd=tmp_path, env=cache)
    assert result.returncode == 0, result.stdout + result.stderr
