"""What is wrong is said with code, place and advice."""

import millstream as ms
import pytest


def test_an_error_of_sql_shows_the_line(con: ms.Session) -> None:
    con.execute("CREATE VIEW bid AS SELECT 1 AS price")
    with pytest.raises(ms.errors.QueryError) as caught:
        con.sql("SELECT\n  prise\nFROM bid")
    error = caught.value
    assert error.code == "MS2003"
    assert "prise" in error.message
    assert error.place == "line 2, column 3"
    assert error.advice is not None and "price" in error.advice
    lines = str(error).splitlines()
    assert lines[0].startswith("error[MS2003]")
    assert any("^^^^^" in line for line in lines)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("SELEC 1", "MS2001"),
        ("", "MS2001"),
        ("SELECT * FROM nowhere", "MS2002"),
        ("SELECT 1 + 'a' || 2 FROM nowhere", "MS2002"),
        ("SELECT 1; SELECT 2", "MS2007"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'nothing')", "MS4007"),
        ("SELECT ?", "MS1007"),
    ],
)
def test_codes(con: ms.Session, script: str, code: str) -> None:
    with pytest.raises(ms.Error) as caught:
        con.sql(script)
    assert caught.value.code == code
    assert caught.value.advice


def test_an_error_while_rows_are_made(con: ms.Session) -> None:
    relation = con.sql("SELECT CAST(s AS INT) AS n FROM (VALUES ('1'), ('x')) AS t (s)")
    with pytest.raises(ms.errors.RunError) as caught:
        relation.fetchall()
    assert caught.value.code == "MS3003"
    with pytest.raises(ms.errors.RunError):
        for _ in relation.batches():
            pass
    assert con.sql("SELECT 1").fetchall() == [(1,)]


def test_an_insert_is_for_execute(con: ms.Session) -> None:
    con.execute("CREATE TABLE out (a INT) WITH ('connector' = 'blackhole')")
    with pytest.raises(ms.errors.QueryError, match=r"execute\(\)"):
        con.sql("INSERT INTO out SELECT 1")
    with pytest.raises(ms.errors.QueryError, match=r"sql\(\)"):
        con.execute("SELECT 1")


def test_an_endless_query_has_no_last_row(endless: ms.Session) -> None:
    relation = endless.sql("SELECT n FROM endless")
    assert relation.is_endless
    for collect in (relation.fetchall, relation.to_arrow, relation.pl, relation.df):
        with pytest.raises(ms.errors.QueryError) as caught:
            collect()
        assert caught.value.code == "MS2016"
        assert "limit" in str(caught.value)
    assert len(relation.fetchall(limit=3)) == 3
    assert 1 <= len(relation.fetchall(timeout=0.5)) < 5_000
    assert len(endless.sql("SELECT n FROM endless LIMIT 2").fetchall()) == 2
    batches = relation.batches()
    assert 1 <= next(batches).rows()[0][0] <= 9
    batches.close()
    assert list(batches) == []
