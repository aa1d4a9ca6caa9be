"""INSERTs in the background."""

import asyncio
import logging
import pathlib
import subprocess
import sys
import time
from datetime import datetime, timezone

import millstream as ms
import polars as pl
import pytest

EVENTS = """
    CREATE TABLE events (ts TIMESTAMP(3), n BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen',
        'rows-per-second' = '2000', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '1000000000')
"""


def until(done: object, seconds: float = 20.0) -> None:
    assert callable(done)
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.01)


def sink(con: ms.Session, path: pathlib.Path) -> None:
    con.execute(f"CREATE TABLE out (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')")


def rows(path: pathlib.Path) -> list[int]:
    return sorted(int(line) for file in path.iterdir() if file.is_file() for line in file.read_text().split())


def test_a_job_runs_to_its_end(con: ms.Session, tmp_path: pathlib.Path) -> None:
    sink(con, tmp_path / "out")
    df = pl.DataFrame({"n": range(100_000)})
    job = con.submit("INSERT INTO out SELECT n FROM df WHERE n >= 0")
    job.wait()
    assert df.height == 100_000
    assert job.state == "finished" and job.error is None and job.watermark is None
    assert job.stats()["rows_out"] == 100_000
    assert rows(tmp_path / "out") == list(range(100_000))
    assert repr(job).startswith("<Job: finished after ") and repr(job).endswith(": INSERT INTO out SELECT n FROM df WHERE n >= 0>")
    job.wait()
    job.stop()
    assert job.state == "finished"


def test_insert_into_writes_the_rows_of_a_relation(con: ms.Session, tmp_path: pathlib.Path) -> None:
    df = pl.DataFrame({"n": [1, 2, 3]})
    relation = con.sql("SELECT n FROM df WHERE n > ?", [1])
    assert df.height == 3
    con.execute(f"CREATE TABLE df (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'x.csv'}', 'format' = 'csv')")
    relation.insert_into("df").wait()
    assert (tmp_path / "x.csv").read_text() == "2\n3\n"
    with pytest.raises(ms.Error) as caught:
        relation.insert_into("df").wait()
    assert caught.value.code == "MS4014"
    relation.insert_into("df", overwrite=True).wait()
    with pytest.raises(ms.errors.QueryError, match="nowhere"):
        relation.insert_into("nowhere")
    with pytest.raises(ms.errors.QueryError):
        con.sql("SELECT 'text', 2").insert_into("df")


def test_a_job_is_stopped_or_cancelled(con: ms.Session) -> None:
    con.execute(EVENTS + "; CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole')")
    job = con.submit("""
        INSERT INTO hole SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND))
        GROUP BY window_start, window_end
    """)
    until(lambda: job.stats().get("rows_in", 0) > 100)
    assert job.state == "running"
    until(lambda: job.watermark is not None)
    assert job.watermark is not None and job.watermark.tzinfo is timezone.utc and job.watermark > datetime(2025, 1, 1, tzinfo=timezone.utc)
    with pytest.raises(TimeoutError):
        job.wait(timeout=0.05)
    with pytest.raises(ms.errors.ConfigurationError, match="state_dir"):
        job.checkpoint()
    job.stop()
    job.wait(timeout=10)
    assert repr(job).startswith("<Job: stopped")
    other = con.sql("SELECT n FROM events").insert_into("hole")
    began = time.monotonic()
    other.cancel()
    other.wait(timeout=10)
    assert time.monotonic() - began < 2
    assert other.state == "cancelled" and other.error is None


def test_a_job_goes_on_from_its_checkpoint(tmp_path: pathlib.Path) -> None:
    def run(seconds: float) -> None:
        with ms.connect(state_dir=tmp_path / "state") as con:
            con.execute(EVENTS)
            sink(con, tmp_path / "out")
            job = con.submit("INSERT INTO out SELECT n FROM events")
            until(lambda: job.stats().get("rows_in", 0) > 200)
            job.checkpoint()
            assert job.stats()["checkpoints"]["complete"] >= 1
            time.sleep(seconds)
            job.stop()
            job.wait()
            assert job.state == "stopped"

    run(0.2)
    first = len(rows(tmp_path / "out"))
    run(0.0)
    written = rows(tmp_path / "out")
    assert written == list(range(1, len(written) + 1)) and len(written) > first > 200


def test_a_job_that_was_stopped_resumes_in_the_same_session(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    with ms.connect(state_dir=tmp_path / "state") as con:
        con.execute(EVENTS)
        sink(con, tmp_path / "out")
        for _ in range(3):
            job = con.submit("INSERT INTO out SELECT n FROM events")
            until(lambda: job.stats().get("rows_in", 0) > 200)
            job.stop()
            job.wait()
    written = rows(tmp_path / "out")
    assert written == list(range(1, len(written) + 1))
    assert "resuming from checkpoint" in caplog.text


def test_other_rows_under_the_same_statement_are_told(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    def run(numbers: list[int]) -> None:
        with ms.connect(state_dir=tmp_path / "state") as con:
            sink(con, tmp_path / "out")
            df = pl.DataFrame({"n": numbers})
            con.execute("INSERT INTO out SELECT n FROM df")
            assert df.height == len(numbers)

    run([1, 2])
    run([1, 2])
    assert "had come to its end before" in caplog.text and "in memory" not in caplog.text
    run([3, 4])
    assert "the rows of a table in memory are not those that the job has read" in caplog.text
    assert rows(tmp_path / "out") == [1, 2]


def test_the_state_directory_is_free_when_the_last_job_has_ended(tmp_path: pathlib.Path) -> None:
    con = ms.connect(state_dir=tmp_path / "state")
    con.execute(EVENTS + "; CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole')")
    job = con.submit("INSERT INTO hole SELECT n FROM events")
    con.close()
    with ms.connect(state_dir=tmp_path / "state") as other:
        other.execute(EVENTS + "; CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole')")
        with pytest.raises(ms.Error) as caught:
            other.submit("INSERT INTO hole SELECT n FROM events")
        assert caught.value.code == "MS3015"
        job.stop()
        job.wait()
        again = other.submit("INSERT INTO hole SELECT n FROM events")
        again.stop()
        again.wait()


def test_a_failure_after_a_timeout_is_told(con: ms.Session, caplog: pytest.LogCaptureFixture) -> None:
    con.execute(EVENTS + "; CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole')")
    job = con.submit("INSERT INTO hole SELECT n / (n - 2000) FROM events")
    with pytest.raises(TimeoutError):
        job.wait(timeout=0.05)
    until(lambda: "MS3002" in caplog.text)
    assert job.state == "failed"


def test_a_failure_is_raised_and_told(con: ms.Session, caplog: pytest.LogCaptureFixture) -> None:
    con.execute("CREATE TABLE hole (n INT) WITH ('connector' = 'blackhole')")
    with caplog.at_level(logging.ERROR, logger="millstream"):
        job = con.submit("INSERT INTO hole SELECT CAST(s AS INT) FROM (VALUES ('1'), ('x')) AS t (s)")
        until(lambda: bool(caplog.records))
    assert "MS3003" in caplog.text
    assert job.state == "failed" and job.error is not None and job.error.code == "MS3003"
    with pytest.raises(ms.errors.RunError, match="MS3003"):
        job.wait()


def test_what_cannot_be_submitted(con: ms.Session) -> None:
    con.execute("CREATE TABLE hole (n INT) WITH ('connector' = 'blackhole')")
    for script in ("SELECT 1", "", "CREATE VIEW v AS SELECT 1 AS n", "INSERT INTO hole SELECT 1; INSERT INTO hole SELECT 2"):
        with pytest.raises(ms.errors.QueryError):
            con.submit(script)
    con.submit("EXECUTE STATEMENT SET BEGIN INSERT INTO hole SELECT 1; INSERT INTO hole SELECT 2; END").wait()


def test_jobs_are_awaited(con: ms.Session) -> None:
    con.execute(EVENTS + "; CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole')")

    async def run() -> tuple[str, str]:
        bounded, endless = con.submit("INSERT INTO hole SELECT 1"), con.submit("INSERT INTO hole SELECT n FROM events")
        await bounded
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(endless, timeout=0.2)
        state = endless.state
        endless.stop()
        await endless
        return state, endless.state

    assert asyncio.run(run()) == ("running", "stopped")


def test_jobs_end_in_order_at_exit(tmp_path: pathlib.Path) -> None:
    script = f"""
import time
import millstream as ms
con = ms.connect(state_dir={str(tmp_path / "state")!r})
con.execute('''{EVENTS}''')
con.execute("CREATE TABLE out (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / "out"}', 'format' = 'csv')")
job = con.submit("INSERT INTO out SELECT n FROM events")
while job.stats().get("rows_in", 0) < 500:
    time.sleep(0.01)
reader = con.sql("SELECT n FROM events").batches()
next(reader)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
    written = rows(tmp_path / "out")
    assert written == list(range(1, len(written) + 1)) and len(written) >= 500


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_child_is_told_what_to_do() -> None:
    script = """
import os, sys
import millstream as ms
con = ms.connect()
con.execute("CREATE TABLE e (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100', 'fields.n.min' = '1', 'fields.n.max' = '2')")
con.execute("CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole')")
relation, job = con.sql("SELECT n FROM e LIMIT 1"), con.submit("INSERT INTO hole SELECT n FROM e")
reader = con.sql("SELECT n FROM e").batches()
next(reader)
child = os.fork()
if child == 0:
    codes = []
    for use in (lambda: con.sql("SELECT 1"), relation.fetchall, job.stats, lambda: next(reader), ms.connect):
        try:
            use()
        except ms.Error as error:
            codes.append(error.code)
    del relation, reader, job
    print(codes, flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
print(len(relation.fetchall()), job.state)
"""
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [str(["MS1008"] * 5), "1 running"]


def test_thousands_of_sessions_leave_nothing() -> None:
    script = """
import gc, os, threading
import millstream as ms
def held():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
def work(count):
    for n in range(count):
        with ms.connect() as con:
            con.execute("CREATE VIEW v AS SELECT 1 AS n")
            assert con.sql("SELECT n FROM v").fetchall() == [(1,)] if n % 20 == 0 else con.tables() == ["v"]
work(500)
gc.collect()
before, threads, files = held(), threading.active_count(), len(os.listdir("/proc/self/fd"))
work(10_000)
gc.collect()
print(held() - before, threading.active_count() - threads, len(os.listdir("/proc/self/fd")) - files, len(os.listdir("/proc/self/task")))
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert (result.returncode, result.stderr) == (0, "")
    grown, threads, files, tasks = map(int, result.stdout.split())
    assert grown < 24 << 20 and threads <= 0 and files <= 0 and tasks < 20
