"""The command ``millstream`` of the package."""

import json
import signal
import subprocess
import sys
import time

import millstream


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "millstream", *words], capture_output=True, text=True, timeout=120)


def test_version() -> None:
    assert run("--version").stdout.split()[:2] == ["millstream", millstream.__version__]


def test_a_query_is_compiled_and_its_rows_are_printed() -> None:
    sql = """
        CREATE TABLE t (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '0',
            'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '100000');
        SELECT n, n * 2 AS twice FROM t WHERE n > 99998
    """
    result = run("sql", "-e", sql, "--output", "json", "--tier", "compile")
    assert result.returncode == 0, result.stderr
    assert sorted(json.loads(line)["twice"] for line in result.stdout.splitlines()) == [199998, 200000]


def test_an_error_has_code_place_and_exit_code() -> None:
    result = run("sql", "-e", "SELECT nothing FROM nowhere")
    assert result.returncode == 1
    assert "MS2" in result.stderr and "nowhere" in result.stderr


def test_an_interrupt_ends_the_query() -> None:
    sql = """
        CREATE TABLE t (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100', 'fields.n.min' = '1', 'fields.n.max' = '9');
        SELECT n FROM t
    """
    process = subprocess.Popen([sys.executable, "-m", "millstream", "sql", "-e", sql, "--output", "json"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    process.stdout.read()
    assert process.wait(timeout=60) in (0, 130)
    assert time.monotonic() - began < 30


def test_an_import_is_light() -> None:
    """What takes longer to import than the package itself is imported where it is needed."""
    code = "import sys, millstream; print(sorted({'asyncio', 'multiprocessing', 'concurrent', 'logging', 'inspect', 'json', 'dataclasses', 'shutil', 'uuid', 'html', 'polars', 'pyarrow', 'numpy'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
