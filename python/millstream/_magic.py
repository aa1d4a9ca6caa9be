"""SQL in cells of a notebook: ``%load_ext millstream``, then ``%%msql``."""

from __future__ import annotations

import re
import shlex
from types import ModuleType
from typing import Any

from millstream import errors
from millstream._frames import plain
from millstream._jobs import Job
from millstream._relation import Relation
from millstream._session import Session, default_session

USAGE = "%%msql [session] [-o name]"


def load_ipython_extension(shell: Any) -> None:
    """What ``%load_ext millstream`` calls: the cell magic ``%%msql`` is there."""

    def msql(line: str, cell: str) -> Relation | Job | None:
        """Executes a cell of SQL: %%msql [session] [-o name]

        A cell that ends with a query shows its first rows, one that ends with an INSERT or a statement set starts it as a job, and what else
        it ends with says what was done. `session` is a variable with a session of ms.connect(); without it the default one is used. `-o`
        names a variable for the relation or the job, which is not shown then. Data frames of the notebook are tables, and $name is the value
        of a variable.
        """
        try:
            return _run(line, cell, shell.user_ns)
        except (errors.Error, TypeError, ValueError) as error:
            # The cell fails. What it shows is the error: no line of Python is at fault.
            text = str(error) if isinstance(error, errors.Error) else f"{error}\nusage: {USAGE}"
            vars(error)["_render_traceback_"] = lambda *_: [text]
            raise

    shell.register_magic_function(msql, magic_kind="cell", magic_name="msql")


def _session_of(variables: dict[str, Any], name: str | None) -> Session:
    """The session of a variable, or the default one."""
    session = default_session() if name is None else variables.get(name)
    if isinstance(session, Session):
        return session
    raise ValueError(f"{name!r} is no variable with a session: {name} = ms.connect()")


def _run(line: str, cell: str, variables: dict[str, Any]) -> Relation | Job | None:
    words = shlex.split(line)
    target = None
    if "-o" in words:
        at = words.index("-o")
        if len(words) == at + 1 or not words[at + 1].isidentifier():
            raise ValueError("-o needs the name of a variable")
        target = words[at + 1]
        del words[at : at + 2]
    if len(words) > 1:
        raise ValueError(f"too many words: {' '.join(words)}")
    core = _session_of(variables, words[0] if words else None)._session

    def find(name: str) -> Any:
        value = variables.get(name)
        return None if isinstance(value, ModuleType) else plain(value)

    values = {name: variables[name] for name in re.findall(r"\$(\w+)", cell) if name in variables}
    result: Relation | Job
    if core.ends_with_insert(cell, values):
        result = Job(core.submit(cell, values, find, None))
    else:
        result = Relation(core.sql(cell, values, find), core)
    if target is None:
        return result
    variables[target] = result
    return None
