"""Sessions: where tables, views, functions and settings are."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, ModuleType
from typing import Any

from millstream import _core, _display, errors
from millstream._aggregates import Aggregate
from millstream._clusters import ClusterLike, Joined, begun, joined
from millstream._columns import Columns, columns_text
from millstream._connectors import Connector, create_table_sql
from millstream._durations import Duration, milliseconds
from millstream._expressions import Expression, quoted
from millstream._frames import is_index, plain
from millstream._functions import Function, udf
from millstream._jobs import Job
from millstream._relation import Relation
from millstream._sinks import As, SinkLike, opening
from millstream._sources import Read, Splits, beginning
from millstream.errors import Error

Parameters = Sequence[Any] | Mapping[str, Any]


class Session:
    """Tables, views, functions and settings. Made by :func:`connect`.

    ``with connect() as con:`` closes it at the end. A closed session runs nothing new (MS1006).
    """

    def __init__(self, session: _core.Session, cluster: Joined | None = None) -> None:
        self._session = session
        self._cluster = cluster

    def sql(self, script: str, parameters: Parameters | None = None) -> Relation:
        """Executes the definitions of a script, and returns the query that it ends with. A listing or EXPLAIN at the end is a table as
        well, and for a definition it is one row that says what was done. The query is checked here (:class:`QueryError`), and runs when somebody
        asks for its rows. A script that ends with INSERT is refused: it is for :meth:`execute` and :meth:`submit`.

        A name that is not in the catalog may be that of a local or global variable of the caller: a data frame of Polars or pandas,
        an Arrow table or reader, a Ray Dataset, a relation of DuckDB or of Millstream, and all else with the Arrow PyCapsule interface.

        ``?`` in the script stands for the next of a sequence of parameters, ``$name`` for that of a mapping.
        """
        return self._sql(script, parameters, sys._getframe(1))

    def _sql(self, script: str, parameters: Parameters | None, caller: FrameType) -> Relation:
        return Relation(self._session.sql(script, parameters, _Variables(caller)), self._session)

    def table(self, data: Any) -> Relation:
        """A table of the session by its name, or data that :meth:`sql` takes as a variable: the beginning of a chain."""
        if isinstance(data, str):
            relation = self._session.sql(f"SELECT * FROM {quoted(data)}", None, lambda _: None)
            return Relation(relation, self._session)
        return Relation(self._session.sql("SELECT * FROM data", None, lambda _: plain(data)), self._session)

    def execute(self, script: str, parameters: Parameters | None = None) -> None:
        """Executes every statement of a script to its end, INSERTs too. Names and parameters are those of :meth:`sql`.

        An interrupt (Ctrl-C) stops a running INSERT in good order: with a checkpoint, if there is a state directory. A second one
        stops it at once.
        """
        self._session.execute(script, parameters, _Variables(sys._getframe(1)))

    def submit(self, script: str, parameters: Parameters | None = None, *, cluster: ClusterLike | str | None = None) -> Job:
        """Executes the definitions of a script, starts the INSERT or statement set that it ends with, and returns at once.

        With a state directory the job resumes from the last checkpoint that is there. Names and parameters are those of :meth:`sql`.

        With a ``cluster`` other nodes take part (docs/how-to/cluster.md): ``millstream.ray.RayCluster(nodes=4)``, a :class:`Cluster`, or a text such
        as ``"static://127.0.0.1:7421"``. Functions, sources and data frames of the program are sent to them.
        """
        variables = _Variables(sys._getframe(1))
        return begun(cluster, lambda core: self._session.submit(script, parameters, variables, core))

    def register_function(self, function: Function[..., Any] | Aggregate | Callable[..., Any]) -> None:
        """Makes a function one of SQL, in place of one of the same name: one of :func:`millstream.udf`, or one by row with annotations.

        Queries that were made before keep the one that they have.
        """
        if isinstance(function, Aggregate):
            known: Any = function
            self._session.register_aggregate(
                known.name,
                known._callable,
                known.by == "row",
                known.takes,
                known.returns,
                known.state,
                known.version,
                known.deterministic,
                ("register_function", (known,), {}),
            )
            return
        known = function if isinstance(function, Function) else udf(function)
        self._session.register_function(
            known.name,
            known._callable,
            known._by_rows,
            known.takes,
            known.returns,
            known.version,
            known.deterministic,
            ("register_function", (known,), {}),
        )

    def register(self, name: str, data: Any, *, time: str | None = None, delay: Duration = "0s") -> None:
        """Makes data a table of the session: whatever :meth:`sql` takes as a variable. It takes the place of data that was registered under
        the name; relations that were made before keep what they have.

        ``time`` names the column of event time, for windows and joins over time. It is read in milliseconds. A row that is more than
        ``delay`` older than the latest one before it is late: windows that are complete leave it out. Without a delay the watermark is a
        millisecond behind the latest time, so that rows of one millisecond are in time. Without ``time`` the table has no event time.
        """
        if not name:
            raise ValueError("a table has a name")
        if time is not None and is_index(data, time):
            raise ValueError(f"`{time}` is the index of the data frame, not a column: register frame.reset_index()")
        self._session.register(name, plain(data), time, milliseconds(delay))

    def register_source(
        self,
        name: str,
        read: Read,
        columns: Columns,
        *,
        splits: Splits | None = None,
        positions: bool = False,
        bounded: bool = False,
        time: str | None = None,
        delay: Duration = "0s",
        idle_timeout: Duration | None = None,
    ) -> None:
        """Makes an iterator a table of the session: its rows are made while a query reads them.

        ``read`` is a function, mostly a generator or async generator, that is called each time that a query begins; a list or another
        iterable will do. It yields rows: a dict (a name that is absent is NULL), a tuple with a value for each column, a list of these,
        or a batch with the Arrow interface (a data frame). ``None`` says that there is nothing now: a generator that waits for the outside
        in steps yields it so that it ends soon after its query.

        ``columns`` has the SQL type of each name, or is what stands between the parentheses of CREATE TABLE. ``time`` and ``delay`` are
        those of :meth:`register`. ``bounded`` says that the rows end, so that a query may collect them or group without a window.

        With ``splits``, a number or a list of names, ``read`` is called once for each, with its number or name, and they are read at the
        same time, each in its order. One that was silent for ``idle_timeout`` does not hold the watermark back.

        With ``positions``, ``read`` is called with a position as well (the last argument), and yields pairs of a position and rows. The
        position says what comes behind these rows; it is anything that JSON has but ``None``. A job with a state directory resumes with
        ``read(position)`` behind the rows that its last checkpoint has: exactly once. At the start it is ``None``. Without positions
        ``read`` begins from its start in each process: rows that were read behind the last checkpoint are lost, or read again, as its start
        has it.
        """
        begin, names = beginning(name, read, splits, positions)
        idle = None if idle_timeout is None else milliseconds(idle_timeout)
        if idle == 0:
            raise ValueError("idle_timeout is longer than 0")
        text = columns_text(columns, time, delay)
        options = {"splits": splits, "positions": positions, "bounded": bounded, "idle_timeout": idle_timeout}
        call = ("register_source", (name, read, text), options)
        self._session.register_source(name, text, begin, names, bounded, positions, idle, call)

    def register_sink(self, name: str, sink: SinkLike, columns: Columns, *, give: As | None = None) -> None:
        """Makes a sink of Python a table of the session, for INSERT INTO and :meth:`Relation.insert_into`.

        ``sink`` is a function that is called with each batch of rows, in order, or an object with a method ``write`` and others that
        :class:`Sink` names; of a class each run makes an object. With ``prepare``, ``commit`` and ``recover`` it is exactly once under
        checkpoints; otherwise rows behind the last checkpoint come again when a job resumes.

        It gets a :class:`Batch`; with ``give`` a ``polars.DataFrame``, a ``pyarrow.RecordBatch``, or a list of dicts (``"rows"``).
        ``columns`` is as for :meth:`register_source`.
        """
        self._session.register_sink(name, columns_text(columns), *opening(sink, give))

    def create_table(
        self,
        name: str,
        columns: Mapping[str, str | Expression] | Any,
        connector: Connector,
        *,
        primary_key: str | Sequence[str] = (),
        time: str | None = None,
        delay: Duration = "0s",
        if_not_exists: bool = False,
    ) -> Relation:
        """Defines a table outside of the session: what CREATE TABLE does, with a connector of :mod:`millstream.connectors`.

        ``columns`` has what SQL writes behind each column's name: a type (``"BIGINT NOT NULL"``), metadata of the connector
        (``"STRING METADATA FROM 'file.name' VIRTUAL"``) or a computed column (``"AS price * 100"``, ``col("price") * 100``). Instead it may
        be a relation, an Arrow schema, or data that :meth:`table` takes: then the table has the same columns. ``time`` and ``delay`` are
        those of :meth:`register`.
        """
        if not isinstance(columns, Mapping):
            data = columns.empty_table() if hasattr(columns, "empty_table") else columns
            columns = (data if isinstance(data, Relation) else self.table(data)).schema
        statement = create_table_sql(name, columns, connector, primary_key=primary_key, time=time, delay=delay, if_not_exists=if_not_exists)
        is_new = name not in self.tables()
        self._session.execute(statement, None, lambda _: None)
        try:
            return self.table(name)
        except Error:
            if is_new:
                self._session.execute(f"DROP TABLE {quoted(name)}", None, lambda _: None)
            raise

    def set(self, key: str, value: str | int | float | bool | os.PathLike[str]) -> None:
        """Sets an option, as ``SET 'key' = 'value'`` does, for what is made afterwards (docs/settings.md)."""
        self._session.set(key, _text(value))

    def tables(self) -> list[str]:
        """The names of the tables and views."""
        return self._session.tables()

    def close(self) -> None:
        """Ends the session. Its state directory is free when its jobs have ended; relations of it can still be run, unless it was on a cluster,
        whose nodes it lets go."""
        self._session.close()
        if self._cluster is not None:
            self._cluster.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            names = self.tables()
        except errors.Error as error:
            return f"<Session: {error.message}>"
        return f"<Session: {_display.listed(names) or 'no tables'}>"

    def _repr_html_(self) -> str | None:
        try:
            names = self.tables()
        except errors.Error:
            return None
        return _display.session_html([(name, self._columns(name)) for name in names[: _display.ROWS]], len(names) - _display.ROWS)

    def _columns(self, name: str) -> str:
        try:
            return _display.listed(self.table(name).columns)
        except errors.Error as error:
            return error.message


#: Functions that Python makes of expressions.
_INLINE = {"<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"}


class _Variables:
    """The variables that a caller sees."""

    def __init__(self, frame: FrameType) -> None:
        self._frame = frame

    def __call__(self, name: str) -> Any:
        frames = [self._frame]
        # A comprehension or lambda that does not name the variable itself does not have it: it is one of the function around it.
        while frames[-1].f_code.co_name in _INLINE and frames[-1].f_back is not None:
            frames.append(frames[-1].f_back)
        for variables in [frame.f_locals for frame in frames] + [self._frame.f_globals]:
            if name in variables:
                value = variables[name]
                # `SELECT * FROM time`: nobody means the module.
                return None if isinstance(value, ModuleType) else plain(value)
        return None


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(os.fspath(value) if isinstance(value, os.PathLike) else value)


def connect(
    *,
    state_dir: str | os.PathLike[str] | None = None,
    settings: Mapping[str, str | int | float | bool | os.PathLike[str]] | None = None,
    code_cache: str | os.PathLike[str] | None = None,
    cluster: ClusterLike | str | None = None,
) -> Session:
    """A new session.

    ``state_dir`` is where INSERTs are checkpointed and resume from: a directory or ``s3://bucket/prefix``. Without it nothing is kept
    when the process ends. ``settings`` are those of docs/settings.md. ``code_cache`` is a directory for compiled code, or ``"auto"``
    for the user's cache; without it code is kept in memory, since a library writes nothing that nobody asked for. With a ``cluster``
    (:meth:`Session.submit`) all queries and jobs of the session run on its nodes, until it is closed.
    """
    texts = {key: _text(value) for key, value in (settings or {}).items()}
    if state_dir is not None:
        texts["execution.checkpointing.dir"] = _text(state_dir)
    if code_cache is not None:
        texts["pipeline.code-cache"] = _text(code_cache)
    session = _core.Session(texts, code_cache is not None)
    if cluster is None:
        return Session(session)
    there = joined(cluster)
    session.join(there.core)
    there.follow(lambda: False)
    return Session(session, there)


_default: Session | None = None
_lock = threading.Lock()


def default_session() -> Session:
    """The session of the functions of the module, such as :func:`sql`."""
    global _default
    with _lock:
        if _default is None:
            _default = connect()
        return _default


def sql(script: str, parameters: Parameters | None = None) -> Relation:
    """:meth:`Session.sql` of the default session."""
    return default_session()._sql(script, parameters, sys._getframe(1))


def table(data: Any) -> Relation:
    """:meth:`Session.table` of the default session."""
    return default_session().table(data)


def execute(script: str, parameters: Parameters | None = None) -> None:
    """:meth:`Session.execute` of the default session."""
    default_session()._session.execute(script, parameters, _Variables(sys._getframe(1)))


def submit(script: str, parameters: Parameters | None = None, *, cluster: ClusterLike | str | None = None) -> Job:
    """:meth:`Session.submit` of the default session."""
    variables, session = _Variables(sys._getframe(1)), default_session()._session
    return begun(cluster, lambda core: session.submit(script, parameters, variables, core))


def register_function(function: Function[..., Any] | Aggregate | Callable[..., Any]) -> None:
    """:meth:`Session.register_function` of the default session."""
    default_session().register_function(function)


def register(name: str, data: Any, *, time: str | None = None, delay: Duration = "0s") -> None:
    """:meth:`Session.register` of the default session."""
    default_session().register(name, data, time=time, delay=delay)


def create_table(
    name: str,
    columns: Mapping[str, str | Expression] | Any,
    connector: Connector,
    *,
    primary_key: str | Sequence[str] = (),
    time: str | None = None,
    delay: Duration = "0s",
    if_not_exists: bool = False,
) -> Relation:
    """:meth:`Session.create_table` of the default session."""
    return default_session().create_table(
        name, columns, connector, primary_key=primary_key, time=time, delay=delay, if_not_exists=if_not_exists
    )


def register_source(
    name: str,
    read: Read,
    columns: Columns,
    *,
    splits: Splits | None = None,
    positions: bool = False,
    bounded: bool = False,
    time: str | None = None,
    delay: Duration = "0s",
    idle_timeout: Duration | None = None,
) -> None:
    """:meth:`Session.register_source` of the default session."""
    session = default_session()
    session.register_source(
        name, read, columns, splits=splits, positions=positions, bounded=bounded, time=time, delay=delay, idle_timeout=idle_timeout
    )


def register_sink(name: str, sink: SinkLike, columns: Columns, *, give: As | None = None) -> None:
    """:meth:`Session.register_sink` of the default session."""
    default_session().register_sink(name, sink, columns, give=give)
