from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, final

from millstream.errors import Error

__all__ = [
    "Batch",
    "Batches",
    "Cluster",
    "Column",
    "Feed",
    "Job",
    "Reader",
    "Relation",
    "Session",
    "__version__",
    "column_from_bytes",
    "column_to_bytes",
    "end_all",
    "interrupt_thread",
    "run_command",
]

__version__: str

def end_all(seconds: float) -> None: ...
def interrupt_thread(thread: int) -> None: ...
def run_command(words: Sequence[str]) -> int: ...

#: What registers something on another node: a method of `millstream.Session`, its arguments, and those by name.
_Call = tuple[str, tuple[Any, ...], dict[str, Any]]

@final
class Session:
    def __new__(cls, settings: Mapping[str, str], keeps_code: bool) -> Session: ...
    def set(self, key: str, value: str) -> None: ...
    def join(self, cluster: Cluster) -> None: ...
    def tables(self) -> list[str]: ...
    def sql(
        self,
        script: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None,
        find: Callable[[str], Any],
    ) -> Relation: ...
    def ends_with_insert(self, script: str, parameters: Sequence[Any] | Mapping[str, Any] | None) -> bool: ...
    def execute(
        self,
        script: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None,
        find: Callable[[str], Any],
    ) -> None: ...
    def submit(
        self,
        script: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None,
        find: Callable[[str], Any],
        cluster: Cluster | None,
    ) -> Job: ...
    def insert_into(self, relation: Relation, table: str, overwrites: bool, cluster: Cluster | None) -> Job: ...
    def register_function(
        self,
        name: str,
        callable: Callable[..., Any],
        by_rows: bool,
        takes: Sequence[str] | None,
        returns: str,
        version: str | None,
        is_deterministic: bool,
        call: _Call,
    ) -> None: ...
    def register_aggregate(
        self,
        name: str,
        callable: Any,
        by_rows: bool,
        takes: Sequence[str],
        returns: str,
        state: str | None,
        version: str | None,
        is_deterministic: bool,
        call: _Call,
    ) -> None: ...
    def register(self, name: str, object: Any, time: str | None, delay_ms: int) -> None: ...
    def register_source(
        self,
        name: str,
        columns: str,
        begin: Callable[[Feed, int, str | None], Callable[[], None]],
        splits: Sequence[str],
        is_bounded: bool,
        is_replayable: bool,
        idle_timeout_ms: int | None,
        call: _Call,
    ) -> None: ...
    def register_sink(self, name: str, columns: str, open: Callable[[], Any], is_transactional: bool) -> None: ...
    def write_to(
        self,
        relation: Relation,
        name: str,
        columns: str,
        open: Callable[[], Any],
        is_transactional: bool,
        cluster: Cluster | None,
    ) -> Job: ...
    def close(self) -> None: ...

@final
class Cluster:
    def __new__(
        cls,
        nodes: str,
        listen: str,
        token: str,
        tls: tuple[str, str, str] | None,
        server_name: str | None,
        insecure: bool,
        replacement_timeout: float,
        most: int | None,
    ) -> Cluster: ...
    def members(self) -> list[str]: ...

@final
class Relation:
    @property
    def schema(self) -> list[tuple[str, str, bool]]: ...
    @property
    def text(self) -> str: ...
    @property
    def is_endless(self) -> bool: ...
    @property
    def reads_once(self) -> bool: ...
    def read(self, limit: int | None, timeout: float | None) -> Reader: ...
    def collect(self, limit: int | None, timeout: float | None) -> Batches: ...
    def explain(self, codegen: bool, analyze: bool) -> str: ...
    def picture(self, analyze: bool) -> str: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None) -> object: ...

@final
class Job:
    @property
    def text(self) -> str: ...
    @property
    def keeps_checkpoints(self) -> bool: ...
    @property
    def state(self) -> Literal["running", "finished", "stopped", "cancelled", "failed"]: ...
    @property
    def error(self) -> Error | None: ...
    def stats(self) -> str | None: ...
    def checkpoint(self, timeout: float | None) -> None: ...
    def stop(self) -> None: ...
    def cancel(self) -> None: ...
    def wait_within(self, seconds: float) -> bool: ...
    def wait(self, timeout: float | None) -> None: ...

@final
class Reader:
    def __iter__(self) -> Iterator[Batch]: ...
    def __next__(self) -> Batch: ...
    def poll(self, seconds: float) -> Batch | Literal[False] | None: ...
    def close(self) -> None: ...

@final
class Batch:
    """Rows of a result in memory, column by column, with the Arrow PyCapsule interface: ``polars.DataFrame(batch)``. Made by iterating over
    :meth:`Relation.batches`."""

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""

    def __len__(self) -> int: ...
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows, a tuple each."""

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Batches:
    def __len__(self) -> int: ...
    def rows(self) -> list[tuple[Any, ...]]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Column:
    """A column in memory, with the Arrow PyCapsule interface: what a function by column gets. ``Column(values, "BIGINT")`` makes one of a list, or of
    anything with that interface."""

    def __new__(cls, values: Any, data_type: str) -> Column: ...
    def __len__(self) -> int: ...
    def to_list(self) -> list[Any]:
        """The values, ``None`` for NULL."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...

def column_to_bytes(column: Column) -> bytes: ...
def column_from_bytes(bytes: bytes) -> Column: ...

@final
class Feed:
    @property
    def is_closed(self) -> bool: ...
    def put(self, rows: Any, position: str | None) -> bool: ...
    def offer(self, rows: Any, position: str | None) -> bool | None: ...
    def end(self) -> None: ...
    def fail(self, error: BaseException) -> None: ...
