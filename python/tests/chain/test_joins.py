"""join, join_version, union, distinct."""

import pathlib
from typing import Any

import millstream as ms
import pytest
from millstream import Tumble, col, count, left, right

from .conftest import at


def test_a_bounded_side_is_looked_up(bid: ms.Relation, names: ms.Relation, same: Any) -> None:
    joined = bid.drop("tags", "ts").join(names, on="auction")
    assert joined.columns == ["auction", "price", "name"]
    assert same(joined) == [(1, 10, "one"), (1, 100, "one"), (1, 120, "one"), (2, 250, "two")]
    assert (3, None, None) in same(bid.drop("tags", "ts").join(names, on="auction", how="left"))
    condition = [left("auction") == right("auction"), left("price") > 100]
    assert [row[:2] for row in same(bid.drop("tags", "ts").join(names, on=condition))] == [(1, 120), (2, 250)]


def test_semi_and_anti(bid: ms.Relation, names: ms.Relation, same: Any) -> None:
    prices = bid.select("auction", "price")
    assert same(prices.join(names, on="auction", how="semi")) == [(1, 10), (1, 100), (1, 120), (2, 250)]
    assert same(prices.join(names, on="auction", how="anti")) == [(3, None)]


def test_an_interval(bid: ms.Relation, same: Any) -> None:
    pairs = bid.join(bid, on="auction", within=("15s", "0s")).select("price", "price_right")
    assert (120, 100) in same(pairs) and (10, 120) not in same(pairs)
    assert "ts_right" in bid.join(bid, on="auction", within="1s", time=("ts", "ts")).columns


def test_windows_of_two_sides(bid: ms.Relation, same: Any) -> None:
    windows = bid.window(Tumble("10s"))
    counts, highest = windows.agg(n=count()), windows.agg(hi=col("price").max())
    assert same(counts.join(highest, on=["window_start", "window_end"]).select("window_start", "n", "hi"))[0] == (at(0), 2, 250)


def test_versions(con: ms.Session, bid: ms.Relation, same: Any, tmp_path: pathlib.Path) -> None:
    (tmp_path / "rates.csv").write_text("1,2,2026-01-01 00:00:00\n1,3,2026-01-01 00:00:10\n")
    con.execute(f"""
        CREATE TABLE rates (auction BIGINT, rate INT, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`, PRIMARY KEY (auction) NOT ENFORCED)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path / "rates.csv"}', 'format' = 'csv')
    """)
    joined = bid.select("auction", "price", "ts").join_version("rates", "auction")
    assert same(joined.select("price", "rate")) == [(10, 3), (100, 2), (120, 3)]
    assert len(same(bid.drop("tags").join_version("rates", "auction", how="left").select("price"))) == 5
    with pytest.raises(ms.Error, match=r"join_version\(\) at"):
        bid.join_version("nothing", "auction")
    with pytest.raises(ValueError, match="how"):
        bid.join_version("rates", "auction", how="full")


def test_union_and_distinct(bid: ms.Relation, same: Any) -> None:
    auctions = bid.select("auction")
    assert same(auctions.union(auctions, auctions).agg(n=count())) == [(15,)]
    assert same(auctions.distinct()) == [(1,), (2,), (3,)]
    with pytest.raises(ms.errors.QueryError, match=r"union\(\) at"):
        auctions.union(bid)


def test_what_is_missing(bid: ms.Relation, names: ms.Relation) -> None:
    with pytest.raises(ValueError, match="on"):
        bid.join(names)
    with pytest.raises(ValueError, match="how"):
        bid.join(names, on="auction", how="outer")  # type: ignore[arg-type]
    with pytest.raises(ms.errors.QueryError, match=r"join\(\) at"):
        bid.join(names, on="price")
    for wrong in (3, ["auction", 3]):
        with pytest.raises(TypeError, match=r"`on` takes columns, by name or as expressions, not 3"):
            bid.join(names, on=wrong)  # type: ignore[arg-type]
