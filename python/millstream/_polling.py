"""Waiting for batches, with a look at other things in between."""

from __future__ import annotations

import time
from collections.abc import Callable

from millstream._core import Batch, Reader

#: How long a wait for a batch is, in seconds: then Python looks for signals.
SLICE = 0.05


def poll(reader: Reader, deadline: float, look: Callable[[Batch | None], None]) -> bool:
    """Calls ``look`` with each batch of a reader, and with None where there is none yet, until the deadline on the monotonic clock; whether the reader
    was at its end before. It is closed in any case."""
    try:
        while (left := deadline - time.monotonic()) > 0:
            batch = reader.poll(min(left, SLICE))
            if batch is None:
                return True
            look(batch if isinstance(batch, Batch) else None)
        return False
    finally:
        reader.close()
