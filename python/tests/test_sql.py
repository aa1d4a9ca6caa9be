"""Scripts, sessions, relations."""

import datetime
import decimal
import pathlib

import millstream as ms
import pytest


def test_a_query_runs_each_time_its_rows_are_asked_for(con: ms.Session) -> None:
    relation = con.sql("SELECT n, n * 2 AS twice FROM (VALUES (1), (2)) AS t (n)")
    assert relation.columns == ["n", "twice"]
    assert relation.types == ["INT", "INT"]
    assert relation.schema == {"n": "INT NOT NULL", "twice": "INT NOT NULL"}
    assert relation.fetchall() == relation.fetchall() == [(1, 2), (2, 4)]
    assert relation.fetchone() == (1, 2)
    assert relation.fetchall(limit=1) == [(1, 2)]
    assert relation.to_sql().startswith("SELECT n")


def test_values_of_every_type(con: ms.Session) -> None:
    row = con.sql("""
        SELECT TRUE, CAST(1 AS TINYINT), CAST(2 AS SMALLINT), 3, CAST(4 AS BIGINT), CAST(0.5 AS FLOAT), CAST(0.1 AS DOUBLE),
            1.50, 'ä', X'00FF', DATE '2020-02-29', TIME '12:34:56.789', TIMESTAMP '1969-12-31 23:59:59.999999',
            TO_TIMESTAMP_LTZ(-1, 3), INTERVAL '1' DAY, INTERVAL '2' YEAR, ARRAY[1, NULL], MAP['a', 1], ROW(1, 'x'),
            CAST(NULL AS INT)
    """).fetchone()
    assert row == (
        True,
        1,
        2,
        3,
        4,
        0.5,
        0.1,
        decimal.Decimal("1.50"),
        "ä",
        b"\x00\xff",
        datetime.date(2020, 2, 29),
        datetime.time(12, 34, 56, 789_000),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=datetime.timezone.utc),
        datetime.timedelta(days=1),
        24,
        [1, None],
        {"a": 1},
        {"EXPR$0": 1, "EXPR$1": "x"},
        None,
    )
    assert str(row[7]) == "1.50"


def test_a_script_defines_and_the_last_query_is_returned(con: ms.Session) -> None:
    relation = con.sql("""
        SET 'parallelism.default' = '2';
        CREATE VIEW one AS SELECT 1 AS n;
        SELECT n + 1 AS m FROM one;
    """)
    assert relation.fetchall() == [(2,)]
    assert con.tables() == ["one"]
    assert con.sql("SHOW TABLES").fetchall() == [("one",)]
    assert con.sql("DESCRIBE one").columns[0] == "name"
    assert con.sql("DROP VIEW one").fetchall() == [("view dropped",)]
    assert "Project" in str(con.sql("EXPLAIN SELECT 1 AS a").fetchone()) or "Values" in str(
        con.sql("EXPLAIN SELECT 1 AS a").fetchone()
    )


def test_what_is_defined_afterwards_does_not_change_a_relation(con: ms.Session) -> None:
    con.execute("CREATE VIEW v AS SELECT 1 AS n")
    relation = con.sql("SELECT * FROM v")
    con.execute("DROP VIEW v; CREATE VIEW v AS SELECT 'x' AS s")
    assert relation.fetchall() == [(1,)]
    assert con.sql("SELECT * FROM v").fetchall() == [("x",)]


def test_an_insert_is_run_to_its_end(con: ms.Session, tmp_path: pathlib.Path) -> None:
    con.execute(f"""
        CREATE TABLE out (n INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / "out.csv"}', 'format' = 'csv');
        INSERT INTO out VALUES (1), (2);
    """)
    assert (tmp_path / "out.csv").read_text() == "1\n2\n"


def test_a_job_resumes_from_the_state_directory(tmp_path: pathlib.Path) -> None:
    source, target, state = tmp_path / "in.csv", tmp_path / "out", tmp_path / "state"
    source.write_text("1\n2\n")
    script = f"""
        CREATE TABLE src (n INT) WITH ('connector' = 'filesystem', 'path' = '{source}', 'format' = 'csv');
        CREATE TABLE out (n INT) WITH ('connector' = 'filesystem', 'path' = '{target}', 'format' = 'csv');
        INSERT INTO out SELECT n FROM src;
    """
    for _ in range(2):
        with ms.connect(state_dir=state) as con:
            con.execute(script)
    written = sorted(line for file in target.iterdir() for line in file.read_text().split())
    assert written == ["1", "2"]


def test_settings(con: ms.Session) -> None:
    with ms.connect(settings={"parallelism.default": 1}) as one:
        assert ("parallelism.default", "1") in one.sql("SET").fetchall()
    con.set("parallelism.default", 2)
    assert ("parallelism.default", "2") in con.sql("SET").fetchall()
    with pytest.raises(ms.errors.ConfigurationError, match="no.such.option"):
        con.set("no.such.option", "1")
    with pytest.raises(ms.Error):
        ms.connect(settings={"parallelism.default": "many"})


def test_the_default_session(tmp_path: pathlib.Path) -> None:
    rows = [(1,)]
    assert ms.sql("SELECT 1").fetchall() == rows
    ms.execute("CREATE VIEW of_default AS SELECT 7 AS n")
    assert ms.sql("SELECT n FROM of_default").fetchall() == [(7,)]
    assert "of_default" in ms.default_session().tables()
    ms.execute("DROP VIEW of_default")


def test_a_closed_session_says_so() -> None:
    with ms.connect() as con:
        relation = con.sql("SELECT 1")
    with pytest.raises(ms.Error, match="the session is closed"):
        con.sql("SELECT 1")
    assert relation.fetchall() == [(1,)]


def test_explain(con: ms.Session) -> None:
    relation = con.sql("SELECT n + 1 AS m FROM (VALUES (1), (2)) AS t (n) WHERE n > 1")
    assert "pipeline" in relation.explain().lower()
    assert "LLVM" in relation.explain(codegen=True)
    assert "rows" in relation.explain(analyze=True)
