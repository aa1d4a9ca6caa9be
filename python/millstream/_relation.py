"""Queries whose rows are made when somebody asks for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from millstream import _charts, _core, _display
from millstream._chain import Chain, Source, Step, render
from millstream._clusters import ClusterLike, begun
from millstream._columns import columns_text
from millstream._core import Batch
from millstream._jobs import Job
from millstream._plans import Plan
from millstream._sinks import As, SinkLike, opening

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    import ray.data


class Relation(Chain):
    """A query that has been checked and has not been run. Made by :meth:`Session.sql`, :meth:`Session.table` and the methods of other relations.

    It runs each time its rows are asked for: by a method below, or by whatever takes an object with ``__arrow_c_stream__``
    (``polars.DataFrame(relation)``, ``pyarrow.table(relation)``, ``duckdb.sql("FROM relation")``). It keeps the data frames that it
    names; what is defined or set in its session afterwards does not change it.
    """

    def __init__(self, relation: _core.Relation, session: _core.Session, step: Step | None = None) -> None:
        self._relation = relation
        self._session = session
        self._step = step if step is not None else Source(self)
        self._is_chain = step is not None

    def _bind(self, step: Step) -> Relation:
        text, relations = render(step, self._session.tables())
        return Relation(self._session.sql(text, None, relations.get), self._session, step)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _, _ in self._relation.schema]

    @property
    def types(self) -> list[str]:
        """The SQL types of the columns: ``BIGINT``, ``TIMESTAMP(3)``."""
        return [data_type for _, data_type, _ in self._relation.schema]

    @property
    def schema(self) -> dict[str, str]:
        """The SQL type of each column by its name; ``NOT NULL`` where a column has no NULLs."""
        return {name: data_type if nullable else f"{data_type} NOT NULL" for name, data_type, nullable in self._relation.schema}

    @property
    def is_endless(self) -> bool:
        """Whether it may give rows forever: then a method that collects rows needs ``limit`` or ``timeout``."""
        return self._relation.is_endless

    def to_sql(self) -> str:
        """The text of the query. What a chain begins with is a query of WITH."""
        if not self._is_chain:
            return self._relation.text
        text, relations = render(self._step)
        sources = ",\n".join(f"{name} AS (\n{relation.to_sql()}\n)" for name, relation in relations.items())
        if not sources:
            return text
        return f"WITH\n{sources},\n{text[5:]}" if text.startswith("WITH\n") else f"WITH\n{sources}\n{text}"

    def explain(self, *, codegen: bool = False, analyze: bool = False) -> str:
        """The plan; with ``codegen`` also the programs and machine code. ``analyze`` runs the query to its end and says what each part did."""
        return self._relation.explain(codegen, analyze)

    def plan(self, *, analyze: bool = False) -> Plan:
        """The plan as a picture, for a notebook or a file. ``analyze`` runs the query, and the picture says what each part did."""
        return Plan(self._relation.picture(analyze), self._relation.explain(False, False))

    def fetchall(self, *, limit: int | None = None, timeout: float | None = None) -> list[tuple[Any, ...]]:
        """The rows, a tuple each.

        A query that does not end is cancelled after ``limit`` rows or ``timeout`` seconds, and gives what came until then; without either it is
        refused (:class:`QueryError`, MS2016).
        """
        return self._collect(limit, timeout).rows()

    def fetchone(self, *, timeout: float | None = None) -> tuple[Any, ...] | None:
        """The first row; ``None`` if there is none, or none has come within ``timeout`` seconds."""
        rows = self.fetchall(limit=1, timeout=timeout)
        return rows[0] if rows else None

    def to_arrow(self, *, limit: int | None = None, timeout: float | None = None) -> pyarrow.Table:
        """The rows as a ``pyarrow.Table``; ``limit`` and ``timeout`` as for :meth:`fetchall`."""
        import pyarrow

        return pyarrow.table(self._collect(limit, timeout))

    def pl(self, *, limit: int | None = None, timeout: float | None = None) -> polars.DataFrame:
        """The rows as a Polars data frame; ``limit`` and ``timeout`` as for :meth:`fetchall`."""
        import polars

        return polars.DataFrame(self._collect(limit, timeout))

    def df(self, *, limit: int | None = None, timeout: float | None = None) -> pandas.DataFrame:
        """The rows as a pandas data frame, by way of pyarrow; ``limit`` and ``timeout`` as for :meth:`fetchall`."""
        return _without_views(self.to_arrow(limit=limit, timeout=timeout)).to_pandas()

    def ray(self, *, limit: int | None = None, timeout: float | None = None) -> ray.data.Dataset:
        """The rows as a Ray Dataset, by way of pyarrow; ``limit`` and ``timeout`` as for :meth:`fetchall`."""
        import ray.data

        return ray.data.from_arrow(_without_views(self.to_arrow(limit=limit, timeout=timeout)))

    def batches(self, *, limit: int | None = None, timeout: float | None = None) -> BatchReader:
        """Runs the query and gives its rows as they come: ``for batch in …`` or ``async for batch in …``.

        It is cancelled after ``limit`` rows or ``timeout`` seconds, and when the reader is closed or dropped.
        """
        return BatchReader(self._relation.read(limit, timeout))

    def __aiter__(self) -> AsyncIterator[Batch]:
        return self.batches().__aiter__()

    def chart(
        self,
        x: str | None = None,
        y: str | None = None,
        by: str | None = None,
        *,
        kind: _charts.Kind = "line",
        points: int = 1000,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> _charts.Chart:
        """Runs the query and draws ``y`` over ``x``, twice a second while rows come: in a notebook as a picture, in a terminal as sparklines.

        ``by`` names the column whose values have a line or bars each, twelve at most. Without ``x`` it is ``window_end`` or the first
        time, without ``y`` the one number that is left. The latest ``points`` of each series are kept. A query that does not end is drawn for
        ``limit`` rows, ``timeout`` seconds, or until it is interrupted (Ctrl-C): then the chart has what came until then.
        """
        return _charts.draw(self, x, y, by, kind, points, limit, timeout)

    def insert_into(self, table: str, *, overwrite: bool = False, cluster: ClusterLike | str | None = None) -> Job:
        """Starts to write the rows into a table of the session, and returns at once; ``overwrite`` as INSERT OVERWRITE does. The columns go by their
        place, as for INSERT INTO. ``cluster`` is as for :meth:`Session.submit`."""
        return begun(cluster, lambda core: self._session.insert_into(self._relation, table, overwrite, core))

    def write_to(self, sink: SinkLike, *, give: As | None = None, name: str = "sink", cluster: ClusterLike | str | None = None) -> Job:
        """Starts to write the rows into a sink of Python, and returns at once: as :meth:`insert_into` with one of
        :meth:`Session.register_sink`.

        ``relation.write_to(print)`` prints each batch. ``name`` is that of its table: by it a job with a state directory knows it again.
        On a ``cluster`` (:meth:`Session.submit`) the sink is in this process.
        """
        columns, (opened, is_transactional) = columns_text(self.schema), opening(sink, give)
        return begun(cluster, lambda core: self._session.write_to(self._relation, name, columns, opened, is_transactional, core))

    def _collect(self, limit: int | None, timeout: float | None) -> _core.Batches:
        return self._relation.collect(limit, timeout)

    def __arrow_c_schema__(self) -> object:
        return self._relation.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._relation.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return _display.relation_text(self._relation, _display.preview(self._relation))

    def _repr_html_(self) -> str:
        return _display.relation_html(self._relation, _display.preview(self._relation))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        # Both from one run.
        shown = _display.preview(self._relation)
        relation = self._relation
        return {"text/plain": _display.relation_text(relation, shown), "text/html": _display.relation_html(relation, shown)}


def _without_views(table: pyarrow.Table) -> pyarrow.Table:
    """The table with strings and bytes as pandas and Ray take them, also within lists."""
    import pyarrow as pa

    def plain(data_type: Any) -> Any:
        if pa.types.is_string_view(data_type):
            return pa.string()
        if pa.types.is_binary_view(data_type):
            return pa.binary()
        if pa.types.is_list(data_type):
            return pa.list_(data_type.value_field.with_type(plain(data_type.value_type)))
        if pa.types.is_struct(data_type):
            return pa.struct([field.with_type(plain(field.type)) for field in data_type.fields])
        if pa.types.is_map(data_type):
            return pa.map_(plain(data_type.key_type), plain(data_type.item_type))
        return data_type

    return table.cast(pa.schema([field.with_type(plain(field.type)) for field in table.schema]))


class BatchReader:
    """The batches of a query that runs. Made by :meth:`Relation.batches`. Closing it, or dropping it, cancels the query: ``with relation.batches()
    as batches:`` does so at the end."""

    def __init__(self, reader: _core.Reader) -> None:
        self._reader = reader

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        return next(self._reader)

    async def __aiter__(self) -> AsyncIterator[Batch]:
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        loop = asyncio.get_running_loop()
        # A thread of its own: those of the loop are few, and this one may wait for a long time.
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="millstream") as thread:
            try:
                while True:
                    batch = self._reader.poll(0.0)
                    if batch is False:
                        # Not longer, so that a task that is cancelled ends soon.
                        batch = await loop.run_in_executor(thread, self._reader.poll, 0.1)
                    if batch is None:
                        return
                    if isinstance(batch, Batch):
                        yield batch
                        # A query that is always ready leaves others their turn.
                        await asyncio.sleep(0)
            finally:
                await loop.run_in_executor(thread, self._reader.close)

    def close(self) -> None:
        """Cancels the query."""
        self._reader.close()

    def __enter__(self) -> BatchReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
