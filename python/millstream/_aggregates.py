"""Aggregate functions of Python in SQL."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Sequence
from typing import Any, overload

from millstream._core import Column
from millstream._functions import Arrow, By, check_arrow, convert, hints_of, is_coroutine_function, sql_type

#: What a class with a state has.
_METHODS = ("create", "accumulate", "merge", "finish")


class Aggregate:
    """An aggregate function that SQL can call once a session knows it: ``session.register_function(f)``. Made by :func:`udaf`; called in
    Python, a function over values is what it was."""

    __name__: str

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        returns: str,
        takes: Sequence[str],
        state: str | None,
        by: By,
        arrow: Arrow | None,
        version: str | None,
        deterministic: bool,
    ) -> None:
        self.name, self.returns, self.takes, self.state = name, returns, list(takes), state
        self.by, self.version, self.deterministic = by, version, deterministic
        self._function = function
        if state is not None:
            self._callable: Any = _Stateful(function, arrow)
        else:
            self._callable = function if arrow is None else functools.partial(_over_columns, function, arrow)
        functools.update_wrapper(self, function if state is None else type(function), updated=())
        #: The function or class that :func:`udaf` was given, and the rest.
        self._given: tuple[Callable[..., Any], dict[str, Any]] = (function, {})

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _again, self._given

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.state is not None:
            raise TypeError(f"{self.name} is a class with a state: SQL calls it")
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        state = "" if self.state is None else f", state {self.state}"
        return f"<Aggregate: {self.name}({', '.join(self.takes)}) RETURNS {self.returns}, by {self.by}{state}>"


class _Stateful:
    """An aggregate with a state that gets columns of another library."""

    def __init__(self, aggregate: Any, arrow: Arrow | None) -> None:
        self.create, self.merge, self.finish = aggregate.create, aggregate.merge, aggregate.finish
        self._accumulate = aggregate.accumulate
        self._arrow: Arrow | None = arrow

    def accumulate(self, state: Any, *arguments: Any) -> Any:
        if self._arrow is None:
            return self._accumulate(state, *arguments)
        return self._accumulate(state, *convert(self._arrow, arguments))


def _over_columns(function: Callable[..., Any], arrow: Arrow, *columns: Column) -> Any:
    return function(*convert(arrow, columns))


@overload
def udaf(
    function: Callable[..., Any],
    /,
    *,
    returns: str | None = None,
    takes: Sequence[str] | None = None,
    state: str | None = None,
    by: By = "row",
    arrow: Arrow | None = None,
    name: str | None = None,
    version: str | None = None,
    deterministic: bool = True,
) -> Aggregate: ...


@overload
def udaf(
    function: None = None,
    /,
    *,
    returns: str | None = None,
    takes: Sequence[str] | None = None,
    state: str | None = None,
    by: By = "row",
    arrow: Arrow | None = None,
    name: str | None = None,
    version: str | None = None,
    deterministic: bool = True,
) -> Callable[[Callable[..., Any]], Aggregate]: ...


def udaf(
    function: Callable[..., Any] | None = None,
    /,
    *,
    returns: str | None = None,
    takes: Sequence[str] | None = None,
    state: str | None = None,
    by: By = "row",
    arrow: Arrow | None = None,
    name: str | None = None,
    version: str | None = None,
    deterministic: bool = True,
) -> Aggregate | Callable[[Callable[..., Any]], Aggregate]:
    """Makes a function or class of Python an aggregate function that SQL can call, with FILTER, in every window and with OVER.

    A **function** is called once for each group, with all its values in the order of the input: a list for each argument, with ``None`` for
    NULL. With ``by="column"`` it gets a :class:`Column` instead, and with ``arrow`` a ``polars.Series``, a ``pyarrow.Array`` or a
    ``numpy.ndarray``. All values of a group are kept until then; the result of no rows is NULL. DISTINCT gives each combination of
    arguments once.

    A **class** with the methods ``create()``, ``accumulate(state, …)``, ``merge(state, other)`` and ``finish(state)`` keeps a state for
    each group instead of its values. ``state`` is its SQL type, such as ``"ROW<total DOUBLE, n BIGINT>"``: a ROW is a dict (given as a
    dict or tuple), an ARRAY a list. ``accumulate`` is called for each row with its values, or with ``by="column"`` for many rows with
    columns; it and ``merge`` return the state, or change it in its place. Rows and states come in any order, so results must not depend
    on that. Of no rows the result is ``finish(create())``.

    ``returns`` and ``takes`` are SQL types. They may come from annotations: ``def f(x: list[float]) -> float``, and in a class those of
    ``accumulate`` and ``finish``. ``version`` and ``deterministic`` are as for :func:`udf`; a job does not resume with another state
    type, either.
    """
    if by not in ("column", "row"):
        raise ValueError(f"by is 'column' or 'row', not {by!r}")
    check_arrow(arrow)

    def made(function: Callable[..., Any]) -> Aggregate:
        if is_coroutine_function(function):
            raise TypeError("an aggregate function cannot be async")
        has_state = isinstance(function, type)
        if has_state:
            missing = [method for method in _METHODS if not callable(getattr(function, method, None))]
            if missing:
                raise TypeError(f"a class that aggregates has {', '.join(_METHODS)}; {function.__name__} lacks {', '.join(missing)}")
            if state is None:
                raise TypeError("a class that aggregates needs `state`: the SQL type of its state, such as 'ROW<total DOUBLE, n BIGINT>'")
        elif state is not None:
            raise TypeError("a state is for a class with create(), accumulate(), merge() and finish()")
        aggregate = function() if has_state else function
        known_result = returns if returns is not None else _result(aggregate, has_state)
        known_takes = takes if takes is not None else _parameters(aggregate, has_state)
        options: dict[str, Any] = {
            "name": name if name is not None else getattr(function, "__name__", ""),
            "returns": known_result,
            "takes": known_takes,
            "state": state,
            "by": "column" if arrow is not None else by,
            "arrow": arrow,
            "version": version,
            "deterministic": deterministic,
        }
        called = Aggregate(aggregate, **options)
        called._given = (function, options)
        return called

    return made if function is None else made(function)


def _again(function: Callable[..., Any], options: dict[str, Any]) -> Aggregate:
    return udaf(**options)(function)


def _result(function: Any, has_state: bool) -> str:
    return sql_type(hints_of(function.finish if has_state else function).get("return"), "the result")


def _parameters(function: Any, has_state: bool) -> list[str]:
    import inspect

    called = function.accumulate if has_state else function
    names = list(inspect.signature(called).parameters)[1 if has_state else 0 :]
    hints = hints_of(called)
    types = []
    for parameter in names:
        annotation = hints.get(parameter)
        if not has_state and typing.get_origin(annotation) in (list, Sequence):
            (annotation,) = typing.get_args(annotation)
        elif not has_state:
            annotation = None
        if annotation is None:
            shape = "x: float" if has_state else "x: list[float]"
            raise TypeError(f"the type of `{parameter}` is not known: annotate it ({shape}), or give `takes`, such as ['DOUBLE']")
        types.append(sql_type(annotation, f"`{parameter}`"))
    return types
