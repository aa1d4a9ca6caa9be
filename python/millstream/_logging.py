"""The package's logger."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger


def logger() -> Logger:
    """Made when there is something to log: ``logging`` is a tenth of what importing this package may take."""
    import logging

    return logging.getLogger("millstream")
