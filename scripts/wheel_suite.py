#!/usr/bin/env python3
"""Runs `python/tests` with an installed wheel: `scripts/wheel_suite.py <folder> [<wheel>]`. A part of `scripts/test_wheel.sh`.

Standard input has `<version> <interpreter>` for each Python; of several with one minor version the last one counts. Each has two virtual
environments, which are kept in the folder: the quickstart runs with what its page has its reader install, everything else with
`python/tests/requirements.txt`. The first Python runs all tests, others those that are quick. Without a wheel only the environments are made.

The tests see a copy of the parts of the tree that they read. The package is not among them, so only an installed one can be imported.
There is no compiler on their PATH, and no variable of the caller.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = (ROOT / "python/tests/requirements.txt").read_text(encoding="utf-8").split()

TREE = ["docs", "examples", "pyproject.toml", "python/tests", "tests/flink/data", "tests/sql"]

#: Tests of the source tree, which a wheel's user does not have, and where the wheel has the same tested.
OF_SOURCES = {
    "python/tests/test_bench_record.py": "scripts/bench_record.py, which is not in the wheel",
    "python/tests/test_licences.py": "deny.toml and scripts/licences.py; scripts/test_wheel.sh looks for the licences in the wheel",
    "python/tests/test_docs.py::test_the_reference_is_what_the_code_says": "docs/python-api.md beside the text of the source",
}

#: What takes long and is the same with each Python: mypy, many examples of one property, many sessions.
SLOW = [
    "python/tests/chain/test_chains.py",
    "python/tests/test_aggregates.py::test_arguments_of_several_types_arrive",
    "python/tests/test_jobs.py::test_thousands_of_sessions_leave_nothing",
    "python/tests/test_types.py::test_every_arrow_type_comes_out_as_it_went_in",
    "python/tests/test_types.py::test_types_are_right",
]

QUICKSTART = ["python/tests/test_docs.py::test_examples[quickstart.md]", "python/tests/test_installed.py"]
#: Polars, as the page says, and what runs its examples here.
FOR_QUICKSTART = [word for word in REQUIREMENTS if re.match("hypothesis|polars|pytest", word)]

INSTALLED = '''"""The tests see the package of the wheel only, and no compiler."""

import pathlib
import shutil
import subprocess
import sys
import sysconfig

import millstream


def test_the_package_is_that_of_the_wheel(tmp_path: pathlib.Path) -> None:
    place = pathlib.Path(sysconfig.get_path("platlib")) / "millstream"
    files = [str(module.__file__) for name, module in sys.modules.items() if name.split(".")[0] == "millstream"]
    assert {pathlib.Path(file).parent for file in files} == {place}
    script = "import millstream; print(millstream.__file__)"
    result = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert result.stdout.strip() == millstream.__file__ == str(place / "__init__.py")
    assert shutil.which("millstream") == str(pathlib.Path(sys.executable).with_name("millstream"))


def test_there_is_no_compiler() -> None:
    assert [name for name in ("as", "c99", "cc", "clang", "gcc", "ld", "make") if shutil.which(name)] == []
'''

#: Seconds until tests are taken for stuck.
TIMEOUT = 1800


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def pip(place: Path, *words: str) -> bool:
    done = subprocess.run([place / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *words], stdin=subprocess.DEVNULL)
    return done.returncode == 0


def environment(interpreter: str, place: Path, requirements: list[str]) -> list[str]:
    """Makes an environment, if it is not there, and gives those of the requirements that pip finds no build for."""
    made, wanted = place / "installed.txt", "\n".join(requirements)
    if made.exists() and made.read_text() == wanted:
        return []
    say(f"  making {place}")
    subprocess.run([interpreter, "-m", "venv", "--clear", place], check=True)
    binary = ["--only-binary", ":all:"]
    if pip(place, *binary, *requirements):
        made.write_text(wanted)
        return []
    # It is made again the next time: there may be builds then.
    return [word for word in requirements if not pip(place, *binary, word)]


def copy_of_tree(tree: Path) -> None:
    shutil.rmtree(tree, ignore_errors=True)
    for part in TREE:
        (tree / part).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, tree / part)
    (tree / "python/tests/test_installed.py").write_text(INSTALLED, encoding="utf-8")


def users(tree: Path, requirements: list[str]) -> list[str]:
    """The files and pages of tests that import one of the requirements, whose modules have their names, or give its name to what does."""
    names = "|".join(re.split(r"\W", word)[0] for word in requirements)
    use = re.compile(rf"^ *(?:import|from) (?:{names})\b|\"(?:{names})\"", re.MULTILINE)

    def of(folder: str, kind: str) -> list[Path]:
        return [file.relative_to(tree / folder) for file in sorted((tree / folder).rglob(kind)) if use.search(file.read_text(encoding="utf-8"))]

    pages = [f"python/tests/test_docs.py::test_examples[{page.as_posix()}]" for page in of("docs", "*.md")]
    return [f"python/tests/{file.as_posix()}" for file in of("python/tests", "*.py")] + pages


def surroundings(folder: Path, place: Path) -> tuple[Path, dict[str, str]]:
    """An empty directory to run in, and the variables: with no command on PATH but those of the environment, and bash."""
    home, tools = folder / "home", folder / "tools"
    for new in (home, tools):
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
    # The commands of the docs are parsed by it.
    bash = shutil.which("bash")
    assert bash is not None
    (tools / "bash").symlink_to(bash)
    return home, {"HOME": str(home), "LANG": "C.UTF-8", "PATH": f"{place}/bin:{tools}", "PYTHONDONTWRITEBYTECODE": "1"}


def tests_pass(folder: Path, place: Path, name: str, tests: list[str], left_out: Iterable[str]) -> bool:
    """Runs tests of the copy in an environment, and says how it went."""
    tree, log = folder / "tree", folder / f"{name.replace(' ', '-')}.log"
    command: list[str | Path] = [place / "bin/python", "-m", "pytest", "-q", "-rfEs", "--durations=15", "-p", "no:cacheprovider"]
    command += ["-o", "faulthandler_timeout=300", "--rootdir", tree, *(tree / test for test in tests)]
    for test in left_out:
        command += ["--deselect", test] if "::" in test else ["--ignore", tree / test]
    home, variables = surroundings(folder, place)
    with log.open("w") as output:
        try:
            done = subprocess.run(command, cwd=home, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=TIMEOUT)
            ended = f"pytest ends with {done.returncode}"
        except subprocess.TimeoutExpired:
            ended = f"not done after {TIMEOUT} s"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    for line in lines:
        if re.match("FAILED |ERROR |SKIPPED ", line):
            say(f"    {line}")
    # The interpreter may say something behind it, at its exit.
    summaries = [line for line in lines if re.match(r"\d+ (?:passed|failed|error|skipped|deselected)", line)]
    say(f"  {name}: {(summaries or lines or ['no output'])[-1]}")
    if ended != "pytest ends with 0":
        say(f"FAILED: {name}: {ended}; see {log}")
    return ended == "pytest ends with 0"


def newest_of_minors(lines: str) -> dict[str, tuple[str, str]]:
    """Version and interpreter for each minor version, of lines with both."""
    pairs = [(version, interpreter) for version, interpreter in (line.split(maxsplit=1) for line in lines.splitlines())]
    return {".".join(version.split(".")[:2]): (version, interpreter) for version, interpreter in pairs}


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    wheel = Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else None
    pythons = newest_of_minors(sys.stdin.read())
    if not pythons:
        say("FAILED: there is no Python to run them with")
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    copy_of_tree(folder / "tree")
    for test, why in OF_SOURCES.items():
        say(f"  not with a wheel: {test} ({why})")
    failures, notes = 0, []
    for minor, (version, interpreter) in pythons.items():
        small, large = folder / f"quickstart-{version}", folder / f"python-{version}"
        missing = {*environment(interpreter, small, FOR_QUICKSTART), *environment(interpreter, large, REQUIREMENTS)}
        without = users(folder / "tree", sorted(missing)) if missing else []
        if missing:
            notes.append(f"LEFT OUT with Python {version}, which has no build of {', '.join(sorted(missing))}: {', '.join(without)}")
            say(notes[-1])
        if wheel is None:
            continue
        # Without an index pip says so if the wheel needs anything.
        if not all(pip(place, "--no-index", "--force-reinstall", str(wheel)) for place in (small, large)):
            say(f"FAILED: pip of {interpreter} does not install {wheel.name}")
            failures += 1
            continue
        is_first = minor == next(iter(pythons))
        failures += not tests_pass(folder, small, f"{minor} quickstart", QUICKSTART, [])
        left_out = [*OF_SOURCES, *([] if is_first else SLOW), *without]
        failures += not tests_pass(folder, large, f"{minor} {'all' if is_first else 'quick'}", ["python/tests"], left_out)
    for note in notes:
        say(note)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
