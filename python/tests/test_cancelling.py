"""A reader that is dropped ends its query, and soon."""

import ctypes
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import millstream as ms
import numpy as np
import pyarrow as pa
import pytest

#: From `del` to the end of the last thread of the run, in seconds. Typically it takes 50 ms: sources look that often whether they are wanted.
BOUND = 0.2
TRIES = 5

TASKS = pathlib.Path("/proc/self/task")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads are found in /proc")


def threads() -> set[str]:
    """The threads of runs."""
    found = set()
    for task in os.listdir(TASKS):
        try:
            name = (TASKS / task / "comm").read_text()
        except OSError:
            # It has just ended.
            continue
        if name.startswith(("job", "worker", "reader", "adviser", "spilling")):
            found.add(task)
    return found


def reader(relation: ms.Relation) -> object:
    stream = pa.RecordBatchReader.from_stream(relation)
    assert stream.read_next_batch().num_rows > 0
    return stream


def batches(relation: ms.Relation) -> object:
    stream = relation.batches()
    assert next(stream).num_rows > 0
    return stream


def capsule(relation: ms.Relation) -> object:
    """A capsule that was not moved from: a batch is taken as C would."""
    stream = relation.__arrow_c_stream__()
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
    pointer = pointer_of(stream, b"arrow_array_stream")
    assert pointer is not None
    # `get_next` is the second member of the struct, `release` the ninth of that of a batch, whose first one is the number of rows.
    array = (ctypes.c_void_p * 10)()
    get_next = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)((ctypes.c_void_p * 2).from_address(pointer)[1] or 0)
    assert get_next(pointer, ctypes.addressof(array)) == 0 and array[0]
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(array[8] or 0)(ctypes.addressof(array))
    return stream


@pytest.mark.parametrize("take", [reader, capsule, batches])
@pytest.mark.parametrize("query", ["SELECT n, n * 2 AS twice FROM big WHERE n % 3 <> 1", "SELECT n FROM endless"], ids=["table", "endless"])
def test_the_run_of_a_reader_that_is_dropped_ends_at_once(
    endless: ms.Session, query: str, take: Callable[[ms.Relation], Any]
) -> None:
    big = pa.table({"n": np.arange(10_000_000)})
    relation = endless.sql(query)
    assert big.num_rows == 10_000_000
    seconds = []
    for _ in range(TRIES):
        others = threads()
        stream = take(relation)
        # It is not at its end: the rows that nobody has taken hold it up.
        run = threads() - others
        assert run
        began = time.monotonic()
        del stream
        while run & threads() and time.monotonic() - began < 10:
            time.sleep(0.001)
        seconds.append(time.monotonic() - began)
    # Another process may hold one of them up.
    assert statistics.median(seconds) <= BOUND, seconds


def test_a_capsule_that_nobody_has_read_runs_nothing(endless: ms.Session) -> None:
    others = threads()
    stream = endless.sql("SELECT n FROM endless").__arrow_c_stream__()
    assert threads() == others
    del stream
