"""Code of a program on other nodes of a cluster: pickled here, and made again there."""

from __future__ import annotations

import importlib
import pickle
import platform
import sys
from typing import Any

from millstream import _core

#: A method of a session that registers something, its arguments, and those by name.
Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def _pickler() -> Any:
    """The module that pickles functions by value; that of Ray where it is used: its nodes have that."""
    try:
        return importlib.import_module("ray.cloudpickle" if "ray" in sys.modules else "cloudpickle")
    except ImportError:
        return pickle


def _interpreter() -> str:
    return f"{platform.python_implementation()} {sys.version_info.major}.{sys.version_info.minor}"


def dump(call: Call) -> bytes:
    """What :func:`load` makes the call of. The interpreter comes first: code of one is not that of another."""
    pickler = _pickler()
    try:
        pickled: bytes = pickler.dumps(call)
    except Exception as error:
        needs = ". Functions of __main__ and lambdas need cloudpickle: pip install cloudpickle" if pickler is pickle else ""
        raise TypeError(f"{error}{needs}") from None
    return f"{_interpreter()}\n".encode() + pickled


def load(session: _core.Session, dumped: bytes) -> None:
    """Make the call, for a session of this node."""
    from millstream._session import Session

    interpreter, _, pickled = dumped.partition(b"\n")
    if interpreter.decode() != _interpreter():
        raise RuntimeError(f"the program runs in {interpreter.decode()}, and this node in {_interpreter()}")
    method, arguments, options = pickle.loads(pickled)
    getattr(Session(session), method)(*arguments, **options)
