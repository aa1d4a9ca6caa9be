"""Tables that code of Python writes."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import millstream as ms


def numbers(con: ms.Session, rows: int = 5) -> ms.Relation:
    return con.sql(f"SELECT CAST(n AS BIGINT) AS n, 'x' AS s FROM (VALUES {', '.join(f'({n})' for n in range(rows))}) AS t (n)")


def test_a_function_is_a_sink(con: ms.Session) -> None:
    taken: list[Any] = []
    numbers(con).write_to(taken.append).wait()
    assert all(isinstance(batch, ms.Batch) for batch in taken)
    assert [row for batch in taken for row in batch.rows()] == [(n, "x") for n in range(5)]


@pytest.mark.parametrize(("give", "kind"), [("polars", pl.DataFrame), ("pyarrow", pa.RecordBatch), ("rows", list)])
def test_batches_come_as_asked(con: ms.Session, give: Any, kind: type) -> None:
    taken: list[Any] = []
    con.register_sink("out", taken.append, {"n": "BIGINT", "s": "STRING"}, give=give)
    numbers(con).insert_into("out").wait()
    assert taken and all(isinstance(batch, kind) for batch in taken)
    rows = [row for batch in taken for row in (batch if give == "rows" else batch.to_dicts() if give == "polars" else batch.to_pylist())]
    assert rows == [{"n": n, "s": "x"} for n in range(5)]


class Kept:
    """Notes its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.rows: list[Any] = []

    def write(self, batch: ms.Batch) -> None:
        self.calls.append("write")
        self.rows.extend(batch.rows())

    def flush(self) -> None:
        self.calls.append("flush")

    def abort(self) -> None:
        self.calls.append("abort")

    def close(self) -> None:
        self.calls.append("close")


def test_an_object_is_flushed_and_closed(con: ms.Session) -> None:
    sink = Kept()
    numbers(con).write_to(sink).wait()
    assert len(sink.rows) == 5
    assert sink.calls[-2:] == ["flush", "close"] and "abort" not in sink.calls


def test_of_a_class_each_run_has_an_object(con: ms.Session) -> None:
    made: list[Kept] = []

    class Noted(Kept):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    con.register_sink("out", Noted, {"n": "BIGINT", "s": "STRING"})
    for _ in range(2):
        con.execute("INSERT INTO out SELECT 1, 'a'")
    assert [sink.rows for sink in made] == [[(1, "a")], [(1, "a")]]


def test_a_sink_that_raises_fails_the_job(con: ms.Session) -> None:
    class Broken(Kept):
        def write(self, batch: ms.Batch) -> None:
            raise ConnectionResetError("the other side is gone")

    sink = Broken()
    job = numbers(con).write_to(sink, name="broken")
    with pytest.raises(ms.errors.ConnectorError) as caught:
        job.wait()
    assert caught.value.code == "MS4003"
    assert "the sink `broken` raised ConnectionResetError: the other side is gone when it was written" in caught.value.message
    assert isinstance(caught.value.__cause__, ConnectionResetError)
    assert sink.calls == ["abort", "close"]


def test_a_job_that_is_cancelled_aborts_its_sink(con: ms.Session) -> None:
    sink, written = Kept(), threading.Event()

    class Slow(Kept):
        def write(self, batch: ms.Batch) -> None:
            written.set()
            time.sleep(0.01)

    sink = Slow()
    con.execute("CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000')")
    job = con.table("ticks").write_to(sink)
    assert written.wait(10)
    job.cancel()
    assert job.state == "cancelled"
    assert sink.calls == ["abort", "close"]


def test_a_sink_that_hangs_is_interrupted(con: ms.Session) -> None:
    began = threading.Event()

    def hangs(batch: ms.Batch) -> None:
        began.set()
        while True:
            time.sleep(0.01)

    job = numbers(con).write_to(hangs)
    assert began.wait(10)
    start = time.monotonic()
    job.cancel()
    assert job.state == "cancelled" and time.monotonic() - start < 2.0


def test_what_is_no_sink(con: ms.Session) -> None:
    class NoWrite: ...

    class Half(Kept):
        def prepare(self, span: str) -> str:
            return ""

    async def later(batch: ms.Batch) -> None: ...

    for sink, message in ((17, "is no sink"), (NoWrite, "a method write"), (Half(), "has prepare"), (later, "cannot be async")):
        with pytest.raises(TypeError, match=message):
            numbers(con).write_to(sink)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="give is"):
        numbers(con).write_to(print, give="numpy")  # type: ignore[arg-type]
    con.register_sink("out", print, {"n": "BIGINT"})
    with pytest.raises(ms.errors.Error, match="cannot be read"):
        con.table("out").fetchall()
    with pytest.raises(ms.errors.QueryError):
        con.execute("INSERT INTO out SELECT 1, 2")


class TwoPhase:
    """Makes what it has written visible when it is committed."""

    def __init__(self) -> None:
        self.pending: list[Any] = []
        self.prepared: dict[str, list[Any]] = {}
        self.visible: list[Any] = []
        self.calls: list[str] = []

    def write(self, batch: ms.Batch) -> None:
        self.pending.extend(batch.rows())

    def recover(self, token: dict[str, str] | None) -> None:
        self.calls.append(f"recover {token}")
        self.pending = []

    def prepare(self, span: str) -> dict[str, str]:
        self.calls.append(f"prepare {span}")
        assert span not in self.prepared
        self.prepared[span], self.pending = self.pending, []
        return {"name": span}

    def commit(self, token: dict[str, str]) -> None:
        self.calls.append(f"commit {token['name']}")
        self.visible.extend(self.prepared.pop(token["name"], []))


def test_without_checkpoints_everything_is_one_span(con: ms.Session) -> None:
    sink = TwoPhase()
    numbers(con).write_to(sink).wait()
    assert len(sink.visible) == 5
    assert [call.split()[0] for call in sink.calls] == ["prepare", "commit"]


def test_spans_are_prepared_and_committed(tmp_path: pathlib.Path) -> None:
    sink = TwoPhase()
    with ms.connect(state_dir=tmp_path / "state", settings={"execution.checkpointing.interval": "20 ms"}) as con:
        con.execute("CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '2000', 'rows-per-second' = '10000')")
        con.table("ticks").write_to(sink).wait()
    assert len(sink.visible) == 2000 and not sink.pending and not sink.prepared
    commits = [call for call in sink.calls if call.startswith("commit")]
    assert len(commits) >= 2 and sink.calls[0] == "recover None"


JOB = """
    import json, os, pathlib, signal, sys, time
    import millstream as ms

    kill_at = sys.argv[1]

    class Files:
        # Rows wait in memory, are prepared as NAME.tmp, and visible as NAME.
        def __init__(self):
            self.rows, self.commits = [], 0
            pathlib.Path("out").mkdir(exist_ok=True)

        def recover(self, token):
            self.rows = []
            if token is not None:
                self.commit(token)
            for left in pathlib.Path("out").glob("*.tmp"):
                left.unlink()

        def write(self, batch):
            self.rows.extend(batch.rows())

        def prepare(self, span):
            checkpoint = int(span.split("-")[-1])
            name = f"out/{span}.json"
            pathlib.Path(name + ".tmp").write_text(json.dumps(self.rows))
            self.rows = []
            if kill_at == "prepare" and checkpoint > 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return name

        def commit(self, name):
            self.commits += 1
            if kill_at == "commit" and self.commits > 2:
                os.kill(os.getpid(), signal.SIGKILL)
            if pathlib.Path(name + ".tmp").exists():
                os.replace(name + ".tmp", name)

    def read(position):
        for first in range(position or 0, 3000, 10):
            time.sleep(0.001)
            yield first + 10, [(n,) for n in range(first, first + 10)]

    con = ms.connect(state_dir="state", settings={"execution.checkpointing.interval": "30 ms"})
    con.register_source("numbers", read, {"n": "BIGINT"}, positions=True)
    con.register_sink("files", Files, {"n": "BIGINT"})
    con.table("numbers").insert_into("files").wait()
"""


def test_two_phase_commit_is_exactly_once_when_the_process_is_killed(tmp_path: pathlib.Path) -> None:
    import json

    (tmp_path / "job.py").write_text(textwrap.dedent(JOB))
    for kill_at in ("prepare", "commit", "never"):
        done = subprocess.run([sys.executable, "job.py", kill_at], cwd=tmp_path, timeout=60, capture_output=True, text=True)
        assert done.returncode == (0 if kill_at == "never" else -9), done.stderr
    out = tmp_path / "out"
    assert not list(out.glob("*.tmp"))
    rows = sorted(n for path in out.glob("*.json") for (n,) in json.loads(path.read_text()))
    assert rows == list(range(3000))


def test_each_insert_has_its_own_spans(tmp_path: pathlib.Path) -> None:
    made: list[TwoPhase] = []

    class Own(TwoPhase):
        prepared_by_all: dict[str, list[Any]] = {}

        def __init__(self) -> None:
            super().__init__()
            self.prepared = Own.prepared_by_all
            made.append(self)

    both = "EXECUTE STATEMENT SET BEGIN INSERT INTO out SELECT n FROM t; INSERT INTO out SELECT -n FROM t; END"
    with ms.connect(state_dir=tmp_path / "state", settings={"execution.checkpointing.interval": "10 ms"}) as con:
        con.execute("CREATE TABLE t (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '500', 'rows-per-second' = '5000')")
        con.register_sink("out", Own, {"n": "BIGINT"})
        con.execute(both)
    assert sum(len(sink.visible) for sink in made) == 1000
    with ms.connect() as con:
        con.execute("CREATE TABLE t (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '500')")
        con.register_sink("out", TwoPhase(), {"n": "BIGINT"})
        with pytest.raises(ms.errors.ConnectorError, match="register its class"):
            con.execute(both)


def test_tokens_are_json(con: ms.Session) -> None:
    for token, message in ((None, "returned None"), ({1: "x"}, "use strings"), (float("nan"), "what JSON has"), (object(), "what JSON has")):

        class Wrong(TwoPhase):
            def prepare(self, span: str, token: Any = token) -> Any:
                return token

        with pytest.raises(ms.errors.ConnectorError, match=message):
            numbers(con).write_to(Wrong).wait()


def test_at_exit_a_sink_may_use_threads(tmp_path: pathlib.Path) -> None:
    script = """
        import concurrent.futures, pathlib, time
        import millstream as ms

        pool = concurrent.futures.ThreadPoolExecutor(2)

        class InThreads:
            def __init__(self): self.rows = 0
            def write(self, batch): self.rows = pool.submit(lambda: self.rows + len(batch)).result()
            def close(self): pathlib.Path("rows").write_text(str(self.rows))

        con = ms.connect()
        con.execute("CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000')")
        con.table("ticks").write_to(InThreads)
        time.sleep(0.5)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, timeout=60, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert int((tmp_path / "rows").read_text()) > 0
