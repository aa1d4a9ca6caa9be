"""The notebooks of the gallery run, and what a newcomer tries in one ends as it should, in a real kernel."""

from __future__ import annotations

import pathlib
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

GALLERY = sorted((pathlib.Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def kernel() -> KernelManager:
    """The manager of a kernel of this Python, whatever is installed for its user."""
    manager = KernelManager()
    spec = manager.kernel_spec
    assert spec is not None
    spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    return manager


def shown(cell: Any, kind: str) -> list[str]:
    """What a cell shows of a kind of content."""
    return ["".join(output["data"][kind]) for output in cell.outputs if kind in output.get("data", {})]


@pytest.mark.parametrize("path", GALLERY, ids=[path.stem for path in GALLERY])
def test_the_gallery_runs(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    notebook: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    # What is stored is the same whoever has run it last.
    assert not any(cell.outputs or cell.execution_count for cell in code)
    client = NotebookClient(notebook, km=kernel(), timeout=60, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    errors = [output.text for cell in code for output in cell.outputs if output.output_type == "stream" and output.name == "stderr"]
    assert all(text.startswith("resuming from checkpoint ") for text in errors), errors
    for cell in code:
        if re.search(r"\.(plan|chart)\(", cell.source):
            assert all("<svg" in text for text in shown(cell, "text/html")) and shown(cell, "text/html")
    assert any("<table" in text for cell in code for text in shown(cell, "text/html"))


def test_there_are_five_notebooks() -> None:
    assert len(GALLERY) == 5


class Kernel:
    """A kernel, and what its cells give."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.manager = kernel()
        self.manager.start_kernel(cwd=str(directory))
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def start(self, code: str) -> str:
        return str(self.client.execute(code))

    def finish(self, request: str) -> tuple[str, list[dict[str, Any]]]:
        """``ok`` or ``error``, and all outputs of a cell."""
        outputs: list[dict[str, Any]] = []
        deadline = time.monotonic() + 60
        while True:
            message = self.client.get_iopub_msg(timeout=deadline - time.monotonic())
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                break
            if kind in ("stream", "display_data", "update_display_data", "execute_result", "error"):
                outputs.append({"kind": kind, **content})
        reply = self.client.get_shell_msg(timeout=60)
        while reply["parent_header"].get("msg_id") != request:
            reply = self.client.get_shell_msg(timeout=60)
        return reply["content"]["status"], outputs

    def run(self, code: str) -> tuple[str, str]:
        """``ok`` or ``error``, and all text of a cell."""
        status, outputs = self.finish(self.start(code))
        return status, "\n".join(map(text_of, outputs))

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def text_of(output: dict[str, Any]) -> str:
    if output["kind"] == "error":
        return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(output["traceback"]))
    return str(output["text"] if output["kind"] == "stream" else output["data"].get("text/plain", ""))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    it = Kernel(tmp_path_factory.mktemp("kernel"))
    status, text = it.run("""
import threading, time
import millstream as ms, polars as pl, pyarrow as pa
%load_ext millstream
con = ms.connect()
df = pl.DataFrame({"auction": [1, 2], "site": ["Baidu", "Apple"]})
ms.execute('''CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000', 'fields.n.min' = '1', 'fields.n.max' = '6')''')
ms.execute("CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole')")
""")
    assert status == "ok", text
    yield it
    it.close()


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        # A wrong column, a wrong type, an endless query without a limit.
        ('ms.sql("SELECT auktion FROM df")', ["MS2003", "unknown column `auktion`", "did you mean `auction`?"]),
        ('ms.table(df).filter(ms.col("prise") > 1)', ["unknown column `prise` in filter() at "]),
        ("ms.sql(\"SELECT site + 1 FROM df\")", ["error[MS2"]),
        ('ms.sql("SELECT * FROM nowhere")', ["MS2002", "nowhere"]),
        ('objects = pl.DataFrame({"x": [object()]}); ms.sql("SELECT * FROM objects")', ["MS2006", "`x`", "objects of Python"]),
        ('ms.register("t", pa.table({"x": pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0]), [pa.array([1])])}))', ["x", "nion"]),
        ('ms.sql("SELECT n FROM ticks").pl()', ["MS2016", "give `limit` or `timeout`"]),
        ('ms.sql("SELECT site FROM df").chart()', ["no number could be y", "chart(y=…)"]),
    ],
    ids=["column", "column-of-chain", "type", "table", "objects", "type-of-frame", "endless", "chart"],
)
def test_mistakes_are_told_with_advice(shared: Kernel, cell: str, expected: list[str]) -> None:
    status, text = shared.run(cell)
    assert status == "error"
    assert all(part in text for part in expected), text


def test_an_endless_query_is_shown_without_running_it(shared: Kernel) -> None:
    status, text = shared.run('ms.sql("SELECT n FROM ticks")')
    assert status == "ok" and "endless" in text and "BIGINT" in text


def test_errors_of_a_cell_of_sql_have_no_traceback(shared: Kernel) -> None:
    status, text = shared.run("%%msql\nSELECT auktion\nFROM df")
    assert status == "error" and "Traceback" not in text and "_magic.py" not in text
    assert text.splitlines()[:4] == ["error[MS2003]: unknown column `auktion`", "  --> SQL:1:8", "   |", " 1 | SELECT auktion"]
    for line in ("nobody", "con con", "-o"):
        status, text = shared.run(f"%%msql {line}\nSELECT 1")
        assert status == "error" and "Traceback" not in text and text.endswith("usage: %%msql [session] [-o name]"), text


def test_a_cell_of_sql_shows_what_it_gives(shared: Kernel) -> None:
    status, text = shared.run("least = 2\n")
    status, text = shared.run("%%msql\nSELECT site FROM df WHERE auction >= $least")
    assert status == "ok" and "Apple" in text and "(1 row)" in text, text
    status, text = shared.run("%%msql con -o defined\nCREATE VIEW v AS SELECT 7 AS n; SELECT n FROM v")
    assert (status, text) == ("ok", "")
    assert shared.run("print(con.tables(), defined.fetchall())") == ("ok", "['v'] [(7,)]\n")
    status, text = shared.run("%%msql\nEXPLAIN SELECT site FROM df")
    assert status == "ok" and "== Pipelines ==" in text and "\n" in text
    status, text = shared.run("%%msql\nINSERT INTO hole SELECT auction FROM df")
    assert status == "ok" and text.startswith("<Job: ") and "INSERT INTO hole" in text
    status, text = shared.run("%%msql\nCREATE VIEW `$least` AS SELECT 1 AS one")
    assert status == "ok" and "created" in text


@pytest.mark.parametrize(
    "cell",
    [
        'ms.sql("SELECT n FROM ticks WHERE n > 6").fetchall(limit=1)',
        'for batch in ms.sql("SELECT n FROM ticks").batches(): pass',
        'ms.sql("SELECT n FROM ticks WHERE n > 6").chart(x="n", y="n")',
        'ms.submit("INSERT INTO hole SELECT n FROM ticks").progress()',
    ],
    ids=["fetchall", "batches", "chart", "progress"],
)
def test_an_interrupt_ends_a_cell_and_leaves_the_session(shared: Kernel, cell: str) -> None:
    request = shared.start(cell)
    time.sleep(0.6)
    began = time.monotonic()
    shared.manager.interrupt_kernel()
    status, outputs = shared.finish(request)
    took = time.monotonic() - began
    # A chart is ended that way; what else is interrupted fails.
    assert "chart" in cell or (status == "error" and any(o["kind"] == "error" and o["ename"] == "KeyboardInterrupt" for o in outputs)), outputs
    # Typically a tenth of a second; a machine that is busy takes longer.
    assert took < 2.0
    assert shared.run('print(ms.sql("SELECT 1").fetchall())') == ("ok", "[(1,)]\n")


def test_what_grows_is_drawn_again_in_place(shared: Kernel) -> None:
    status, outputs = shared.finish(shared.start("""
job = ms.submit("INSERT INTO hole SELECT n FROM ticks")
job.progress(timeout=1.4)
state = job.state
job.cancel()
assert state == "running"
"""))
    assert status == "ok", outputs
    kinds = [output["kind"] for output in outputs]
    assert kinds[0] == "display_data" and kinds.count("update_display_data") >= 2 and set(kinds) == {"display_data", "update_display_data"}
    assert "rows in" in outputs[-1]["data"]["text/html"] and "<table" in outputs[-1]["data"]["text/html"]
    assert len({output["transient"]["display_id"] for output in outputs}) == 1
    status, outputs = shared.finish(shared.start("""
from millstream import Tumble, count
ms.execute('''CREATE TABLE timed (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'rows-per-second' = '1000')''')
chart = ms.table("timed").window(Tumble("200ms")).agg(n=count()).chart(timeout=1.4)
chart
"""))
    kinds = [output["kind"] for output in outputs]
    # The cell that has drawn it does not show it a second time.
    assert status == "ok" and kinds[0] == "display_data" and set(kinds[1:]) == {"update_display_data"} and len(kinds) >= 3
    status, outputs = shared.finish(shared.start("chart"))
    assert [output["kind"] for output in outputs] == ["execute_result"] and "<svg" in outputs[0]["data"]["text/html"]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (
            """
def batches():
    yield pa.record_batch({"n": [1]})
    raise OSError("the disk is gone")
data = pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), batches())
""",
            "the disk is gone",
        ),
        (
            """
class Frame:
    def __arrow_c_stream__(self, requested_schema=None):
        raise OSError("the disk is gone")
data = Frame()
""",
            "the disk is gone",
        ),
    ],
    ids=["reader", "frame"],
)
def test_a_source_that_raises_fails_the_cell(shared: Kernel, make: str, error: str) -> None:
    status, text = shared.run(make + 'ms.sql("SELECT n FROM data").fetchall()')
    assert status == "error" and error in text
    assert shared.run('print(ms.sql("SELECT 1").fetchall())') == ("ok", "[(1,)]\n")


RESTART = """
import millstream as ms
con = ms.connect(state_dir="state")
con.execute('''
    CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '2000',
        'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '1000000000');
    CREATE TABLE out (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'csv')
''')
job = con.submit("INSERT INTO out SELECT n FROM numbers")
while job.stats().get("rows_in", 0) < 500: pass
"""


def test_a_kernel_restarts_while_a_job_runs(tmp_path: pathlib.Path) -> None:
    it = Kernel(tmp_path)
    try:
        assert it.run(RESTART)[0] == "ok"
        _, text = it.run("import os; print(os.getpid())")
        before = int(text)
        began = time.monotonic()
        it.manager.restart_kernel()
        it.client.wait_for_ready(timeout=60)
        # Within the time that Jupyter waits before it kills.
        assert time.monotonic() - began < 15
        assert not pathlib.Path(f"/proc/{before}").exists()
        # The state directory is free, and the job goes on from it.
        status, text = it.run(RESTART + "job.stop(); job.wait(); print(job.state)")
        assert status == "ok" and "stopped" in text, text
    finally:
        it.close()
    written = sorted(int(line) for file in (tmp_path / "out").iterdir() if file.is_file() for line in file.read_text().split())
    assert written == list(range(1, len(written) + 1)) and len(written) >= 1000
