"""Functions of Python in SQL."""

from __future__ import annotations

import datetime
import decimal
import functools
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, ParamSpec, TypeVar, overload

from millstream._core import Column
from millstream._durations import Duration
from millstream._frames import plain

P = ParamSpec("P")
R = TypeVar("R")

Arrow = Literal["polars", "pyarrow", "numpy"]
By = Literal["column", "row"]

#: What columns are given as, and the packages that this needs.
_PACKAGES: dict[str, list[str]] = {"polars": ["polars"], "pyarrow": ["pyarrow"], "numpy": ["numpy", "polars"]}

#: The SQL types of annotations.
_TYPES: dict[object, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "STRING",
    bytes: "BYTES",
    decimal.Decimal: "DECIMAL(38, 18)",
    datetime.date: "DATE",
    datetime.time: "TIME(3)",
    datetime.datetime: "TIMESTAMP(6)",
    datetime.timedelta: "INTERVAL DAY TO SECOND(3)",
}


class Function(Generic[P, R]):
    """A function that SQL can call once a session knows it: ``session.register_function(f)``. Made by :func:`udf`. Called in Python it is what it
    was."""

    __name__: str

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str,
        returns: str,
        takes: Sequence[str] | None,
        by: By,
        arrow: Arrow | None,
        version: str | None,
        deterministic: bool,
        processes: int,
        asynchronous: Callable[..., Column] | None = None,
    ) -> None:
        self.name, self.returns, self.takes, self.version, self.deterministic = name, returns, takes, version, deterministic
        self.by = by
        self._function = function
        self._callable: Callable[..., Any] = function
        # In other processes what is called by row comes as columns, too: a row each would cost a trip each. So does what waits for many rows.
        self._by_rows = by == "row" and not processes and asynchronous is None
        if asynchronous is not None:
            self._callable = asynchronous
        elif processes:
            # What runs processes takes longer to import than the rest of this package.
            from millstream._processes import InProcesses

            self._callable = InProcesses(function, by, arrow, returns, processes)
        elif by == "column":
            self._callable = functools.partial(call_by_column, function, arrow)
        functools.update_wrapper(self, function)
        #: What :func:`udf` was given. Not of the function: that may be one that has been made such before.
        self._options: dict[str, Any] = {}

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        # On another node it has processes and loops of its own.
        return _again, (self._function, self._options)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        takes = "…" if self.takes is None else ", ".join(self.takes)
        return f"<Function: {self.name}({takes}) RETURNS {self.returns}, by {self.by}>"


@overload
def udf(function: Callable[P, R], /) -> Function[P, R]: ...


@overload
def udf(
    function: None = None,
    /,
    *,
    returns: str | None = None,
    takes: Sequence[str] | None = None,
    by: By = "row",
    arrow: Arrow | None = None,
    name: str | None = None,
    version: str | None = None,
    deterministic: bool = True,
    processes: int = 0,
    capacity: int | None = None,
    timeout: Duration | None = None,
    retries: int | None = None,
    retry_delay: Duration | None = None,
    retry_on: tuple[type[Exception], ...] | None = None,
) -> Callable[[Callable[P, R]], Function[P, R]]: ...


def udf(
    function: Callable[P, R] | None = None,
    /,
    *,
    returns: str | None = None,
    takes: Sequence[str] | None = None,
    by: By = "row",
    arrow: Arrow | None = None,
    name: str | None = None,
    version: str | None = None,
    deterministic: bool = True,
    processes: int = 0,
    capacity: int | None = None,
    timeout: Duration | None = None,
    retries: int | None = None,
    retry_delay: Duration | None = None,
    retry_on: tuple[type[Exception], ...] | None = None,
) -> Function[P, R] | Callable[[Callable[P, R]], Function[P, R]]:
    """Makes a function of Python one that SQL can call.

    ``by="column"`` calls it once for each buffer, with a column for each argument; it returns a column of the same length. ``arrow`` says as
    what it gets them: a ``polars.Series``, a ``pyarrow.Array`` or a ``numpy.ndarray``; without it as a :class:`Column`. ``by="row"`` calls
    it for each row, with values, and is up to a hundred times slower. NULL is ``None``.

    ``returns`` and ``takes`` are SQL types. By row they may come from annotations: ``def f(x: int, s: str | None) -> float``. Without
    ``takes`` arguments come in the type that they have.

    ``deterministic=False`` says that it may return another value for the same arguments: then keys, times and conditions of joins must not
    come from it. ``version`` is part of its identity: a job does not resume with another one where its state depends on the function.

    ``processes=n`` runs it in that many other processes, started with ``spawn``: the function must be importable there, so it cannot be one of
    ``__main__`` in a notebook.

    An ``async`` function is called by row, for all rows of a buffer at once, at most ``capacity`` of them at a time (100) over all workers.
    ``timeout`` is the time of one try ("3 min"). ``retries`` says how often a row that raised one of ``retry_on`` (any ``Exception``) is tried
    again, first after ``retry_delay`` ("100ms"), then after twice as long each time. With ``deterministic=True`` rows of a buffer with equal
    arguments share a call.
    """
    waiting: dict[str, Any] = {"capacity": capacity, "timeout": timeout, "retries": retries, "retry_delay": retry_delay, "retry_on": retry_on}
    if by not in ("column", "row"):
        raise ValueError(f"by is 'column' or 'row', not {by!r}")
    check_arrow(arrow)

    def made(function: Callable[P, R]) -> Function[P, R]:
        is_async = _is_async(function)
        if is_async and (by == "column" or arrow is not None or processes):
            raise TypeError("an async function is called by row, in this process: leave out by, arrow and processes")
        if arrow is not None and by == "row":
            raise ValueError("arrow is for functions by column: give by='column'")
        if not is_async and any(option is not None for option in waiting.values()):
            option = next(name for name, value in waiting.items() if value is not None)
            raise TypeError(f"{option} is for an async function: what is not one runs to its end before the next row, so write `async def`")
        result, parameters = returns, takes
        if by == "row":
            hints = hints_of(function) if result is None or parameters is None else {}
            if result is None:
                result = sql_type(hints.get("return"), "its result")
            if parameters is None:
                names = _parameters(function)
                if names is not None and all(parameter in hints for parameter in names):
                    parameters = [sql_type(hints[parameter], f"`{parameter}`") for parameter in names]
        if result is None:
            raise TypeError("a function by column needs `returns`: the SQL type of its result, such as 'BIGINT'")
        known_as = name if name is not None else getattr(function, "__name__", "")
        asynchronous = None
        if is_async:
            if parameters is not None and not parameters:
                raise TypeError("an async function without arguments cannot be called by SQL: give it one")
            from millstream._async import Asynchronous

            asynchronous = Asynchronous(function, name=known_as, returns=result, shares=deterministic, **waiting)
        called = Function(
            function,
            name=known_as,
            returns=result,
            takes=parameters,
            by=by,
            arrow=arrow,
            version=version,
            deterministic=deterministic,
            processes=processes,
            asynchronous=asynchronous,
        )
        options = {"returns": result, "takes": parameters, "by": by, "arrow": arrow, "name": known_as, "version": version}
        called._options = {**options, "deterministic": deterministic, "processes": processes, **waiting}
        return called

    return made if function is None else made(function)


def _again(function: Callable[..., Any], options: dict[str, Any]) -> Function[..., Any]:
    return udf(**options)(function)


def is_coroutine_function(function: object) -> bool:
    """Whether a call gives a coroutine."""
    import inspect

    return inspect.iscoroutinefunction(function)


def _is_async(function: Callable[..., Any]) -> bool:
    """Whether its calls give a coroutine: also a partial of such a function, or an object with ``async def __call__``."""
    import inspect

    while isinstance(function, functools.partial):
        function = function.func
    called = (function, getattr(type(function), "__call__", None))
    if any(map(inspect.isasyncgenfunction, called)):
        raise TypeError("an async generator gives many values, and SQL takes one for a row: return it from `async def`")
    return any(map(is_coroutine_function, called))


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of parameters and result, as far as they are known: also of a partial, or an object that can be called."""
    import inspect

    while isinstance(function, functools.partial):
        function = function.func
    # The annotations that another object has are of attributes: they are its class's.
    is_annotated = inspect.isroutine(function) or inspect.isclass(function) or hasattr(function, "__wrapped__")
    try:
        return typing.get_type_hints(function if is_annotated else getattr(type(function), "__call__", None))
    except (NameError, TypeError):
        return {}


def _parameters(function: Callable[..., Any]) -> list[str] | None:
    """The names of the parameters; ``None`` if their number is open: then arguments come as they are."""
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return None
    if any(p.default is not p.empty for p in parameters) or any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.KEYWORD_ONLY) for p in parameters):
        return None
    return [p.name for p in parameters]


def sql_type(annotation: object, what: str) -> str:
    options = [annotation]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(annotation) if option is not type(None)]
    if len(options) == 1 and options[0] in _TYPES:
        return _TYPES[options[0]]
    if annotation is None:
        raise TypeError(f"the type of {what} is not known: annotate it, or give `returns`, such as 'BIGINT'")
    raise TypeError(f"the annotation of {what}, {annotation!r}, is no type of SQL: give `returns` and `takes`")


def check_arrow(arrow: str | None) -> None:
    """Fails if columns cannot be given as that."""
    if arrow not in (None, *_PACKAGES):
        raise ValueError(f"arrow is 'polars', 'pyarrow' or 'numpy', not {arrow!r}")
    from importlib.util import find_spec

    missing = [package for package in _PACKAGES.get(arrow or "", []) if find_spec(package) is None]
    if missing:
        raise ImportError(f"arrow={arrow!r} needs {' and '.join(missing)}: pip install {' '.join(missing)}")


def convert(arrow: Arrow, columns: Sequence[Column]) -> list[Any]:
    """Columns as another library has them."""
    if arrow == "pyarrow":
        import pyarrow

        return [pyarrow.array(column) for column in columns]
    import polars

    series = [polars.Series(column) for column in columns]
    return [one.to_numpy() for one in series] if arrow == "numpy" else series


def call_by_column(function: Callable[..., Any], arrow: Arrow | None, *columns: Column) -> Any:
    """Calls a function with columns, of another library if that is wanted."""
    result = function(*(columns if arrow is None else convert(arrow, columns)))
    if arrow == "numpy" and hasattr(result, "__array__"):
        import polars

        return polars.Series(result)
    return plain(result)
