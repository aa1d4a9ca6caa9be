"""Jobs of a program on nodes that Ray places: its functions, sources and data are there, and come again with a node that is replaced."""

import time
from collections.abc import Iterator
from typing import Any

import millstream as ms
import pyarrow
import ray
from .conftest import until
from .test_runs import groups, node_actors
from millstream import ray as on_ray

ROWS = 300


def session(folder: Any, cluster: on_ray.RayCluster | None = None) -> ms.Session:
    con = ms.connect(state_dir=folder / "state", settings={"execution.checkpointing.interval": "200 ms"}, cluster=cluster)

    # Within it, because the nodes cannot import this module: such functions go by value.
    def rows(split: int, position: int | None) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        for number in range(position or 0, ROWS):
            time.sleep(0.01)
            yield number + 1, [(split * ROWS + number, number % 7)]

    @ms.udf
    def named(key: int) -> str:
        return f"<{key}>"

    con.register_function(named)
    con.register_source("readings", rows, {"n": "BIGINT NOT NULL", "k": "BIGINT"}, splits=4, positions=True, bounded=True)
    con.register("names", pyarrow.table({"k": list(range(7)), "name": [f"name-{k}" for k in range(7)]}))
    con.execute(f"CREATE TABLE out (n BIGINT, k STRING, name STRING) WITH ('connector' = 'filesystem', 'path' = '{folder}/out', 'format' = 'csv')")
    return con


QUERY = "SELECT n, named(readings.k) AS k, name FROM readings JOIN names ON readings.k = names.k"
EXPECTED = sorted(f"{split * ROWS + n},<{n % 7}>,name-{n % 7}" for split in range(4) for n in range(ROWS))


def written(folder: Any) -> list[str]:
    return sorted(line for path in (folder / "out").glob("[!.]*") for line in path.read_text().splitlines())


def test_a_job_of_a_program_survives_its_nodes(cluster: Any, tmp_path: Any) -> None:
    with session(tmp_path) as con:
        job = con.sql(QUERY).insert_into("out", cluster=on_ray.RayCluster(3, job="readings"))
        until(lambda: any((tmp_path / "state").glob("job-*/job")))
        time.sleep(0.5)
        victim = next(actor for actor in node_actors("readings") if actor["State"] == "ALIVE")
        ray.kill(ray.get_actor(victim["Name"], namespace="millstream"), no_restart=True)
        job.wait(60)
    assert written(tmp_path) == EXPECTED
    until(lambda: not node_actors() and not groups(), 10)


def test_a_session_has_its_nodes_until_it_is_closed(cluster: Any, tmp_path: Any) -> None:
    with session(tmp_path, on_ray.RayCluster(2, job="session")) as con:
        assert con.sql("SELECT COUNT(*) FROM (VALUES (1), (2)) AS t (x)").fetchall()[-1] is not None
        con.execute(f"INSERT INTO out {QUERY}")
        assert len(node_actors("session")) == 1
    assert written(tmp_path) == EXPECTED
    until(lambda: not node_actors() and not groups(), 10)


def test_what_the_nodes_cannot_have_leaves_none(cluster: Any) -> None:
    with ms.connect() as con:
        con.register_source("once", (row for row in [(1,)]), {"x": "BIGINT"}, bounded=True)
        try:
            con.table("once").write_to(print, cluster=on_ray.RayCluster(2))
        except ms.errors.QueryError as refused:
            assert refused.code == "MS2007"
        else:
            raise AssertionError("a generator cannot be sent")
    until(lambda: not node_actors() and not groups(), 10)
