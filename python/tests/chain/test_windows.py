"""key_by, window, agg: windows of every kind."""

from collections.abc import Callable
from typing import Any

import millstream as ms
import pytest
from millstream import CountWindow, Cumulate, Hop, SessionWindow, Tumble, col, count, lit

from .conftest import at


def test_tumble(bid: ms.Relation, same: Any) -> None:
    relation = bid.filter(col("price") > 50).key_by("auction").window(Tumble("10s")).agg(n=count(), hi=col("price").max())
    assert relation.columns == ["auction", "window_start", "window_end", "n", "hi"]
    assert same(relation) == [(1, at(0), at(10), 1, 100), (1, at(10), at(20), 1, 120), (2, at(0), at(10), 1, 250)]
    shifted = bid.window(Tumble("10s", offset="5s", on="ts")).agg(n=count())
    assert same(shifted) == [(at(-5), at(5), 2), (at(5), at(15), 2), (at(25), at(35), 1)]


def test_hop_and_cumulate(bid: ms.Relation, same: Any) -> None:
    assert same(bid.window(Hop("20s", "10s")).agg(n=count()))[:2] == [(at(-10), at(10), 2), (at(0), at(20), 4)]
    assert same(bid.window(Cumulate("20s", "10s")).agg(n=count()))[:2] == [(at(0), at(10), 2), (at(0), at(20), 4)]


def test_sessions_and_rows(bid: ms.Relation, same: Any) -> None:
    sessions = bid.key_by("auction").window(SessionWindow("15s")).agg(n=count())
    assert same(sessions) == [(1, at(0), at(27), 2), (1, at(31), at(46), 1), (2, at(3), at(18), 1), (3, at(14), at(29), 1)]
    assert same(bid.window(SessionWindow("1h")).agg(n=count())) == [(at(0), at(3631), 5)]
    assert [row[3] for row in same(bid.key_by("auction").window(CountWindow(2)).agg(total=col("price").sum()))] == [220]
    assert [row[3] for row in same(bid.key_by("auction").window(CountWindow(2, 1)).agg(total=col("price").sum()))] == [220, 130]


def test_windows_over_windows(bid: ms.Relation, same: Any) -> None:
    tens = bid.window(Tumble("10s")).agg(n=count(), keep_time=True)
    assert same(tens.window(Tumble("20s")).agg(n=col("n").sum())) == [(at(0), at(20), 4), (at(20), at(40), 1)]


def test_rows_of_windows(bid: ms.Relation, same: Any) -> None:
    relation = bid.window(Tumble("10s")).rows()
    assert relation.columns == [*bid.columns, "window_start", "window_end", "window_time"]
    assert len(same(relation.drop("tags"))) == 5


def test_aggregates(bid: ms.Relation, same: Any) -> None:
    price = col("price")
    relation = bid.agg(
        count(), count("price").alias("known"), low=price.min(), mean=price.mean(), unique=col("auction").n_unique(),
        cheap=count().where(price < 50), first=price.first(), last=price.last(), most=ms.call("STDDEV_POP", price).cast("INT"),
    )
    assert same(relation) == [(5, 4, 10, 120, 3, 1, 100, 10, 85)]
    assert same(bid.key_by((col("auction") % 2).alias("odd")).agg(n=count())) == [(0, 1), (1, 4)]


def test_what_is_missing(bid: ms.Relation, names: ms.Relation) -> None:
    with pytest.raises(ValueError, match="aggregate"):
        bid.key_by("auction").agg()
    with pytest.raises(ValueError, match="no timestamp"):
        names.window(Tumble("10s")).agg(n=count())
    with pytest.raises(ValueError, match="several timestamps"):
        bid.with_columns(other=col("ts")).window(Tumble("10s")).agg(n=count())
    with pytest.raises(ValueError, match="duration"):
        Tumble("ten seconds")


def test_what_is_no_aggregate_is_named(bid: ms.Relation) -> None:
    total = col("price").sum()
    windows = bid.window(Tumble("10s"))
    calls: list[tuple[Callable[[], ms.Relation], str, str]] = [
        (lambda: bid.agg(x=col("price")), "agg(x=…)", "`price`"),
        (lambda: bid.agg(n=count(), x=total + col("auction")), "agg(x=…)", "`auction`"),
        (lambda: bid.agg(total, "auction"), "argument 2 of agg()", "`auction`"),  # type: ignore[arg-type]
        (lambda: bid.agg(n=count(), x=total.max()), "agg(x=…)", "SUM"),
        (lambda: bid.agg(x=col("price").where(col("price") > 1), n=count()), "agg(x=…)", ""),
        (lambda: bid.key_by("auction").agg(n=count(), high=col("price")), "agg(high=…)", "`price`"),
        (lambda: windows.agg(n=col("price")), "agg(n=…)", "`price`"),
        (lambda: bid.over(n=count(), x=col("price")), "over(x=…)", ""),
    ]
    for call, argument, wrong in calls:
        with pytest.raises(ms.errors.QueryError) as caught:
            call()
        assert f"in {argument} at {__file__}:" in caught.value.message and wrong in caught.value.message
        assert caught.value.advice is not None and "aggregates" in caught.value.advice
    # What is wrong elsewhere is not wrong in an argument.
    for call in (lambda: bid.key_by("auctoin").agg(n=count()), lambda: bid.window(Tumble("10s", on="price")).agg(n=count())):
        with pytest.raises(ms.Error, match=r"in agg\(\) at"):
            call()
    with pytest.raises(ms.Error, match=r"unknown column `prise` in agg\(x=…\) at"):
        bid.agg(n=count(), x=col("prise").sum())


def test_constants_and_keys_are_aggregates_of_groups(bid: ms.Relation, same: Any) -> None:
    assert same(bid.agg(one=lit(1))) == [(1,)]
    assert same(bid.agg(one=lit(1), n=count() + 1)) == [(1, 6)]
    assert same(bid.key_by("auction").agg(double=col("auction") * 2)) == [(1, 2), (2, 4), (3, 6)]


def test_names_are_not_given_twice(bid: ms.Relation) -> None:
    makes: list[Callable[[], ms.Relation]] = [
        lambda: bid.key_by("auction").agg(auction=count()),
        lambda: bid.key_by("auction").window(Tumble("10s")).agg(window_end=count()),
        lambda: bid.over(price=col("price").sum()),
    ]
    for make in makes:
        with pytest.raises(ValueError, match="there would be two columns `(auction|window_end|price)`: give the aggregate another name"):
            make()
