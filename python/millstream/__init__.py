"""Streaming SQL on one well-used machine: Flink's dialect, compiled to machine code.

>>> import millstream as ms
>>> ms.sql("SELECT 1 + 1 AS two").fetchall()
[(2,)]
"""

from millstream import errors
from millstream._core import Batch, Column, __version__
from millstream._functions import Function, udf
from millstream._jobs import Job
from millstream._relation import BatchReader, Relation
from millstream._session import Session, connect, default_session, execute, register, register_function, sql, submit
from millstream.errors import Error

__all__ = [
    "Batch",
    "BatchReader",
    "Column",
    "Error",
    "Function",
    "Job",
    "Relation",
    "Session",
    "__version__",
    "connect",
    "default_session",
    "errors",
    "execute",
    "register",
    "register_function",
    "sql",
    "submit",
    "udf",
]
