"""The SQL corpus, `tests/sql/*.slt`, through Python: what `crates/engine/tests/suite/corpus.rs` runs through Rust.

It is there for the way that values take to Python, so it runs under one configuration. Values are written as text here, by their SQL
types, and each must be of the class that docs/python.md names for its type.
"""

import dataclasses
import functools
import pathlib
import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import millstream as ms
import numpy
import pyarrow as pa
import pytest

CORPUS = pathlib.Path(__file__).parents[2] / "tests" / "sql"
SCRIPTS = sorted(CORPUS.glob("*.slt"))


@dataclasses.dataclass
class Record:
    """A statement or query of a script, and what it must give."""

    line: int
    #: The words of `statement ok`, `statement error PATTERN` or `query T [rowsort]`.
    head: list[str]
    sql: str
    rows: list[str]


def records(script: pathlib.Path) -> Iterator[Record]:
    """The part of sqllogictest's format that the corpus uses; a line of anything else fails."""
    lines = enumerate(script.read_text().split("\n"), 1)
    for number, line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        # The Rust test does not look at the letters of the columns either.
        assert re.fullmatch(r"statement ok|statement error .+|query [A-Z]+( rowsort)?", line), f"{script.name}:{number}: {line}"
        head, body = line.split(), []
        for _, line in lines:
            if not line:
                break
            body.append(line)
        end = body.index("----") if "----" in body else len(body)
        yield Record(number, head, "\n".join(body[:end]), body[end + 1 :])


def one_space(text: str) -> str:
    """Rows are compared without regard to how much white space there is, as sqllogictest does."""
    return " ".join(re.findall(r"[^ \t\n\f\r]+", text.strip()))


@functools.cache
def parsed(sql_type: str) -> tuple[str, tuple[str, ...]]:
    """The name of a type and what stands in its brackets: numbers, or types."""
    matched = re.fullmatch(r"([A-Z_ ]+)(?:[(<](.*)[)>])?", sql_type, re.DOTALL)
    assert matched, sql_type
    parts, depth, is_name = [""], 0, False
    for character in matched[2] or "":
        is_name ^= character == "`"
        if not is_name:
            depth += (character in "(<") - (character in ")>")
        if character == "," and depth == 0 and not is_name:
            parts.append("")
        else:
            parts[-1] += character
    # A field of a ROW has a name before its type.
    return matched[1], tuple(re.sub(r"^`[^`]*` ", "", part.strip()).removesuffix(" NOT NULL") for part in parts)


def as_text(value: Any, sql_type: str) -> str:
    """A value as the corpus has it: what `display.rs` writes. A `str` of a date or timestamp is one that Arrow wrote."""
    if value is None:
        return "NULL"
    name, inner = parsed(sql_type)
    match name, value:
        case "BOOLEAN", bool():
            return str(value).upper()
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT", int():
            return str(value)
        case "FLOAT", float():
            return float_text(numpy.float32(value))
        case "DOUBLE", float():
            return float_text(numpy.float64(value))
        case "DECIMAL", Decimal():
            return f"{value:f}"
        case "CHAR" | "VARCHAR" | "STRING", str():
            return value
        case "BINARY" | "VARBINARY" | "BYTES", bytes():
            return f"x'{value.hex()}'"
        case "DATE", date() | str():
            return str(value)
        case "TIME", time():
            return with_digits(value.isoformat("microseconds"), inner[0])
        case "TIMESTAMP", datetime(tzinfo=None):
            return with_digits(value.isoformat(" ", "microseconds"), inner[0])
        case "TIMESTAMP_LTZ", datetime(tzinfo=timezone.utc):
            return with_digits(value.isoformat(" ", "microseconds").removesuffix("+00:00"), inner[0]) + "Z"
        case "TIMESTAMP", str():
            return with_digits(value, inner[0])
        case "TIMESTAMP_LTZ", str():
            return with_digits(value.removesuffix("Z"), inner[0]) + "Z"
        case "INTERVAL YEAR TO MONTH", int():
            return f"{'-' if value < 0 else '+'}{abs(value) // 12}-{abs(value) % 12:02}"
        case "INTERVAL DAY TO SECOND", timedelta():
            length = abs(value)
            clock = datetime.min + timedelta(0, length.seconds, length.microseconds)
            return f"{'-' if value < timedelta(0) else '+'}{length.days} {clock.time().isoformat('milliseconds')}"
        case "ROW", dict():
            return "(" + ", ".join(as_text(item, of) for item, of in zip(value.values(), inner, strict=True)) + ")"
        case "ARRAY", list():
            return "[" + ", ".join(as_text(item, inner[0]) for item in value) + "]"
        case "MAP", dict():
            return "{" + ", ".join(f"{as_text(k, inner[0])}={as_text(v, inner[1])}" for k, v in value.items()) + "}"
    raise AssertionError(f"{value!r} is not what {sql_type} is in Python")


def with_digits(text: str, digits: str) -> str:
    """A time with so many digits after the point; what it has beyond them must be zeros."""
    whole, _, fraction = text.partition(".")
    kept, cut = fraction[: int(digits)], fraction[int(digits) :]
    assert not cut.strip("0"), f"{text} has more than {digits} digits"
    return f"{whole}.{kept}" if kept else whole


def float_text(value: numpy.float32 | numpy.float64) -> str:
    """As Java writes it: the shortest digits that are read back as the same number, but the nearest two where one would do."""
    if not numpy.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    two = f"{value:.1e}"
    number = Decimal(two if type(value)(two) == value else str(value))
    exponent = number.adjusted()
    if value == 0 or -3 <= exponent <= 6:
        return one_zero(f"{number:f}")
    return f"{one_zero(f'{number.scaleb(-exponent):f}')}E{exponent}"


def one_zero(number: str) -> str:
    """A number with a digit after the point, and no further zeros at the end."""
    whole, _, fraction = number.partition(".")
    return f"{whole}.{fraction.rstrip('0') or '0'}"


def values(relation: ms.Relation) -> list[tuple[Any, ...]]:
    """The rows. Python has neither nanoseconds nor the year 0: dates and timestamps of such rows are texts, made by Arrow."""
    if not any(re.search(r"TIMESTAMP(_LTZ)?\([789]\)", sql_type) for sql_type in relation.types):
        try:
            return relation.fetchall()
        except ValueError as error:
            if "outside of the years 1 to 9999" not in str(error):
                raise
    columns = [
        column.cast(pa.string()) if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type) else column
        for column in relation.to_arrow().columns
    ]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def rows(con: ms.Session, sql: str) -> list[list[str]]:
    """The rows of a query or listing as text; of what EXPLAIN prints, a row for each line."""
    relation = con.sql(sql)
    if re.match(r"EXPLAIN|SHOW CREATE", sql):
        return [[line] for (text,) in relation.fetchall() for line in text.splitlines() if line]
    found = values(relation)
    return [[as_text(value, of) or "(empty)" for value, of in zip(row, relation.types, strict=True)] for row in found]


def difference(con: ms.Session, record: Record, sql: str, in_order: bool) -> str | None:
    """How what a record gives differs from what it must give: ``in_order`` unless it says that they are to be sorted."""
    is_query, must_fail, rest = record.head[0] == "query", record.head[1] == "error", " ".join(record.head[2:])
    try:
        # Each as its users would: execute() refuses queries, and would drop what is listed.
        if is_query or re.match(r"SELECT|WITH|VALUES|EXPLAIN|SHOW|DESC", sql):
            found = rows(con, sql)
        else:
            con.execute(sql)
            found = []
    except ms.Error as error:
        # On one line, as the patterns expect it.
        line = f"error[{error.code}]: {error.message} ({error.place}); {error.advice}"
        return None if must_fail and re.search(rest, line) else str(error)
    if not is_query:
        return "no error" if must_fail else None
    if rest == "rowsort":
        found.sort()
    expected, given = ([one_space(line) for line in lines] for lines in (record.rows, (" ".join(map(one_space, row)) for row in found)))
    if not in_order:
        expected, given = sorted(expected), sorted(given)
    return None if given == expected else "\n".join(["expected:", *expected, "found:", *given])


def check(con: ms.Session, script: pathlib.Path, folder: pathlib.Path, in_order: bool = True) -> None:
    """Fails unless a script gives its rows."""
    failures = []
    for record in records(script):
        sql = record.sql.replace("$DIR", str(folder)).replace("$DATA", str(CORPUS / "data"))
        try:
            failure = difference(con, record, sql, in_order)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
        if failure is not None:
            failures.append(f"{script.name}:{record.line}: {failure}\n{sql}")
    assert not failures, "\n\n".join([f"{len(failures)} failures", *failures])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_gives_its_rows(script: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with ms.connect() as con:
        check(con, script, tmp_path)


def test_there_is_a_corpus() -> None:
    assert len(SCRIPTS) >= 5
