"""Expressions of the stream API: text of SQL with operators."""

from __future__ import annotations

import datetime
import decimal
import functools
import math
from collections.abc import Sequence
from typing import Any, Literal

from millstream import _core, errors
from millstream._durations import Duration, milliseconds
from millstream._places import placed


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    if not isinstance(name, str):
        raise TypeError(f"a name is a string, not {name!r}")
    return "`" + name.replace("`", "``") + "`"


def interval(duration: Duration) -> str:
    """A length of time as SQL writes it."""
    return _interval(milliseconds(duration))


def _interval(millis: int) -> str:
    sign, left = ("-", -millis) if millis < 0 else ("", millis)
    days, left = divmod(left, 86_400_000)
    hours, left = divmod(left, 3_600_000)
    minutes, left = divmod(left, 60_000)
    seconds, left = divmod(left, 1_000)
    return f"INTERVAL '{sign}{days} {hours:02}:{minutes:02}:{seconds:02}.{left:03}' DAY(9) TO SECOND(3)"


def literal(value: object) -> str:
    """A value as SQL writes it."""
    if isinstance(value, Expression):
        return value.sql
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return f"({int.__repr__(value)})" if value < 0 else int.__repr__(value)
    if isinstance(value, float):
        text = {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, float.__repr__(value))
        return f"CAST('{'NaN' if math.isnan(value) else text}' AS DOUBLE)"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, decimal.Decimal) and value.is_finite():
        text = decimal.Decimal.__format__(value, "f")
        return f"({text})" if text.startswith("-") else text
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, datetime.datetime):
        millis, rest = divmod(value - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc), datetime.timedelta(milliseconds=1))
        if rest:
            raise ValueError("an instant has whole milliseconds: round it")
        return f"TO_TIMESTAMP_LTZ({millis}, 3)"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, datetime.time):
        if value.microsecond % 1000 or value.tzinfo is not None:
            raise ValueError("a TIME has whole milliseconds and no zone: round it")
        return f"TIME '{value.isoformat()}'"
    if isinstance(value, datetime.timedelta):
        millis, rest = divmod(value, datetime.timedelta(milliseconds=1))
        if rest:
            raise ValueError("an INTERVAL has whole milliseconds: round it")
        return _interval(millis)
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        item: object = getattr(value, "item")()
        if type(item) is not type(value) and not isinstance(value, (list, tuple)) and getattr(value, "ndim", 0) == 0:
            return literal(item)
    if isinstance(value, (list, tuple)):
        return f"ARRAY[{', '.join(literal(item) for item in value)}]"
    raise TypeError(f"{value!r} is not a value of SQL")


class Expression:
    """A value computed from the columns of a row, or an aggregate. Made by :func:`col`, :func:`lit`, :func:`call` and the like.

    Operators make others: ``+ - * / %``, comparisons, and ``&``, ``|`` and ``~`` for AND, OR and NOT, with parentheses around comparisons:
    ``(col("a") > 1) & (col("b") == "x")``. They mean what they mean in SQL: integers divide without a rest, and NULL equals nothing.
    """

    __slots__ = ("_kind", "_name", "_terms")
    # `==` makes an expression, so none has a place in a set.
    __hash__ = None  # type: ignore[assignment]
    # An element by its number is none of an endless sequence.
    __iter__ = None
    __contains__ = None

    def __init__(self, sql: str, name: str | None = None) -> None:
        self._name = name
        # What operators of one kind stand between; each but the first has its operator in front. Others have one term, and no kind.
        self._terms: tuple[str, ...] = (sql,)
        self._kind: str | None = None

    @property
    def sql(self) -> str:
        """The text of the expression."""
        return self._terms[0] if self._kind is None else _joined(self._kind, self._terms)

    def alias(self, name: str) -> Expression:
        """The same under a name, as AS gives it."""
        made = Expression("", name)
        made._terms, made._kind = self._terms, self._kind
        return made

    def __repr__(self) -> str:
        return self.sql if self._name is None else f"{self.sql} AS {quoted(self._name)}"

    def __bool__(self) -> bool:
        raise TypeError("an expression is neither true nor false: write & for and, | for or, ~ for not, and between() for a < x < b")

    def _with(self, operator: str, other: object) -> Expression:
        return _operation(self, operator, other)

    def _behind(self, operator: str, other: object) -> Expression:
        return _operation(Expression(literal(other)), operator, self)

    def __add__(self, other: object) -> Expression:
        return self._with("+", other)

    def __radd__(self, other: object) -> Expression:
        return self._behind("+", other)

    def __sub__(self, other: object) -> Expression:
        return self._with("-", other)

    def __rsub__(self, other: object) -> Expression:
        return self._behind("-", other)

    def __mul__(self, other: object) -> Expression:
        return self._with("*", other)

    def __rmul__(self, other: object) -> Expression:
        return self._behind("*", other)

    def __truediv__(self, other: object) -> Expression:
        return self._with("/", other)

    def __rtruediv__(self, other: object) -> Expression:
        return self._behind("/", other)

    def __mod__(self, other: object) -> Expression:
        return self._with("%", other)

    def __rmod__(self, other: object) -> Expression:
        return self._behind("%", other)

    def __neg__(self) -> Expression:
        return Expression(f"(- {self.sql})")

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return self._with("=", other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return self._with("<>", other)

    def __lt__(self, other: object) -> Expression:
        return self._with("<", other)

    def __le__(self, other: object) -> Expression:
        return self._with("<=", other)

    def __gt__(self, other: object) -> Expression:
        return self._with(">", other)

    def __ge__(self, other: object) -> Expression:
        return self._with(">=", other)

    def __and__(self, other: object) -> Expression:
        return self._with("AND", other)

    def __rand__(self, other: object) -> Expression:
        return self._behind("AND", other)

    def __or__(self, other: object) -> Expression:
        return self._with("OR", other)

    def __ror__(self, other: object) -> Expression:
        return self._behind("OR", other)

    def __invert__(self) -> Expression:
        return Expression(f"(NOT {self.sql})")

    def is_null(self) -> Expression:
        """Whether it is NULL."""
        return Expression(f"({self.sql} IS NULL)")

    def is_not_null(self) -> Expression:
        """Whether it is not NULL."""
        return Expression(f"({self.sql} IS NOT NULL)")

    def is_in(self, values: list[Any] | tuple[Any, ...] | set[Any] | frozenset[Any]) -> Expression:
        """Whether it is one of these values."""
        if not isinstance(values, (list, tuple, set, frozenset)):
            raise TypeError(f"is_in() takes a list of values, not {values!r}; rows with a partner in a relation are join(…, how='semi')")
        if not values:
            return Expression("FALSE")
        return Expression(f"({self.sql} IN ({', '.join(literal(value) for value in values)}))")

    def between(self, low: object, high: object) -> Expression:
        """Whether it is from ``low`` to ``high``, both included."""
        return Expression(f"({self.sql} BETWEEN {literal(low)} AND {literal(high)})")

    def like(self, pattern: str) -> Expression:
        """Whether a text is like a pattern: ``%`` stands for any characters, ``_`` for one."""
        return Expression(f"({self.sql} LIKE {literal(pattern)})")

    def cast(self, data_type: str, *, lenient: bool = False) -> Expression:
        """The value in a SQL type: ``cast("DOUBLE")``. What cannot be cast fails the query; with ``lenient`` it is NULL."""
        return Expression(f"{'TRY_CAST' if lenient else 'CAST'}({self.sql} AS {_data_type(data_type)})")

    def field(self, name: str) -> Expression:
        """A field of a ROW."""
        return Expression(f"{self.sql}.{quoted(name)}", name)

    def __getitem__(self, key: object) -> Expression:
        """An element of an ARRAY by its number, from 1, or a value of a MAP by its key."""
        return Expression(f"{self.sql}[{literal(key)}]")

    def sum(self) -> Expression:
        """The sum of a group, of the same type; NULL without values."""
        return call("SUM", self)

    def min(self) -> Expression:
        """The least value of a group."""
        return call("MIN", self)

    def max(self) -> Expression:
        """The greatest value of a group."""
        return call("MAX", self)

    def mean(self) -> Expression:
        """The mean of a group, of the same type: that of integers is cut. Cast them to ``DOUBLE`` for a fraction."""
        return call("AVG", self)

    def first(self) -> Expression:
        """The first value of a group, in the order of arrival."""
        return call("FIRST_VALUE", self)

    def last(self) -> Expression:
        """The last value of a group, in the order of arrival."""
        return call("LAST_VALUE", self)

    def n_unique(self) -> Expression:
        """How many different values a group has."""
        return Expression(f"COUNT(DISTINCT {self.sql})")

    def where(self, condition: Expression) -> Expression:
        """An aggregate over the rows of the group for which the condition holds: ``count().where(col("price") > 100)``."""
        return Expression(f"{self.sql} FILTER (WHERE {literal(condition)})", self._name)


#: Operators that need no parentheses among each other: SQL reads them from the left, as Python does.
_KINDS = {"+": "+", "-": "+", "*": "*", "/": "*", "%": "*", "AND": "AND", "OR": "OR"}
#: The kinds for which it does not matter where parentheses are.
_LOGICAL = ("AND", "OR")
#: How many terms stand between two parentheses. The engine takes 1,000 operators there, and a term may have a few.
_TERMS = 200
#: The most terms of arithmetic, each of which is a level of the tree that the engine makes of them.
_MOST_TERMS = 1001


def _operation(one: Expression, operator: str, other: object) -> Expression:
    """Two values with an operator between."""
    kind = _KINDS.get(operator)
    if kind is None:
        return Expression(f"({one.sql} {operator} {literal(other)})")
    first = one._terms if one._kind == kind else (one.sql,)
    # `a - (b - c)` is not `a - b - c`.
    second = other._terms if isinstance(other, Expression) and other._kind == kind in _LOGICAL else (literal(other),)
    made = Expression("")
    made._terms, made._kind = (*first, f"{operator} {second[0]}", *second[1:]), kind
    return made


def _joined(kind: str, terms: Sequence[str]) -> str:
    """Terms in parentheses, with more of them where there are many terms."""
    pieces = [" ".join(terms[at : at + _TERMS]) for at in range(0, len(terms), _TERMS)]
    if kind in _LOGICAL:
        # Side by side: the tree grows with its logarithm.
        while len(pieces) > 1:
            pieces = [pieces[0], *(piece.removeprefix(f"{kind} ") for piece in pieces[1:])]
            pieces = [f"{kind} ({piece})" if at else f"({piece})" for at, piece in enumerate(pieces)]
            pieces = [" ".join(pieces[at : at + _TERMS]) for at in range(0, len(pieces), _TERMS)]
        return f"({pieces[0]})"
    if len(terms) > _MOST_TERMS:
        # The engine says that there are too many.
        return f"({' '.join(terms)})"
    # Each within the next: the tree is that of all terms without parentheses.
    return functools.reduce(lambda text, piece: f"({text} {piece})", pieces[1:], f"({pieces[0]})")


def _data_type(text: str) -> str:
    """A type as SQL writes it, once it has been checked that it is one and nothing else."""
    if not isinstance(text, str):
        raise TypeError(f"a type is a text of SQL such as 'BIGINT', not {text!r}")
    try:
        _core.Column([], text)
    except errors.Error as error:
        raise placed(error, advice="name a type of SQL: BIGINT, DOUBLE, STRING, DECIMAL(10, 2), TIMESTAMP(3), ARRAY<INT>") from None
    # What stands behind a comment is not a part of it.
    return f"{text}\n" if "--" in text else text


def col(name: str) -> Expression:
    """A column."""
    return Expression(quoted(name), name)


def left(name: str) -> Expression:
    """A column of the left side of a join."""
    return Expression(f"`l`.{quoted(name)}", name)


def right(name: str) -> Expression:
    """A column of the right side of a join."""
    return Expression(f"`r`.{quoted(name)}", name)


def lit(value: object) -> Expression:
    """A constant."""
    return Expression(literal(value))


def call(function: str, *arguments: object) -> Expression:
    """A call of a function by its name, of SQL (docs/functions.md) or of the session: ``call("UPPER", col("name"))``. Texts among the arguments
    are constants."""
    if not function.replace("_", "").isalnum() or function[0].isdigit():
        raise ValueError(f"{function!r} is not a name of a function")
    return Expression(f"{function}({', '.join(literal(argument) for argument in arguments)})")


def count(column: Expression | str | None = None) -> Expression:
    """How many rows a group has, or how many values of a column that are not NULL."""
    if column is None:
        return Expression("COUNT(*)")
    return call("COUNT", expression(column))


class When:
    """A condition without its value. Made by :func:`when`."""

    def __init__(self, before: str, condition: Expression) -> None:
        self._text = f"{before} WHEN {literal(condition)}"

    def then(self, value: object) -> Then:
        """The value where the condition holds and those before do not."""
        return Then(f"{self._text} THEN {literal(value)}")


class Then(Expression):
    """A choice: without :meth:`otherwise` it is NULL where no condition holds."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        super().__init__(f"({text} END)")
        self._text = text

    def when(self, condition: Expression) -> When:
        """Another condition."""
        return When(self._text, condition)

    def otherwise(self, value: object) -> Expression:
        """The value where no condition holds."""
        return Expression(f"({self._text} ELSE {literal(value)} END)")


def when(condition: Expression) -> When:
    """The beginning of a choice: ``when(col("x") > 0).then("more").otherwise("less")``.

    The first condition that holds decides; ``.then(…).when(…)`` adds another one. Without ``otherwise`` the value is NULL where none holds.
    """
    return When("CASE", condition)


def expression(value: Expression | str) -> Expression:
    """An expression, or the column of a name."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, str):
        return col(value)
    raise TypeError(f"{value!r} is neither an expression nor the name of a column: write lit(…) for a constant")


def named(value: Expression | str, name: str | None = None) -> str:
    """An item of SELECT."""
    made = expression(value)
    name = name if name is not None else made._name
    return made.sql if name is None else f"{made.sql} AS {quoted(name)}"


class Window:
    """Which windows a row belongs to. Its classes are :class:`Tumble`, :class:`Hop`, :class:`Cumulate`, :class:`SessionWindow` and :class:`CountWindow`."""

    def _table(self, table: str, keys: list[str], time: str) -> str:
        raise NotImplementedError

    # The column of event time; without it the one timestamp that there is.
    on: str | None = None


class _Timed(Window):
    _function = ""

    def __init__(self, lengths: list[str], on: str | None, offset: Duration | None) -> None:
        self.on = on
        self._lengths = lengths if offset is None else [*lengths, interval(offset)]

    def _table(self, table: str, keys: list[str], time: str) -> str:
        return f"{self._function}(TABLE {table}, DESCRIPTOR({time}), {', '.join(self._lengths)})"


class Tumble(_Timed):
    """Windows of a size, one after the other. ``on`` names the event time where there are several timestamps; ``offset`` moves their beginnings,
    which are otherwise whole sizes from 1970-01-01 00:00."""

    _function = "TUMBLE"

    def __init__(self, size: Duration, *, on: str | None = None, offset: Duration | None = None) -> None:
        super().__init__([interval(size)], on, offset)


class Hop(_Timed):
    """Windows of a size, of which another begins each ``slide``: a row belongs to several if the slide is shorter. ``on`` and ``offset`` as for
    :class:`Tumble`."""

    _function = "HOP"

    def __init__(self, size: Duration, slide: Duration, *, on: str | None = None, offset: Duration | None = None) -> None:
        super().__init__([interval(slide), interval(size)], on, offset)


class Cumulate(_Timed):
    """Windows that begin together and end a ``step`` after each other, up to ``size``, a multiple of it: a day so far, each hour. ``on`` and
    ``offset`` as for :class:`Tumble`."""

    _function = "CUMULATE"

    def __init__(self, size: Duration, step: Duration, *, on: str | None = None, offset: Duration | None = None) -> None:
        super().__init__([interval(step), interval(size)], on, offset)


class SessionWindow(Window):
    """Windows of a key that end when no row came for ``gap`` of event time. ``on`` as for :class:`Tumble`."""

    def __init__(self, gap: Duration, *, on: str | None = None) -> None:
        self.on, self._gap = on, interval(gap)

    def _table(self, table: str, keys: list[str], time: str) -> str:
        partition = f" PARTITION BY {', '.join(keys)}" if keys else ""
        return f"SESSION(TABLE {table}{partition}, DESCRIPTOR({time}), {self._gap})"


class CountWindow(Window):
    """Windows of so many rows of a key, in the order of arrival; with ``slide`` another begins after so many. ``on`` as for :class:`Tumble`."""

    def __init__(self, rows: int, slide: int | None = None, *, on: str | None = None) -> None:
        self.on, self._rows, self._slide = on, int(rows), slide

    def _table(self, table: str, keys: list[str], time: str) -> str:
        partition = f" PARTITION BY {', '.join(keys)}" if keys else ""
        if self._slide is None:
            return f"COUNT_TUMBLE(TABLE {table}{partition}, DESCRIPTOR({time}), {self._rows})"
        return f"COUNT_HOP(TABLE {table}{partition}, DESCRIPTOR({time}), {int(self._slide)}, {self._rows})"


JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]
