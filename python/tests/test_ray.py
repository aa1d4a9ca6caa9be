"""Datasets of Ray as tables, and results as datasets."""

from collections.abc import Iterator

import millstream as ms
import pyarrow
import pytest
from millstream.errors import ConnectorError

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Ray on this machine, as small as it can be."""
    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False, configure_logging=False)
    yield
    ray.shutdown()


def test_a_dataset_is_a_table(con: ms.Session) -> None:
    numbers = ray.data.from_items([{"k": n % 3, "v": float(n), "t": f"text {n}"} for n in range(1000)], override_num_blocks=4)
    assert con.sql("DESCRIBE numbers").fetchall()[0][:2] == ("k", "BIGINT")
    groups = con.sql("SELECT k, COUNT(*) AS n, SUM(v) AS s, MAX(t) AS t FROM numbers GROUP BY k ORDER BY k")
    assert groups.fetchall() == [
        (k, len(range(k, 1000, 3)), float(sum(range(k, 1000, 3))), max(f"text {n}" for n in range(k, 1000, 3))) for k in range(3)
    ]
    # Its blocks were read, and none is kept.
    with pytest.raises(ConnectorError, match="MS4002"):
        groups.fetchall()


def test_a_dataset_is_read_lazily_and_from_blocks_of_pandas(con: ms.Session) -> None:
    def doubled(frame):  # type: ignore[no-untyped-def]
        frame["id"] *= 2
        return frame

    lazy = ray.data.range(10_000, override_num_blocks=3).map_batches(doubled, batch_format="pandas")
    assert con.table(lazy).agg(n=ms.count(), s=ms.col("id").sum()).fetchall() == [(10_000, 99_990_000)]
    con.register("evens", lazy)
    assert con.sql("SELECT COUNT(*) FROM evens WHERE id < 10").fetchall() == [(5,)]


def test_columns_are_those_of_the_first_block(con: ms.Session) -> None:
    nothing = ray.data.from_items([{"a": 1}]).filter(lambda row: False)
    assert con.table(nothing).fetchall() == []
    blocks = [
        pyarrow.table({"a": pyarrow.array([1], pyarrow.int64()), "b": ["x"]}),
        pyarrow.table({"b": ["y"], "a": pyarrow.array([2], pyarrow.int32())}),
    ]
    assert sorted(con.table(ray.data.from_arrow(blocks)).fetchall()) == [(1, "x"), (2, "y")]


def test_a_reader_that_is_dropped_ends_the_dataset(con: ms.Session) -> None:
    numbers = ray.data.range(100_000, override_num_blocks=10)
    assert con.table(numbers).fetchall(limit=3) == [(0,), (1,), (2,)]


def test_a_function_of_a_dataset_that_fails_is_told(con: ms.Session) -> None:
    def fails(batch):  # type: ignore[no-untyped-def]
        raise ValueError("no such row")

    with pytest.raises(Exception, match="no such row"):
        con.table(ray.data.range(10).map_batches(fails)).fetchall()


def test_a_result_becomes_a_dataset(con: ms.Session) -> None:
    words = con.sql("SELECT * FROM (VALUES ('a', 1), ('b', 2)) AS t(word, n)")
    dataset = words.ray()
    assert sorted(row["word"] * row["n"] for row in dataset.take_all()) == ["a", "bb"]
