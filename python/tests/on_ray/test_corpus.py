"""The SQL corpus on nodes that Ray has placed: every query of it runs through their actors."""

import importlib.util
import pathlib
from collections.abc import Iterator
from typing import Any

import millstream as ms
import pytest
from millstream import _clusters
from millstream import ray as on_ray

SPEC: Any = importlib.util.spec_from_file_location("corpus", pathlib.Path(__file__).parents[1] / "test_corpus.py")
corpus: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(corpus)


class Kept:
    """Nodes that stay from one session to the next."""

    def __init__(self, there: _clusters.Joined) -> None:
        self.core = there.core

    def _join(self) -> _clusters.Joined:
        return self

    def follow(self, has_ended: Any) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def nodes(cluster: Any) -> Iterator[Kept]:
    there = on_ray.RayCluster(3)._join()
    there.follow(lambda: False)
    yield Kept(there)
    there.close()


@pytest.mark.parametrize("script", corpus.SCRIPTS, ids=lambda script: script.stem)
def test_a_script_gives_its_rows(script: pathlib.Path, tmp_path: pathlib.Path, nodes: Kept) -> None:
    with ms.connect(cluster=nodes, settings={"parallelism.default": 1}) as con:
        corpus.check(con, script, tmp_path, in_order=False)
