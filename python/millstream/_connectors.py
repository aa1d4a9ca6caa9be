"""Options of tables: how the values of a program become the texts of ``WITH (…)``, and the statement that defines a table.

The classes of :mod:`millstream.connectors` are made from the engine's registry. Each of their fields says which option it is and which of the
functions below writes it. These check the type of a value and leave its meaning to the engine, whose errors name the option.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, ClassVar

from millstream._columns import column_elements
from millstream._durations import Duration, milliseconds
from millstream._expressions import Expression, interval, literal, quoted

#: Makes options of an option's key and a value.
Writer = Callable[[str, Any], dict[str, str]]

#: What is shown instead of a secret.
_MASK = "******"
_SECRETS_WITHIN = re.compile(r"(?<=://)[^\s/?#@]*(?:@[^\s/?#@]*)*(?=@)|(?i:(?<=password=)|(?<=secret=)|(?<=token=))[^&;,\s]+")


def option(key: str, write: Writer, *, secret: bool = False) -> dict[str, tuple[str, Writer, bool]]:
    """Of a field: the option that it is, and what writes it."""
    return {"option": (key, write, secret)}


class Options:
    """Options with values; those that are ``None`` have the engine's default. Each class of them is a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __post_init__(self) -> None:
        self._written()

    def _written(self) -> dict[str, str]:
        """The texts of the options, by their keys."""
        import dataclasses

        written: dict[str, str] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            key, write, _ = field.metadata["option"]
            try:
                texts = write(key, value)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{type(self).__name__}({field.name}=…): {error}") from None
            for key, text in texts.items():
                if key in written:
                    raise ValueError(f"{type(self).__name__}({field.name}=…): the option {key!r} is given twice")
                written[key] = text
        return written

    def __repr__(self) -> str:
        import dataclasses

        shown = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                _, write, secret = field.metadata["option"]
                shown.append(f"{field.name}={repr(_MASK) if secret else _shown(value, write)}")
        return f"{type(self).__name__}({', '.join(shown)})"


class Format(Options):
    """How records are written: an argument of a :class:`Connector`."""

    _name: ClassVar[str]


class Connector(Options):
    """What a table is outside of the session."""

    _name: ClassVar[str]

    def options(self) -> dict[str, str]:
        """The options as SQL has them in ``WITH (…)``, secrets too."""
        return {"connector": self._name} | self._written()


def _shown(value: object, write: Writer) -> str:
    if write is entries and isinstance(value, Mapping):
        # Keys are free, so any may be a secret's.
        return repr({key: _MASK for key in value})
    return repr(_SECRETS_WITHIN.sub(_MASK, value)) if isinstance(value, str) else repr(value)


def _of_type(value: object, kinds: type | tuple[type, ...], wanted: str) -> None:
    if not isinstance(value, kinds) or isinstance(value, bool) and kinds is not bool:
        raise TypeError(f"{wanted} is wanted, not {type(value).__name__}")


def text(key: str, value: Any) -> dict[str, str]:
    _of_type(value, str, "a string")
    return {key: str.__str__(value)}


def flag(key: str, value: Any) -> dict[str, str]:
    _of_type(value, bool, "True or False")
    return {key: "true" if value else "false"}


def integer(key: str, value: Any) -> dict[str, str]:
    _of_type(value, int, "an int")
    return {key: int.__repr__(value)}


def number(key: str, value: Any) -> dict[str, str]:
    _of_type(value, (int, float), "a number")
    return {key: int.__repr__(value) if isinstance(value, int) else float.__repr__(value)}


def duration(key: str, value: Any) -> dict[str, str]:
    millis = milliseconds(value)
    for unit, length in (("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if millis and millis % length == 0:
            return {key: f"{millis // length} {unit}"}
    return {key: f"{millis} ms"}


def size(key: str, value: Any) -> dict[str, str]:
    _of_type(value, (int, str), "a number of bytes or a string like '128 MB'")
    return text(key, value) if isinstance(value, str) else integer(key, value)


def instant(key: str, value: Any) -> dict[str, str]:
    _of_type(value, (int, str, datetime), "a datetime with a time zone, or milliseconds since 1970,")
    if not isinstance(value, datetime):
        return size(key, value)
    if value.tzinfo is None:
        raise ValueError("a datetime without a time zone is no instant: give it one, as in datetime(2026, 1, 1, tzinfo=timezone.utc)")
    return {key: str((value - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1))}


def joined(between: str) -> Writer:
    """For several texts in one."""

    def write(key: str, value: Any) -> dict[str, str]:
        if isinstance(value, str):
            return text(key, value)
        _of_type(value, Sequence, "a string or a list of them")
        for part in value:
            _of_type(part, str, "a string or a list of them")
            if between in part:
                raise ValueError(f"{part!r} has a {between!r}, which separates the parts of this option")
        return {key: between.join(value)}

    return write


def path(key: str, value: Any) -> dict[str, str]:
    _of_type(value, (str, os.PathLike), "a path")
    return text(key, os.fspath(value))


def offsets(key: str, value: Any) -> dict[str, str]:
    _of_type(value, Mapping, "a mapping from partitions to offsets")
    for part in (*value, *value.values()):
        _of_type(part, int, "a mapping from partitions to offsets")
    return {key: ";".join(f"partition:{partition:d},offset:{offset:d}" for partition, offset in value.items())}


def format_with(prefix: str) -> Writer:
    """For a format, whose own options get a prefix."""

    def write(key: str, value: Any) -> dict[str, str]:
        _of_type(value, Format, "a format such as Json()")
        return {key: value._name} | {prefix + key: text for key, text in value._written().items()}

    return write


def entries(key: str, value: Any) -> dict[str, str]:
    _of_type(value, Mapping, "a mapping")
    written: dict[str, str] = {}
    for name, entry in value.items():
        _of_type(name, str, "a mapping whose keys are strings")
        write = flag if isinstance(entry, bool) else integer if isinstance(entry, int) else text
        written |= write(f"{key}.{name}", entry)
    return written


def columns(key: str, value: Any) -> dict[str, str]:
    _of_type(value, Mapping, "a mapping from columns to their options")
    written: dict[str, str] = {}
    for column, settings in value.items():
        _of_type(column, str, "a mapping from names of columns")
        _of_type(settings, Options, "the options of a column, such as DatagenField(min=1),")
        written |= {f"{key}.{column}.{name}": text for name, text in settings._written().items()}
    return written


def create_table_sql(
    name: str,
    columns: Mapping[str, str | Expression],
    connector: Connector,
    *,
    primary_key: str | Sequence[str] = (),
    time: str | None = None,
    delay: Duration = "0s",
    if_not_exists: bool = False,
) -> str:
    """The statement that :meth:`Session.create_table` executes, with the secrets that are among its options."""
    if not name:
        raise ValueError("a table has a name")
    if not isinstance(connector, Connector):
        raise TypeError(f"a table has a connector such as Filesystem(…), not {connector!r}")
    elements = column_elements(columns, time, delay)
    keys = [primary_key] if isinstance(primary_key, str) else primary_key
    if keys:
        elements.append(f"PRIMARY KEY ({', '.join(quoted(key) for key in keys)}) NOT ENFORCED")
    options = [f"{literal(key)} = {literal(text)}" for key, text in connector.options().items()]
    exists = "IF NOT EXISTS " if if_not_exists else ""
    return f"CREATE TABLE {exists}{quoted(name)} (\n  {_lines(elements)}\n) WITH (\n  {_lines(options)}\n)"


def _lines(parts: Sequence[str]) -> str:
    return ",\n  ".join(parts)
