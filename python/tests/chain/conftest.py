"""Tables that the tests of the stream API have."""

import datetime
from collections.abc import Callable, Iterator

import millstream as ms
import polars as pl
import pytest

START = datetime.datetime(2026, 1, 1)


def at(seconds: float) -> datetime.datetime:
    return START + datetime.timedelta(seconds=seconds)


BIDS = pl.DataFrame({
    "auction": [1, 2, 1, 3, 1],
    "price": [100, 250, 120, None, 10],
    "tags": [["a", "b"], ["c"], [], None, ["d"]],
    "ts": [at(s) for s in (0, 3, 12, 14, 31)],
})
NAMES = pl.DataFrame({"auction": [1, 2, 4], "name": ["one", "two", "four"]})


@pytest.fixture
def con() -> Iterator[ms.Session]:
    with ms.connect() as session:
        session.register("bid", BIDS, time="ts")
        session.register("names", NAMES)
        yield session


@pytest.fixture
def bid(con: ms.Session) -> ms.Relation:
    return con.table("bid")


@pytest.fixture
def names(con: ms.Session) -> ms.Relation:
    return con.table("names")


@pytest.fixture
def same(con: ms.Session) -> Callable[[ms.Relation], list[tuple[object, ...]]]:
    """Checks that a relation has the plan of its own text, and gives its rows in order."""

    def check(relation: ms.Relation) -> list[tuple[object, ...]]:
        assert con.sql(relation.to_sql()).explain() == relation.explain()
        return sorted(relation.fetchall(), key=lambda row: [(value is not None, str(type(value)), value) for value in row])

    return check
