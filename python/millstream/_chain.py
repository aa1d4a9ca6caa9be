"""The stream API: methods that make queries of queries.

A chain is a graph of steps. Each is a SELECT of its own, which names the steps that it reads; together they are the queries of one WITH. So
there is one binder, and `to_sql()` prints what is run. A step is bound when it is made: what is wrong is said where the method is called.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from operator import and_
from typing import TYPE_CHECKING, Any

from millstream import errors
from millstream._durations import Duration
from millstream._expressions import Expression, JoinKind, Window, expression, interval, named, quoted
from millstream._places import placed

if TYPE_CHECKING:
    from millstream._relation import Relation

Column = Expression | str
Columns = Column | Sequence[Column]


class Step:
    """A SELECT. Its parts are text and the steps that it reads."""

    def __init__(self, *parts: str | Step) -> None:
        self.parts = parts


class Filter(Step):
    """The rows of a step for which a condition holds."""

    def __init__(self, step: Step, condition: Expression) -> None:
        super().__init__("SELECT * FROM ", step, f" WHERE {condition.sql}")
        self.step, self.condition = step, condition


class Source(Step):
    """What a chain begins with: a relation."""

    def __init__(self, relation: Relation) -> None:
        super().__init__()
        self.relation = relation


def render(last: Step, taken: Sequence[str] = ()) -> tuple[str, dict[str, Relation]]:
    """The text of a chain, a step a line, and the relations that it names. Names that are ``taken`` stand for other tables."""
    names: dict[int, str] = {}
    relations: dict[str, Relation] = {}
    lines: list[str] = []

    def text(step: Step) -> str:
        return "".join(part if isinstance(part, str) else names[id(part)] for part in step.parts)

    prefix = ""
    while any(table.startswith((f"{prefix}step", f"{prefix}source")) for table in taken):
        prefix += "_"
    # Not by recursion: chains may be long.
    pending = [last]
    while pending:
        step = pending[-1]
        missing = [part for part in step.parts if isinstance(part, Step) and id(part) not in names]
        if missing:
            pending.extend(reversed(missing))
            continue
        pending.pop()
        if id(step) in names:
            continue
        if isinstance(step, Source):
            name = f"{prefix}source{len(relations) + 1}"
            names[id(step)], relations[name] = name, step.relation
        elif step is not last:
            names[id(step)] = f"{prefix}step{len(lines) + 1}"
            lines.append(f"{names[id(step)]} AS ({text(step)})")
    end = f"SELECT * FROM {names[id(last)]}" if isinstance(last, Source) else text(last)
    before = ",\n".join(lines)
    return (f"WITH\n{before}\n{end}" if lines else end), relations


class Chain:
    """The methods of a relation that make another one. None of them runs anything."""

    _step: Step

    # What a relation has.
    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        raise NotImplementedError

    @property
    def types(self) -> list[str]:
        """The SQL types of the columns."""
        raise NotImplementedError

    def _bind(self, step: Step) -> Relation:
        raise NotImplementedError

    def _made(self, *parts: str | Step) -> Relation:
        """The relation of a step; what is wrong with it is wrong in the method that the user has called."""
        return self._made_by(Step(*parts))

    def _made_by(self, step: Step) -> Relation:
        try:
            return self._bind(step)
        except errors.Error as error:
            raise placed(error) from None

    def _made_of(self, first: Sequence[str], aggregates: Sequence[tuple[str | int, str]], *rest: str | Step) -> Relation:
        """The same for a SELECT of columns and aggregates: what is wrong with an aggregate is wrong in its argument."""

        def bound(*items: str) -> Relation:
            return self._bind(Step(f"SELECT {', '.join([*first, *items])} FROM ", *rest))

        try:
            made = bound(*(text for _, text in aggregates))
            # SQL gives another name to what has that of a column before it.
            for (asked, _), name in zip(aggregates, made.columns[-len(aggregates) :], strict=True):
                if isinstance(asked, str) and asked != name:
                    raise ValueError(f"there would be two columns `{asked}`: give the aggregate another name")
            return made
        except errors.Error as error:
            whole = error
        # Which of them it is, the error does not say. It may be none.
        for argument, text in [(None, "1"), *aggregates]:
            try:
                bound(text)
            except errors.Error as error:
                is_none = argument is not None and error.code in ("MS2001", "MS2012")
                raise placed(error, argument, _ADVICE if is_none else None) from None
        raise placed(whole)

    def select(self, *columns: Column, **renamed: Column) -> Relation:
        """Only these columns and expressions; a keyword is a name: ``select("auction", half=col("price") / 2)``."""
        items = [named(column) for column in columns] + [named(column, name) for name, column in renamed.items()]
        return self._made(f"SELECT {', '.join(items) or '*'} FROM ", self._step)

    def with_columns(self, **added: Column) -> Relation:
        """All columns, and these; one of the name of a column replaces it."""
        kept = [quoted(name) if name not in added else named(added[name], name) for name in self.columns]
        new = [named(column, name) for name, column in added.items() if name not in self.columns]
        return self._made(f"SELECT {', '.join(kept + new)} FROM ", self._step)

    def drop(self, *names: str) -> Relation:
        """All columns but these."""
        self._check(names)
        kept = [quoted(name) for name in self.columns if name not in names]
        if not kept:
            raise ValueError("no column is left")
        return self._made(f"SELECT {', '.join(kept)} FROM ", self._step)

    def rename(self, names: Mapping[str, str]) -> Relation:
        """The columns under other names: ``rename({"price": "cents"})``."""
        self._check(names)
        items = [f"{quoted(name)} AS {quoted(names[name])}" if name in names else quoted(name) for name in self.columns]
        return self._made(f"SELECT {', '.join(items)} FROM ", self._step)

    def filter(self, *conditions: Column) -> Relation:
        """The rows for which all conditions hold."""
        if not conditions:
            raise ValueError("filter() needs a condition")
        step, known = (self._step.step, [self._step.condition]) if isinstance(self._step, Filter) else (self._step, [])
        # One step, however many filters follow each other: the time to bind a chain grows with the square of its steps.
        return self._made_by(Filter(step, functools.reduce(and_, [*known, *map(expression, conditions)])))

    def limit(self, rows: int) -> Relation:
        """So many rows, the first that come; then the query ends. It is the last step of a chain."""
        return self._made("SELECT * FROM ", self._step, f" LIMIT {int(rows)}")

    def union(self, *others: Chain) -> Relation:
        """The rows of this relation and of others with the same columns, also those that are equal."""
        parts: list[str | Step] = ["SELECT * FROM ", self._step]
        for other in others:
            _is_chain(other)
            parts += [" UNION ALL SELECT * FROM ", other._step]
        return self._made(*parts)

    def distinct(self) -> Relation:
        """Each row once: in each window, if the rows have ``window_start`` and ``window_end``, or of all, if they end."""
        return self._made("SELECT DISTINCT * FROM ", self._step)

    def key_by(self, *keys: Column) -> Keyed:
        """Groups by keys, to be aggregated or to have windows: ``key_by("user").window(Tumble("1 min")).agg(n=count())``."""
        return Keyed(self, [expression(key) for key in keys])

    def window(self, window: Window) -> Windowed:
        """Windows over all rows, to be aggregated: ``window(Tumble("1 min")).agg(n=count())``."""
        return Windowed(self, [], window)

    def agg(self, *aggregates: Expression, **more: Expression) -> Relation:
        """One row, with aggregates of all rows, if they end: ``agg(n=count(), total=col("price").sum())``."""
        return Keyed(self, []).agg(*aggregates, **more)

    def join(
        self,
        other: Chain,
        on: Columns | None = None,
        *,
        how: JoinKind = "inner",
        within: tuple[Duration, Duration] | Duration | None = None,
        time: tuple[str, str] | None = None,
        suffix: str = "_right",
    ) -> Relation:
        """Pairs of rows.

        ``on`` names columns that are equal on both sides, or is a condition with :func:`left` and :func:`right`. What is bounded is looked up;
        ``within=("5s", "1s")`` joins rows of which the right one is up to 5 seconds older and up to a second newer, by their event time; equal
        window columns join windows. Columns of the right that the left has, too, get a suffix; those that are equal come once. ``how="semi"``
        gives the rows of the left with a partner, ``"anti"`` those without.
        """
        _is_chain(other)
        equal: list[str] = []
        conditions: list[str] = []
        for item in _listed("on", on):
            if isinstance(item, str):
                equal.append(item)
                conditions.append(f"`l`.{quoted(item)} = `r`.{quoted(item)}")
            else:
                conditions.append(item.sql)
        if within is not None:
            older, newer = within if isinstance(within, tuple) else (within, within)
            here, there = time if time is not None else (self._time(None), other._time(None))
            low, high = f"`l`.{quoted(here)} - {interval(older)}", f"`l`.{quoted(here)} + {interval(newer)}"
            conditions.append(f"`r`.{quoted(there)} BETWEEN {low} AND {high}")
        if not conditions:
            raise ValueError("join() needs `on` or `within`")
        condition = " AND ".join(conditions)
        if how in ("semi", "anti"):
            exists = "EXISTS" if how == "semi" else "NOT EXISTS"
            return self._made("SELECT `l`.* FROM ", self._step, f" AS `l` WHERE {exists} (SELECT * FROM ", other._step, f" AS `r` WHERE {condition})")
        words = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}
        if how not in words:
            raise ValueError(f"how is one of {', '.join([*words, 'semi', 'anti'])}, not {how!r}")
        items = []
        for name in self.columns:
            value = f"`l`.{quoted(name)}"
            if name in equal and how in ("right", "full"):
                value = f"COALESCE(`l`.{quoted(name)}, `r`.{quoted(name)})"
            items.append(f"{value} AS {quoted(name)}")
        for name in other.columns:
            if name not in equal:
                items.append(f"`r`.{quoted(name)} AS {quoted(name + suffix if name in self.columns else name)}")
        return self._made(f"SELECT {', '.join(items)} FROM ", self._step, f" AS `l` {words[how]} ", other._step, f" AS `r` ON {condition}")

    def join_version(self, table: str, on: Columns, *, how: JoinKind = "inner", time: str | None = None) -> Relation:
        """Each row with the version that a table of the catalog had for its key at its time. The table has a primary key and event time."""
        conditions = [
            f"`l`.{quoted(name)} = `r`.{quoted(name)}" if isinstance(name, str) else name.sql for name in _listed("on", on)
        ]
        word = {"inner": "JOIN", "left": "LEFT JOIN"}.get(how)
        if word is None:
            raise ValueError(f"how is 'inner' or 'left', not {how!r}")
        version = f"FOR SYSTEM_TIME AS OF `l`.{quoted(self._time(time))} AS `r` ON {' AND '.join(conditions)}"
        return self._made("SELECT * FROM ", self._step, f" AS `l` {word} {quoted(table)} {version}")

    def top(self, rows: int, by: Column, *, within: Columns = (), ascending: bool = False, rank: str | None = None) -> Relation:
        """The first rows by an order, of each window and of each group ``within`` it. The rows are those of windows: they have ``window_start`` and
        ``window_end``. ``rank`` names a column for the place of a row."""
        return self._ranked("ROW_NUMBER", rows, by, within, ascending, rank)

    def dedup(self, *keys: Column, by: Column | None = None, keep: str = "first") -> Relation:
        """The first or last row of each key in each window, by an order or by event time. The rows are those of windows, as for :meth:`top`:
        ``window(Tumble("1 min")).rows().dedup("user")``."""
        if keep not in ("first", "last"):
            raise ValueError(f"keep is 'first' or 'last', not {keep!r}")
        order = by if by is not None else self._time(None, of_rows=True)
        return self._ranked("ROW_NUMBER", 1, order, list(keys), keep == "first", None)

    def _ranked(self, function: str, rows: int, by: Column, within: Columns, ascending: bool, rank: str | None) -> Relation:
        keys = [expression(key).sql for key in _listed("within", within)]
        keys = [quoted(name) for name in ("window_start", "window_end") if name in self.columns and quoted(name) not in keys] + keys
        partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
        order = f"ORDER BY {expression(by).sql} {'ASC' if ascending else 'DESC'}"
        name = quoted(rank if rank is not None else "rank of a row")
        kept = "*" if rank is not None else ", ".join(quoted(column) for column in self.columns)
        ranked = Step(f"SELECT *, {function}() OVER ({partition}{order}) AS {name} FROM ", self._step)
        return self._made(f"SELECT {kept} FROM ", ranked, f" WHERE {name} <= {int(rows)}")

    def over(
        self,
        *,
        partition: Columns = (),
        order: str | None = None,
        rows: int | None = None,
        range: Duration | None = None,
        **aggregates: Expression,
    ) -> Relation:
        """All columns, and aggregates of each row and those before it in event time, with the same ``partition``: so many ``rows`` before it, those of
        a ``range`` of time, or all. ``order`` names the event time where there are several timestamps."""
        keys = [expression(key).sql for key in _listed("partition", partition)]
        if rows is not None and range is not None:
            raise ValueError("a frame has rows or a range, not both")
        frame = ""
        if rows is not None:
            frame = f" ROWS BETWEEN {int(rows)} PRECEDING AND CURRENT ROW"
        elif range is not None:
            frame = f" RANGE BETWEEN {interval(range)} PRECEDING AND CURRENT ROW"
        by = f"PARTITION BY {', '.join(keys)} " if keys else ""
        over = f"OVER ({by}ORDER BY {quoted(self._time(order))}{frame})"
        items = [(name, f"{expression(aggregate).sql} {over} AS {quoted(name)}") for name, aggregate in aggregates.items()]
        if not items:
            raise ValueError("over() needs an aggregate: over(total=col('price').sum())")
        return self._made_of(["*"], items, self._step)

    def unnest(self, column: str, names: str | Sequence[str], *, outer: bool = False, ordinality: str | None = None) -> Relation:
        """A row for each element of an ARRAY or entry of a MAP, with these names for its parts; ``outer`` keeps rows without any."""
        self._check([column])
        parts = [names] if isinstance(names, str) else list(names)
        parts += [ordinality] if ordinality is not None else []
        kept = [f"`l`.{quoted(name)}" for name in self.columns if name != column] + [f"`u`.{quoted(part)}" for part in parts]
        with_number = " WITH ORDINALITY" if ordinality is not None else ""
        word, end = ("LEFT JOIN", " ON TRUE") if outer else ("CROSS JOIN", "")
        elements = f"UNNEST(`l`.{quoted(column)}){with_number} AS `u` ({', '.join(quoted(part) for part in parts)})"
        return self._made(f"SELECT {', '.join(kept)} FROM ", self._step, f" AS `l` {word} {elements}{end}")

    def _check(self, names: Any) -> None:
        unknown = [name for name in names if name not in self.columns]
        if unknown:
            raise ValueError(f"there is no column {unknown[0]!r}; the columns are {', '.join(self.columns)}")

    def _time(self, name: str | None, *, of_rows: bool = False) -> str:
        """The column of event time: this one, ``window_time``, or the one timestamp that there is; ``of_rows``: not one of windows."""
        if name is not None:
            self._check([name])
            return name
        pattern = re.compile(r"TIMESTAMP(_LTZ)?\([0-3]\)")
        found = [column for column, data_type in zip(self.columns, self.types, strict=True) if pattern.match(data_type)]
        if "window_time" in found and not of_rows:
            return "window_time"
        if "window_time" in found and all(column in _OF_WINDOWS for column in found):
            return "window_time"
        found = [column for column in found if column not in _OF_WINDOWS]
        if len(found) == 1:
            return found[0]
        what = f"There are several timestamps: {', '.join(found)}" if found else "There is no timestamp"
        raise ValueError(f"which column is the event time? {what}. Name it with `on`, `time`, `by` or `order`")


class Keyed:
    """Rows by key. Made by :meth:`Relation.key_by`."""

    def __init__(self, chain: Chain, keys: list[Expression]) -> None:
        self._chain, self._keys = chain, keys

    def window(self, window: Window) -> Windowed:
        """The windows of each key."""
        again = [key._name for key in self._keys if key._name in _OF_WINDOWS and key._name in self._chain.columns]
        if again:
            raise ValueError(f"`{again[0]}` would be that of the new windows: rename the column first")
        return Windowed(self._chain, self._keys, window)

    def agg(self, *aggregates: Expression, **more: Expression) -> Relation:
        """A row for each key, with aggregates: if the rows end, or if ``window_start`` and ``window_end`` are among the keys. What is made of aggregates,
        keys and constants is an aggregate as well."""
        keys = [named(key) for key in self._keys]
        # Without keys there are parentheses: they make one row of what has no aggregate, too, and refuse columns.
        group = f" GROUP BY {', '.join(key.sql for key in self._keys) or '()'}"
        return self._chain._made_of(keys, _aggregates(aggregates, more), self._chain._step, group)


#: Columns that windows add to rows, and what an event time of that name is called while others are added.
_OF_WINDOWS = ("window_start", "window_end", "window_time")
_TIME = "time of windows"


class Windowed:
    """Rows by key and window. Made by :meth:`Relation.window`."""

    def __init__(self, chain: Chain, keys: list[Expression], window: Window) -> None:
        self._chain, self._keys, self._window = chain, keys, window

    def agg(self, *aggregates: Expression, keep_time: bool = False, **more: Expression) -> Relation:
        """A row for each key and window: the keys, ``window_start``, ``window_end``, with ``keep_time`` also ``window_time``, which is event time for
        further windows, and the aggregates."""
        of_window = ["`window_start`", "`window_end`", *(["`window_time`"] if keep_time else [])]
        first = [named(key) for key in self._keys] + of_window
        keys = [key.sql for key in self._keys] + of_window
        before, step, after = self._table()
        return self._chain._made_of(first, _aggregates(aggregates, more), f"TABLE({before}", step, f"{after}) GROUP BY {', '.join(keys)}")

    def rows(self) -> Relation:
        """The rows, each with its windows: ``window_start``, ``window_end`` and ``window_time``."""
        return self._chain._made("SELECT * FROM TABLE(", *self._table(), ")")

    def _table(self) -> tuple[str, Step, str]:
        chain = self._chain
        time, step = chain._time(self._window.on), chain._step
        if any(name in chain.columns for name in _OF_WINDOWS):
            # The windows add columns of these names.
            kept = [quoted(name) for name in chain.columns if name not in (*_OF_WINDOWS, _TIME) or name == time]
            if time in _OF_WINDOWS:
                kept.remove(quoted(time))
                kept.append(f"{quoted(time)} AS {quoted(_TIME)}")
                time = _TIME
            step = Step(f"SELECT {', '.join(kept)} FROM ", step)
        # The name of the step is not known yet.
        before, after = self._window._table("\0", [key.sql for key in self._keys], quoted(time)).split("\0")
        return before, step, after


def _is_chain(other: object) -> None:
    if not isinstance(other, Chain):
        raise TypeError(f"a {type(other).__name__} is not a relation: make it one with table(…)")


#: For what is no aggregate: what is put behind one, FILTER or OVER, is an error of syntax there.
_ADVICE = "it takes aggregates, such as col('price').max() and count(), and what is made of them and of keys"


def _listed(argument: str, columns: Columns | None) -> list[Column]:
    """The columns that an argument has: one, several or none."""
    if columns is None:
        return []
    listed = [columns] if isinstance(columns, (str, Expression)) or not isinstance(columns, Iterable) else list(columns)
    for column in listed:
        if not isinstance(column, (str, Expression)):
            raise TypeError(f"`{argument}` takes columns, by name or as expressions, not {column!r}")
    return listed


def _aggregates(aggregates: tuple[Expression, ...], more: Mapping[str, Expression]) -> list[tuple[str | int, str]]:
    """What arguments are called, and their text."""
    items: list[tuple[str | int, str]] = [(place, named(aggregate)) for place, aggregate in enumerate(aggregates, 1)]
    items += [(name, named(aggregate, name)) for name, aggregate in more.items()]
    if not items:
        raise ValueError("agg() needs an aggregate: agg(n=count())")
    return items
