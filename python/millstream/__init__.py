"""Streaming SQL on one well-used machine: Flink's dialect, compiled to machine code.

>>> import millstream as ms
>>> ms.sql("SELECT 1 + 1 AS two").fetchall()
[(2,)]
"""

from typing import TYPE_CHECKING

from millstream import errors
from millstream._aggregates import Aggregate, udaf
from millstream._charts import Chart
from millstream._clusters import Cluster
from millstream._core import Batch, Column, __version__
from millstream._expressions import (
    CountWindow,
    Cumulate,
    Expression,
    Hop,
    SessionWindow,
    Tumble,
    call,
    col,
    count,
    left,
    lit,
    right,
    when,
)
from millstream._functions import Function, udf
from millstream._jobs import Job
from millstream._magic import load_ipython_extension
from millstream._plans import Plan
from millstream._relation import BatchReader, Relation
from millstream._session import (
    Session,
    connect,
    create_table,
    default_session,
    execute,
    register,
    register_function,
    register_sink,
    register_source,
    sql,
    submit,
    table,
)
from millstream._sinks import Sink
from millstream.errors import Error

if TYPE_CHECKING:
    from millstream import connectors

__all__ = [
    "Aggregate",
    "Batch",
    "BatchReader",
    "Chart",
    "Cluster",
    "Column",
    "CountWindow",
    "Cumulate",
    "Error",
    "Expression",
    "Function",
    "Hop",
    "Job",
    "Plan",
    "Relation",
    "Session",
    "SessionWindow",
    "Sink",
    "Tumble",
    "__version__",
    "call",
    "col",
    "connect",
    "connectors",
    "count",
    "create_table",
    "default_session",
    "errors",
    "execute",
    "left",
    "lit",
    "load_ipython_extension",
    "register",
    "register_function",
    "register_sink",
    "register_source",
    "right",
    "sql",
    "submit",
    "table",
    "udaf",
    "udf",
    "when",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        # Its classes take about as long to make as the rest of the package takes to import.
        if name == "connectors":
            from importlib import import_module

            return import_module("millstream.connectors")
        raise AttributeError(f"module 'millstream' has no attribute {name!r}")
