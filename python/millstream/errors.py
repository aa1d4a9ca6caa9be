"""What is raised: an :class:`Error` with the code, what is wrong, where, and what to do.

The codes are those of the command line; docs/errors.md explains each.
"""

from __future__ import annotations


class Error(Exception):
    """An error of Millstream. Its text is what the command line prints: with the line of SQL, and advice."""

    #: ``MS2003``: the first digit says what kind of error it is.
    code: str
    #: What is wrong, in a sentence.
    message: str
    #: Where: a line and column of SQL, a file, a column, an option.
    place: str | None
    #: What to do.
    advice: str | None


class ConfigurationError(Error):
    """MS1xxx: a setting, an option or a parameter is unusable."""


class QueryError(Error):
    """MS2xxx: the SQL cannot be understood or run."""


class RunError(Error):
    """MS3xxx: a query failed while it ran."""


class Cancelled(RunError):
    """MS3007: the query was cancelled."""


class ConnectorError(Error):
    """MS4xxx: something cannot be read or written."""


class NetworkError(Error):
    """MS5xxx: a connection cannot be made, or broke."""


class Bug(Error):
    """MS9xxx: a bug in Millstream. Please report it."""


class Interrupted(BaseException):
    """Raised in a function of yours whose query was cancelled. Not an ``Exception``, so that it is not caught by accident."""


_KINDS: dict[str, type[Error]] = {
    "1": ConfigurationError,
    "2": QueryError,
    "3": RunError,
    "4": ConnectorError,
    "5": NetworkError,
}


def of(text: str, *, code: str, message: str, place: str | None, advice: str | None) -> Error:
    """The exception for an error of the engine."""
    kind = Cancelled if code == "MS3007" else _KINDS.get(code[2], Bug)
    error = kind(text)
    error.code, error.message, error.place, error.advice = code, message, place, advice
    return error
