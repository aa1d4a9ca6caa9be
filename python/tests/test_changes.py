"""Results that change, with SQLite as a witness: after each beat, what has been printed is its answer over the rows read so far."""

import random
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import millstream as ms

CALLS = [
    "COUNT(*)",
    "COUNT(v)",
    "SUM(v)",
    "MIN(v)",
    "MAX(g)",
    "COUNT(DISTINCT v)",
    "COUNT(DISTINCT g) FILTER (WHERE v > 3)",
    "SUM(v) FILTER (WHERE k < 2)",
]


def query(draw: random.Random) -> str:
    calls = ", ".join(f"{draw.choice(CALLS)} AS c{i}" for i in range(draw.randint(1, 3)))
    where = draw.choice(["", " WHERE v > -2", " WHERE k IS NOT NULL"])
    keys = draw.choice(["k", "g", "k, g"])
    inner = f"SELECT k, g, SUM(v) AS v, COUNT(*) AS n FROM t{where} GROUP BY k, g"
    return draw.choice([
        f"SELECT {keys}, {calls} FROM t{where} GROUP BY {keys}",
        f"SELECT {keys}, {calls} FROM t{where} GROUP BY {keys} HAVING COUNT(*) > 1",
        f"SELECT {calls} FROM t{where}",
        f"SELECT DISTINCT g, n FROM ({inner}) AS i",
        f"SELECT n, COUNT(*) AS m, MAX(k) AS k FROM ({inner}) AS i GROUP BY n",
        f"SELECT {calls} FROM ({inner}) AS i",
        f"SELECT k, n FROM ({inner}) AS i WHERE n > 1 UNION ALL SELECT k, v FROM t WHERE v > 5",
    ])


def beats(text: str) -> Iterator[Counter[str]]:
    """The rows that are left behind each beat."""
    rows: Counter[str] = Counter()
    for line in text.splitlines():
        if line.startswith("-- beat"):
            yield Counter(rows)
            continue
        change, row = line[:2], line[3:-1]
        rows[row] += 1 if change in ("+I", "+U") else -1
        assert rows[row] >= 0, f"a row is taken back that is not there: {line}"
        rows += Counter()


def test_every_beat_is_what_sqlite_answers(tmp_path: Path) -> None:
    draw = random.Random(20)
    for case in range(12):
        values = [
            (i, draw.choice([None, 0, 1, 2, 3]), draw.choice([None, "a", "b", "c"]), draw.choice([None, *range(-5, 10)]))
            for i in range(40)
        ]
        lines = [",".join("NULL" if value is None else str(value) for value in row) for row in values]
        (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
        sql, length = query(draw), draw.choice([1, 7, 30])
        types = ms.connect()
        types.execute("CREATE TABLE t (id BIGINT, k BIGINT, g STRING, v BIGINT) WITH ('connector' = 'datagen')")
        columns = [field for field in types.sql(sql).columns if field != "op"]
        is_text = {"g": "STRING"}
        declared = ", ".join(f"`{name}` {is_text.get(name, 'BIGINT')}" for name in columns)
        if "MAX(g)" in sql:
            declared = re.sub(r"`(c\d)` BIGINT", lambda m: f"`{m[1]}` STRING" if f"MAX(g) AS {m[1]}" in sql else m[0], declared)
        script = f"""
            SET 'execution.runtime-mode' = 'streaming'; SET 'pipeline.beat-rows' = '{length}';
            SET 'table.exec.mini-batch.allow-latency' = '1 h';
            CREATE TABLE t (id BIGINT, k BIGINT, g STRING, v BIGINT)
                WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t.csv', 'format' = 'csv', 'csv.null-literal' = 'NULL');
            CREATE TABLE p ({declared}) WITH ('connector' = 'print', 'print-beats' = 'true');
            INSERT INTO p {sql};
        """
        ran = subprocess.run([sys.executable, "-m", "millstream", "run", "--quiet", "-e", script], capture_output=True, text=True, timeout=120)
        assert ran.returncode == 0, f"{sql}\n{ran.stderr}"
        database = sqlite3.connect(":memory:")
        database.execute("CREATE TABLE t (id INTEGER, k INTEGER, g TEXT, v INTEGER)")
        seen, found = 0, list(beats(ran.stdout))
        # The end of the input ends the last beat, unless the one before has all rows.
        assert len(found) in (40 // length, 40 // length + 1)
        for number, rows in enumerate(found):
            until = min((number + 1) * length, 40)
            database.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", values[seen:until])
            seen = until
            expected = Counter(
                ", ".join("NULL" if value is None else str(value) for value in row) for row in database.execute(sql)
            )
            assert rows == expected, f"case {case}, beat {number} of {length} rows: {sql}"


def test_a_relation_that_changes_has_its_changes_as_rows(endless: ms.Session) -> None:
    relation = endless.sql("SELECT n, COUNT(*) AS many FROM endless GROUP BY n")
    assert relation.columns == ["op", "n", "many"]
    current: dict[int, int] = {}
    for batch in relation.batches():
        for op, n, many in batch.rows():
            match op:
                case "+I":
                    assert n not in current
                    current[n] = many
                case "-U":
                    assert current.pop(n) == many
                case "+U":
                    assert n not in current
                    current[n] = many
        if sum(current.values()) > 200:
            break
    assert set(current) <= set(range(1, 10))


def test_the_last_rows_of_a_bounded_stream_are_those_of_batch_mode(con: ms.Session) -> None:
    con.execute("SET 'execution.runtime-mode' = 'streaming'")
    sql = "SELECT k, COUNT(*) AS n FROM (VALUES ('a'), ('b'), ('a')) AS t (k) GROUP BY k"
    assert sorted(con.sql(sql).fetchall()) == [("a", 2), ("b", 1)]
    con.execute("SET 'sql-client.execution.result-mode' = 'changelog'")
    assert {row[0] for row in con.sql(sql).fetchall()} == {"+I"}
