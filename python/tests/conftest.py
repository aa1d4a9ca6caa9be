"""What several files of tests need."""

import signal
from collections.abc import Iterator

import millstream as ms
import pytest
from hypothesis import settings

# Python leaves SIGINT ignored where it was: in a shell's background.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Nothing is kept between runs.
settings.register_profile("tests", database=None, deadline=None)
settings.load_profile("tests")

ENDLESS = """
    CREATE TABLE endless (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000',
        'fields.n.min' = '1', 'fields.n.max' = '9')
"""


@pytest.fixture
def con() -> Iterator[ms.Session]:
    with ms.connect() as session:
        yield session


@pytest.fixture
def endless(con: ms.Session) -> ms.Session:
    """A session with a table that gives a thousand rows a second."""
    con.execute(ENDLESS)
    return con
