"""What several files of tests need."""

from collections.abc import Iterator

import millstream as ms
import pytest

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
