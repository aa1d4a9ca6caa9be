"""The examples of the docs run, and print what the page says.

Blocks of a page run in order, in one process and an empty directory: ``python`` is run, and a ``text`` behind it is what it has printed; behind
a call, `# […]` is its rows in any order. What stands behind "`name`:" is the file of that name. ``py`` is code for other libraries, and is parsed; ``sh``
is parsed, too. ``sql`` is planned where a page needs no server. Commands and their output, ``console``, are run by
``crates/cli/tests/docs/examples.rs``.
"""

import ast
import contextlib
import importlib.util
import io
import pathlib
import re
import shutil
import subprocess

import millstream as ms
import pytest

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^(?:[^\n]*`([^`\n]+\.\w+)`:\n\n)?```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROWS = re.compile(r"^(ms\.sql\(.*?\)\.fetchall\(\)|\w[\w.]*\.\w+\([^#\n]*?\)) *# (\[.*?\])", re.MULTILINE)

PAGES = {page.relative_to(DOCS).as_posix(): page.read_text(encoding="utf-8") for page in sorted(DOCS.rglob("*.md"))}
#: Its blocks are signatures.
REFERENCE = "python-api.md"


def blocks(page: str, *kinds: str) -> list[tuple[str, str, int]]:
    """Kind, text and line of the blocks of a page that are no files."""
    text = PAGES[page]
    return [(b[2], b[3], text.count("\n", 0, b.start(3))) for b in BLOCK.finditer(text) if b[2] in kinds and b[1] is None]


@pytest.mark.parametrize("page", [page for page in PAGES if page != REFERENCE and blocks(page, "python")])
def test_examples(page: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # A default session of its own.
    monkeypatch.setattr("millstream._session._default", ms.connect())
    variables: dict[str, object] = {"__name__": "example"}
    for block in BLOCK.finditer(PAGES[page]):
        if block[1] is not None:
            pathlib.Path(block[1]).write_text(block[3], encoding="utf-8")
    printed = None
    for kind, body, line in blocks(page, "python", "text"):
        if kind == "text":
            assert printed == body, f"what {page}:{line} says is printed"
            continue
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile("\n" * line + body, str(DOCS / page), "exec"), variables)
        printed = output.getvalue()
        for expression, rows in ROWS.findall(body):
            assert sorted(eval(expression, variables)) == sorted(eval(rows)), expression


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "py")])
def test_code_for_other_libraries_is_parsed(page: str) -> None:
    for _, body, line in blocks(page, "py"):
        ast.parse("\n" * line + body, str(DOCS / page))


#: What queries of a page read that it does not create.
TABLES = {
    "connectors.md": "",
    "sql-reference.md": """
        CREATE TABLE a (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
        CREATE TABLE b (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
        CREATE TABLE orders (id BIGINT, k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
    """,
}


@pytest.mark.parametrize("page", TABLES)
def test_sql_is_planned(page: str, con: ms.Session) -> None:
    con.execute(TABLES[page])
    for _, body, line in blocks(page, "sql"):
        for script in re.split(r";\s*\n(?=SELECT)", body.replace("WITH (…)", "WITH ('connector' = 'datagen')")):
            try:
                con.sql(script)
            except ms.Error as error:
                pytest.fail(f"{page}:{line}: {error}")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "sh")])
def test_commands_are_parsed(page: str) -> None:
    for _, body, line in blocks(page, "sh"):
        parsed = subprocess.run(["bash", "-n"], input="\n" * line + body, capture_output=True, text=True)
        assert parsed.returncode == 0, f"{page}: {parsed.stderr}"


def test_the_reference_is_what_the_code_says() -> None:
    spec = importlib.util.spec_from_file_location("api_reference", ROOT / "scripts/api_reference.py")
    assert spec is not None and spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    assert PAGES[REFERENCE] == reference.page(), "docs/python-api.md is out of date: run `make docs`"
