"""top, dedup, over, unnest."""

from typing import Any

import millstream as ms
import pytest
from millstream import Tumble, col, count


def test_top_of_each_window(bid: ms.Relation, same: Any) -> None:
    counts = bid.key_by("auction").window(Tumble("20s")).agg(n=count())
    top = counts.top(1, by="n", rank="place").select("auction", "n", "place")
    assert same(top) == [(1, 1, 1), (1, 2, 1)]
    assert counts.top(1, by="n").columns == counts.columns
    rows = bid.drop("tags").window(Tumble("1h")).rows()
    assert [row[1] for row in same(rows.top(1, by="price", within="auction", ascending=True).select("auction", "price"))] == [10, 250, None]


def test_dedup(bid: ms.Relation, same: Any) -> None:
    rows = bid.drop("tags").window(Tumble("1h")).rows()
    assert same(rows.dedup("auction").select("auction", "price")) == [(1, 100), (2, 250), (3, None)]
    assert same(rows.dedup("auction", keep="last").select("auction", "price")) == [(1, 10), (2, 250), (3, None)]
    assert same(rows.dedup("auction", by="price").select("auction", "price"))[0] == (1, 10)
    with pytest.raises(ValueError, match="keep"):
        rows.dedup("auction", keep="any")


def test_over(bid: ms.Relation, same: Any) -> None:
    price = col("price")
    prices = bid.drop("tags")
    running = prices.over(partition="auction", total=price.sum(), n=count()).select("auction", "price", "total", "n")
    assert same(running)[:3] == [(1, 10, 230, 3), (1, 100, 100, 1), (1, 120, 220, 2)]
    # Of each row and the one before it: 100, 250, 120, NULL, 10.
    assert [row[0] for row in same(prices.over(rows=1, total=price.sum()).select("total"))] == [10, 100, 120, 350, 370]
    near = prices.over(order="ts", range="15s", n=count()).select("n")
    assert sum(row[0] for row in same(near)) == 1 + 2 + 3 + 4 + 1
    with pytest.raises(ValueError, match="both"):
        prices.over(rows=1, range="1s", n=count())
    with pytest.raises(ValueError, match="aggregate"):
        prices.over()


def test_unnest(bid: ms.Relation, same: Any) -> None:
    tags = bid.drop("ts").unnest("tags", "tag")
    assert tags.columns == ["auction", "price", "tag"]
    assert [row[2] for row in same(tags)] == ["d", "a", "b", "c"]
    numbered = bid.drop("ts", "price").unnest("tags", "tag", ordinality="n", outer=True)
    assert (1, "b", 2) in same(numbered) and (3, None, None) in same(numbered)
    with pytest.raises(ValueError, match="no column"):
        bid.unnest("tag", "x")
