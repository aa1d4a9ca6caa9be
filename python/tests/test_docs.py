"""The examples of the docs run, and print what the page says."""

import contextlib
import io
import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["python.md"])
def test_examples(page: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text()
    variables: dict[str, object] = {"__name__": "example"}
    printed = None
    ran = 0
    for block in BLOCK.finditer(text):
        kind, body = block.groups()
        if kind == "text":
            assert printed == body, f"what {page} says is printed"
            continue
        output = io.StringIO()
        line = text.count("\n", 0, block.start(2))
        with contextlib.redirect_stdout(output):
            exec(compile("\n" * line + body, str(DOCS / page), "exec"), variables)
        printed = output.getvalue()
        ran += 1
        for expression, value in re.findall(r"^(ms\.sql\(.*?\)\.fetchall\(\)|\w[\w.]*\.\w+\([^#\n]*?\)) *# (\[.*?\])", body, re.MULTILINE):
            found = eval(expression, variables)
            assert sorted(found) == sorted(eval(value)), expression
    assert ran > 5
