"""Any chain has the plan of its own text."""

import os
from typing import Any

import millstream as ms
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from millstream import CountWindow, Cumulate, Hop, SessionWindow, Tumble, col, count, lit

from .conftest import BIDS, NAMES

CON = ms.connect()
CON.register("bid", BIDS.drop("tags"), time="ts")
CON.register("names", NAMES)

#: `make test` runs some; more by the environment.
EXAMPLES = int(os.environ.get("MILLSTREAM_EXAMPLES", "150"))


def numbers(relation: ms.Relation) -> list[str]:
    return [name for name, data_type in zip(relation.columns, relation.types, strict=True) if data_type in ("BIGINT", "INT")]


@st.composite
def expressions(draw: Any, names: list[str], depth: int = 2) -> ms.Expression:
    if depth == 0 or draw(st.booleans()):
        return col(draw(st.sampled_from(names))) if names and draw(st.booleans()) else lit(draw(st.integers(-9, 9)))
    one, other = draw(expressions(names, depth - 1)), draw(expressions(names, depth - 1))
    made: ms.Expression = draw(st.sampled_from([one + other, one - other, one * other, ms.when(one > other).then(one).otherwise(other), -one]))
    return made


@st.composite
def conditions(draw: Any, names: list[str]) -> ms.Expression:
    one, other = draw(expressions(names)), draw(expressions(names))
    plain = draw(st.sampled_from([one > other, one == other, one.is_null(), one.between(1, other), one.is_in([1, 2]), one != other]))
    made: ms.Expression = draw(st.sampled_from([plain, ~plain, plain & (one < 5), plain | (other > 5)]))
    return made


WINDOWS = st.sampled_from([
    Tumble("10s"), Tumble("1 min", offset="3s"), Hop("20s", "5s"), Cumulate("30s", "10s"), SessionWindow("7s"), CountWindow(2), CountWindow(3, 1),
])


@st.composite
def chains(draw: Any) -> ms.Relation:
    relation = CON.table("bid")
    has_time = True
    for _ in range(draw(st.integers(1, 5))):
        names = numbers(relation)
        kinds = ["filter", "with", "rename", "union", "join", "select", "semi"]
        kinds += ["window", "window", "over", "rows"] if has_time else []
        kind = draw(st.sampled_from(kinds))
        key = draw(st.sampled_from(names)) if names else None
        if kind == "filter":
            relation = relation.filter(draw(conditions(names)))
        elif kind == "with":
            relation = relation.with_columns(**{draw(st.sampled_from(["x", "y", "price"])): draw(expressions(names))})
        elif kind == "rename" and key is not None and "z" not in relation.columns:
            relation = relation.rename({key: "z"})
        elif kind == "select" and names:
            kept = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
            times = [name for name in relation.columns if name in ("ts", "window_time") and has_time]
            relation = relation.select(*kept, *times)
        elif kind == "union":
            relation = relation.union(relation)
        elif kind == "join" and "auction" in names and "name" not in relation.columns:
            relation = relation.join(CON.table("names"), on="auction", how=draw(st.sampled_from(["inner", "left"])))
        elif kind == "semi" and "auction" in names:
            relation = relation.join(CON.table("names"), on="auction", how=draw(st.sampled_from(["semi", "anti"])))
        elif kind == "over" and key is not None and "total" not in relation.columns:
            relation = relation.over(partition="auction" if "auction" in names else (), rows=draw(st.none() | st.integers(0, 3)), total=col(key).sum())
        elif kind == "rows":
            has_time = False
            relation = relation.window(draw(st.sampled_from([Tumble("10s"), Hop("20s", "5s")]))).rows()
            if draw(st.booleans()) and key is not None:
                relation = relation.top(2, by=key, ascending=draw(st.booleans()))
        elif kind == "window":
            window = draw(WINDOWS)
            keeps = not isinstance(window, CountWindow) and draw(st.booleans())
            keyed = relation.key_by("auction") if "auction" in names and draw(st.booleans()) else relation
            relation = keyed.window(window).agg(n=count(), x=count().where(draw(conditions(names))), keep_time=keeps)
            has_time = keeps
    return relation


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(chains())
def test_a_chain_has_the_plan_of_its_own_text(relation: ms.Relation) -> None:
    again = CON.sql(relation.to_sql())
    assert again.schema == relation.schema
    assert again.explain() == relation.explain()
