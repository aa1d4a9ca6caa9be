"""Where the program called something, for errors about what it gave."""

from __future__ import annotations

import sys

from millstream import errors


def called() -> tuple[str, str]:
    """The method of this package that was called, and where."""
    frame = sys._getframe(1)
    method = frame.f_code.co_name
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("millstream."):
        method = frame.f_code.co_name
        frame = frame.f_back
    return method, f"{frame.f_code.co_filename}:{frame.f_lineno}"


def placed(error: errors.Error, argument: str | int | None = None, advice: str | None = None) -> errors.Error:
    """The error of a call: with the method, the argument that is wrong, by its name or its place from 1, and where the method was called."""
    method, place = called()
    match argument:
        case None:
            what = f"{method}()"
        case str():
            what = f"{method}({argument}=…)"
        case int():
            what = f"argument {argument} of {method}()"
    message = f"{error.message} in {what} at {place}"
    advice = advice if advice is not None else error.advice
    text = f"error[{error.code}]: {message}"
    if advice is not None:
        text += f"\n  = help: {advice}"
    return errors.of(text, code=error.code, message=message, place=place, advice=advice)
