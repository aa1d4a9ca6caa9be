"""Data of other libraries as the engine takes it."""

from __future__ import annotations

import sys
from itertools import chain
from typing import Any


def plain(data: Any) -> Any:
    """Data without what SQL has no place for: a data frame of pandas without its index, and columns of Polars that have no type yet as texts.

    Nothing is copied but such columns, and what is no such data is what it was.
    """
    if _is(data, "pandas", "DataFrame") and not _is(data.index, "pandas", "RangeIndex"):
        # It has the columns of the frame, but is another object: the frame keeps its index.
        data = data.copy(deep=False)
        data.index = range(len(data))
    elif _is(data, "polars", "DataFrame"):
        types = {name: _typed(data_type) for name, data_type in data.schema.items()}
        types = {name: data_type for name, data_type in types.items() if data_type is not None}
        return data.cast(types) if types else data
    elif _is(data, "polars", "Series"):
        data_type = _typed(data.dtype)
        return data if data_type is None else data.cast(data_type)
    elif _is(data, "ray.data", "Dataset"):
        return RayBlocks(data)
    return data


class RayBlocks:
    """A Ray Dataset as a stream of Arrow, with the types of its first block. It has no length, so a query takes block after block while it
    runs, and none is kept."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        import pyarrow

        blocks = iter(self._dataset.iter_batches(batch_size=None, batch_format="pyarrow"))
        first = next(blocks, None)
        if first is None:
            known = self._dataset.schema()
            schema = pyarrow.schema([] if known is None else zip(known.names, known.types, strict=True))
            tables = blocks
        else:
            schema = first.schema
            tables = chain([first], blocks)
        batches = (batch for table in tables for batch in table.select(schema.names).cast(schema).to_batches())
        return pyarrow.RecordBatchReader.from_batches(schema, batches).__arrow_c_stream__(requested_schema)


def is_index(data: Any, name: str) -> bool:
    """Whether a name is that of an index of a data frame of pandas, and not of a column."""
    return _is(data, "pandas", "DataFrame") and name in data.index.names and name not in data.columns


def _is(data: Any, module: str, name: str) -> bool:
    """Whether something is of a class of a library, which is not imported for that."""
    found = getattr(sys.modules.get(module), name, None)
    return found is not None and isinstance(data, found)


def _typed(data_type: Any) -> Any:
    """A type of Polars with STRING in place of the type of columns that are all NULL, as Arrow's type `null` is; None if it is nowhere in it."""
    import polars

    if data_type == polars.Null:
        return polars.String
    if isinstance(data_type, polars.List):
        inner = _typed(data_type.inner)
        return None if inner is None else polars.List(inner)
    if isinstance(data_type, polars.Array):
        inner = _typed(data_type.inner)
        return None if inner is None else polars.Array(inner, data_type.size)
    if isinstance(data_type, polars.Struct):
        typed = [_typed(field.dtype) for field in data_type.fields]
        fields = [polars.Field(field.name, field.dtype if new is None else new) for field, new in zip(data_type.fields, typed, strict=True)]
        return None if all(new is None for new in typed) else polars.Struct(fields)
    return None
