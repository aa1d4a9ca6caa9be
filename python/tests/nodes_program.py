"""Functions and sources that the nodes of `test_clusters.py` import, too."""

import time
from collections.abc import Iterator

import millstream as ms


@ms.udf
def shout(text: str) -> str:
    return text.upper() + "!"


@ms.udf(by="column", returns="BIGINT", takes=["BIGINT"], version="2")
def double(numbers: ms.Column) -> list[int]:
    return [2 * number for number in numbers.to_list()]


@ms.udf(capacity=2)
async def slowly(number: int) -> int:
    return number + 1


@ms.udf(processes=1, returns="BIGINT", takes=["BIGINT"])
def elsewhere(number: int) -> int:
    return number * 10


@ms.udaf(state="ROW<total BIGINT, n BIGINT>")
class mean:
    def create(self) -> dict[str, int]:
        return {"total": 0, "n": 0}

    def accumulate(self, state: dict[str, int], x: int) -> None:
        state["total"] += x
        state["n"] += 1

    def merge(self, state: dict[str, int], other: dict[str, int]) -> None:
        state["total"] += other["total"]
        state["n"] += other["n"]

    def finish(self, state: dict[str, int]) -> float:
        return state["total"] / state["n"] if state["n"] else 0.0


def rows(split: int, position: int | None) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    """A hundred rows of each split."""
    for number in range(position or 0, 100):
        yield number + 1, [(1000 * split + number, f"user-{number % 7}")]


def slow_rows(split: int, position: int | None) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    """The same within a second."""
    for place, batch in rows(split, position):
        time.sleep(0.01)
        yield place, batch


def skewed(split: int, position: int | None) -> Iterator[tuple[int, list[tuple[int, int]]] | None]:
    """Endless: each run has 400 rows of every other split, and 4 of the rest."""
    begin = position or 0
    for number in range(begin, begin + (4 if split % 2 else 400)):
        yield number + 1, [(split, number)]
    while True:
        time.sleep(0.02)
        yield None
