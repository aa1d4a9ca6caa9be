"""select, with_columns, drop, rename, alias."""

from typing import Any

import millstream as ms
import pytest
from millstream import col


def test_select(bid: ms.Relation, same: Any) -> None:
    relation = bid.select("auction", col("price").alias("p"), euros=col("price") / 100)
    assert relation.columns == ["auction", "p", "euros"]
    assert same(relation.filter(col("auction") == 2)) == [(2, 250, 2)]
    assert bid.select().columns == bid.columns


def test_with_columns_keeps_the_order(bid: ms.Relation, same: Any) -> None:
    relation = bid.with_columns(price=col("price") + 1, double=col("price") * 2).drop("ts", "tags")
    assert relation.columns == ["auction", "price", "double"]
    assert same(relation)[-2:] == [(2, 251, 500), (3, None, None)]


def test_rename_and_drop(bid: ms.Relation, same: Any) -> None:
    relation = bid.drop("tags", "ts").rename({"price": "cents"})
    assert relation.columns == ["auction", "cents"]
    assert same(relation)[0] == (1, 10)
    with pytest.raises(ValueError, match="no column 'prise'"):
        bid.rename({"prise": "x"})
    with pytest.raises(ValueError, match="no column is left"):
        bid.select("price").drop("price")


def test_names_are_quoted(con: ms.Session, same: Any) -> None:
    relation = con.sql("SELECT 1 AS `a``b`, 2 AS `select`").with_columns(**{"x y": col("a`b") + col("select")})
    assert relation.columns == ["a`b", "select", "x y"]
    assert same(relation) == [(1, 2, 3)]


def test_a_chain_keeps_what_it_began_with(con: ms.Session) -> None:
    begun = con.table(ms.sql("SELECT 7 AS n")).filter(col("n") > 0)
    con.execute("CREATE VIEW source1 AS SELECT 8 AS n")
    assert begun.filter(col("n") > 1).fetchall() == [(7,)]
    con.execute("CREATE VIEW changed AS SELECT 1 AS a")
    table = con.table("changed")
    con.execute("DROP VIEW changed; CREATE VIEW changed AS SELECT 2 AS a, 3 AS b")
    assert table.with_columns(c=col("a") + 1).fetchall() == [(1, 2)]
    with ms.connect() as other:
        other.execute("CREATE VIEW source1 AS SELECT 9 AS n; CREATE VIEW changed AS SELECT 5 AS a")
        assert sorted(table.union(other.table("changed")).fetchall()) == [(1,), (5,)]
    with pytest.raises(TypeError, match="relation"):
        table.union([1])  # type: ignore[arg-type]
