"""Ctrl-C: what waits ends soon, and Python's own handlers stay."""

import signal
import subprocess
import sys
import threading
import time

import millstream as ms
import pytest

BEGIN = """
import os, signal, sys, threading, time
import millstream as ms
con = ms.connect()
con.execute("CREATE TABLE e (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100', 'fields.n.min' = '1', 'fields.n.max' = '2')")
con.execute("CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole')")
never = con.sql("SELECT n FROM e WHERE n > 5")
sent = []
def interrupt():
    time.sleep(0.7)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    WORK
except (KeyboardInterrupt, Exception) as error:
    assert isinstance(error, KeyboardInterrupt) or "the query was interrupted" in str(error), error
    print(time.monotonic() - sent[0])
assert con.sql("SELECT 1").fetchall() == [(1,)]
"""

WORK = {
    "fetchall": "never.fetchall(limit=1)",
    "batches": "next(never.batches())",
    # They raise errors of their own.
    "pyarrow": "import pyarrow; pyarrow.table(never)",
    "polars": "import polars; polars.DataFrame(never)",
    "execute": 'con.execute("INSERT INTO hole SELECT n FROM e")',
    "wait": 'con.submit("INSERT INTO hole SELECT n FROM e").wait()',
    "analyze": "never.explain(analyze=True)",
}


@pytest.mark.parametrize("work", WORK)
def test_an_interrupt_ends_what_waits(work: str) -> None:
    # What imports takes long comes before the interrupt.
    imports = "".join(f"import {name}\n" for name in ("pyarrow", "polars") if name == work)
    script = imports + BEGIN.replace("WORK", WORK[work])
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    # Typically a twentieth of a second; a machine that is busy takes longer.
    assert 0 < float(result.stdout) < 2.0


def test_handlers_of_the_program_stay() -> None:
    before = signal.getsignal(signal.SIGINT)
    called: list[int] = []

    def handler(number: int, _: object) -> None:
        called.append(number)

    signal.signal(signal.SIGINT, handler)
    try:
        with ms.connect() as con:
            con.execute("CREATE TABLE e (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100')")
            threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
            assert con.sql("SELECT n FROM e").fetchall(timeout=0.6)
        assert called == [signal.SIGINT]
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_cancels(endless: ms.Session) -> None:
    batches = endless.sql("SELECT n FROM endless WHERE n < 0").batches()
    threading.Timer(0.2, batches.close).start()
    began = time.monotonic()
    assert list(batches) == []
    assert time.monotonic() - began < 1.5
