"""Tables that are defined by classes: one for each connector and format."""

import dataclasses
import datetime
import pathlib
import re
import socket
import subprocess
import sys
import threading
import typing
from collections.abc import Mapping
from typing import Any

import millstream as ms
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from millstream import connectors
from millstream.connectors import (
    Arrow,
    Avro,
    AvroConfluent,
    Blackhole,
    CanalJson,
    Connector,
    Csv,
    Datagen,
    DatagenField,
    DebeziumAvroConfluent,
    DebeziumJson,
    Filesystem,
    Format,
    Jdbc,
    Json,
    Kafka,
    MaxwellJson,
    Nexmark,
    Parquet,
    Print,
    Raw,
    Row,
    Socket,
    UpsertKafka,
    create_table_sql,
)

REFERENCE = pathlib.Path(__file__).parents[2] / "docs" / "connector-options.md"

#: What must be given.
REQUIRED: dict[type, dict[str, Any]] = {
    Filesystem: {"path": "x.csv", "format": Csv()},
    Kafka: {"topic": "t", "properties_bootstrap_servers": "localhost:9092", "format": Json()},
    UpsertKafka: {
        "topic": "t",
        "properties_bootstrap_servers": "localhost:9092",
        "key_format": Json(),
        "value_format": Json(),
    },
    Socket: {"port": 9999, "format": Json()},
    Jdbc: {"url": "jdbc:postgresql://localhost/shop", "table_name": "orders"},
    AvroConfluent: {"url": "http://localhost:8081"},
    DebeziumAvroConfluent: {"url": "http://localhost:8081"},
}
FORMATS = [Json, Csv, Row, Arrow, Parquet, Raw, Avro, AvroConfluent, DebeziumJson, DebeziumAvroConfluent, CanalJson, MaxwellJson]
CONNECTORS = [Filesystem, Kafka, UpsertKafka, Socket, Jdbc, Nexmark, Datagen, Print, Blackhole]

#: A value of each type, and its text.
VALUES: dict[Any, tuple[Any, str]] = {
    str: ("it's", "it's"),
    bool: (True, "true"),
    int: (7, "7"),
    float: (0.5, "0.5"),
    str | datetime.timedelta: ("1h 30min", "90 min"),
    int | str: (4096, "4096"),
    int | datetime.datetime: (datetime.datetime(1970, 1, 2, tzinfo=datetime.timezone.utc), "86400000"),
    int | datetime.datetime | typing.Literal["now"]: ("now", "now"),
    Mapping[int, int]: ({0: 42, 1: 300}, "partition:0,offset:42;partition:1,offset:300"),
}


def option_types(kind: type) -> dict[str, Any]:
    """The type of each argument, without None."""
    hints = typing.get_type_hints(kind)
    types = {}
    for field in dataclasses.fields(kind):
        parts = [part for part in typing.get_args(hints[field.name]) if part is not type(None)]
        is_optional = field.default is None
        types[field.name] = typing.Union[tuple(parts)] if is_optional else hints[field.name]
    return types


def sections() -> dict[str, dict[str, str]]:
    """The keys and defaults that the reference has for each connector and format."""
    found: dict[str, dict[str, str]] = {}
    for line in REFERENCE.read_text().splitlines():
        if title := re.match(r"## (\w+) `([^`]+)`|## Options of every table", line):
            options = found.setdefault(f"{title[1]} {title[2]}" if title[1] else "every table", {})
        elif row := re.match(r"\| `([^`]+)` \| (.*?) \|", line):
            options[row[1]] = row[2]
    return found


def test_every_connector_and_format_has_a_class(con: ms.Session) -> None:
    found = sections()
    names = {f"Connector {kind._name}" for kind in CONNECTORS} | {f"Format {kind._name}" for kind in FORMATS}  # type: ignore[attr-defined]
    assert names == set(found) - {"every table"}
    with pytest.raises(ms.errors.ConnectorError, match=", ".join(kind._name for kind in CONNECTORS)):  # type: ignore[attr-defined]
        con.execute("CREATE TABLE t (n INT) WITH ('connector' = '?')")
    public = {getattr(connectors, name) for name in connectors.__all__}
    assert public >= {*CONNECTORS, *FORMATS}


@pytest.mark.parametrize("kind", CONNECTORS + FORMATS, ids=lambda kind: kind.__name__)
def test_every_option_is_an_argument(kind: type) -> None:
    sort = "Connector" if kind in CONNECTORS else "Format"
    found = sections()
    reference = found[f"{sort} {kind._name}"]  # type: ignore[attr-defined]
    known = {field.metadata["option"][0] for field in dataclasses.fields(kind)}
    own = known - set(found["every table"])
    listed = {key.removesuffix(".*") for key in reference if ".<" not in key}
    # Where there is a `format`, that is another way to write it.
    assert own == (listed - {"value.format"} if "format" in listed else listed)
    assert known - own in (set(), set(found["every table"]) - {"connector"})
    required = {field.metadata["option"][0] for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING}
    assert required == {key for key, default in reference.items() if default == "required"}
    assert all(f"(``{key}``" in kind.__doc__ or f"(``{key}``, default" in kind.__doc__ or f"(``{key}.*``" in kind.__doc__ for key in known)  # type: ignore[operator]


@pytest.mark.parametrize("kind", CONNECTORS + FORMATS, ids=lambda kind: kind.__name__)
def test_every_option_is_one_of_the_engine(con: ms.Session, kind: type) -> None:
    # What `late.table` names is there before.
    con.create_table("it's", {"n": "INT NOT NULL"}, Blackhole())
    for name, data_type in option_types(kind).items():
        value: Any
        if typing.get_origin(data_type) is typing.Literal:
            cases = [(value, value) for value in typing.get_args(data_type)]
        elif data_type in VALUES:
            cases = [VALUES[data_type]]
        elif name in ("format", "key_format", "value_format"):
            cases = [(one(**REQUIRED.get(one, {})), one._name) for one in typing.get_args(data_type)]
        else:
            assert name in SEVERAL
            continue
        field = next(field for field in dataclasses.fields(kind) if field.name == name)
        key = field.metadata["option"][0]
        for value, text in cases:
            # Either topics or a pattern for them.
            others = {"topic": None} if name == "topic_pattern" else {}
            made = kind(**REQUIRED.get(kind, {}) | others | {name: value})
            if isinstance(made, Format):
                assert made._written()[key] == text
                made = Kafka(**REQUIRED[Kafka] | {"format": made}) if kind in MESSAGES else Filesystem(path="x", format=made)  # type: ignore[arg-type]
            assert made.options()[key] == text
            con.create_table("t", {"n": "INT NOT NULL"}, made)
            defined = con.sql("SHOW CREATE TABLE t").fetchall()[0][0]
            assert f"'{key}' = " in defined
            con.execute("DROP TABLE t")


#: Arguments of several values, which :func:`test_options_of_several_values` has.
SEVERAL = {"topic", "properties_bootstrap_servers", "properties", "key_fields", "fields", "path", "scan_dead_letter_path"}
MESSAGES = typing.get_args(connectors.MessageFormat)


def test_options_of_several_values(con: ms.Session) -> None:
    table = Kafka(
        topic=["a", "b"],
        properties_bootstrap_servers=["one:9092", "two:9092"],
        properties={"client.id": "me", "enable.auto.commit": True, "fetch.min.bytes": 10},
        format=Csv(field_delimiter="|"),
        key_format=Json(ignore_parse_errors=True),
        key_fields=["k1", "k2"],
        scan_dead_letter_path=pathlib.Path("bad.jsonl"),
    )
    assert table.options() == {
        "connector": "kafka",
        "topic": "a;b",
        "properties.bootstrap.servers": "one:9092,two:9092",
        "properties.client.id": "me",
        "properties.enable.auto.commit": "true",
        "properties.fetch.min.bytes": "10",
        "format": "csv",
        "csv.field-delimiter": "|",
        "key.format": "json",
        "key.json.ignore-parse-errors": "true",
        "key.fields": "k1;k2",
        "scan.dead-letter.path": "bad.jsonl",
    }
    con.create_table("t", {"k1": "INT", "k2": "INT"}, table)
    fields = {"a.b": DatagenField(kind="sequence", start=1, end=3), "s": DatagenField(length=2, null_rate=0.5, var_len=True)}
    generated = Datagen(number_of_rows=3, fields=fields).options()
    assert generated == {
        "connector": "datagen",
        "number-of-rows": "3",
        "fields.a.b.kind": "sequence",
        "fields.a.b.start": "1",
        "fields.a.b.end": "3",
        "fields.s.length": "2",
        "fields.s.var-len": "true",
        "fields.s.null-rate": "0.5",
    }


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Csv(header="yes"), TypeError, r"Csv\(header=…\): True or False is wanted, not str"),  # type: ignore[arg-type]
        (lambda: Datagen(number_of_rows=True), TypeError, "number_of_rows=….: an int is wanted, not bool"),
        (lambda: Datagen(number_of_rows=1.5), TypeError, "an int is wanted, not float"),  # type: ignore[arg-type]
        (lambda: Socket(port="80", format=Json()), TypeError, "port"),  # type: ignore[arg-type]
        (lambda: Filesystem(path=None, format=Json()), TypeError, "a path is wanted"),  # type: ignore[arg-type]
        (lambda: Filesystem(path="x", format="json"), TypeError, r"a format such as Json\(\) is wanted"),  # type: ignore[arg-type]
        (lambda: Filesystem(path="x"), TypeError, "format"),  # type: ignore[call-arg]
        (lambda: Socket(port=80, format=Json(), sink_timeout="soon"), ValueError, "sink_timeout=….: 'soon' is not a duration"),
        (lambda: Kafka(topic=["a;b"], properties_bootstrap_servers="x", format=Json()), ValueError, "separates"),
        (
            lambda: Kafka(properties_bootstrap_servers="x", format=Json(), properties={"bootstrap.servers": "y"}),
            ValueError,
            "'properties.bootstrap.servers' is given twice",
        ),
        (lambda: Nexmark(base_time=datetime.datetime(2026, 1, 1)), ValueError, "without a time zone"),
        (lambda: Datagen(fields={"n": 1}), TypeError, "DatagenField"),  # type: ignore[dict-item]
        (lambda: Csv(True), TypeError, "positional"),  # type: ignore[call-arg, arg-type]
        (lambda: create_table_sql("t", {"n": int}, Blackhole()), TypeError, "column 'n' has a type of SQL such as 'BIGINT'"),  # type: ignore[dict-item]
        (lambda: create_table_sql("t", {"n": "INT"}, Csv()), TypeError, "a connector such as"),  # type: ignore[arg-type]
        (lambda: create_table_sql("", {"n": "INT"}, Blackhole()), ValueError, "name"),
        (lambda: create_table_sql("t", {"n": "INT"}, Blackhole(), delay="1s"), ValueError, "time="),
    ],
)
def test_values_of_other_types_are_refused_at_once(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("connector", "key"),
    [
        (Filesystem(path="x.csv", format=Csv(field_delimiter="too long")), "csv.field-delimiter"),
        (Filesystem(path="x.json", format=Json(timestamp_format_standard="ISO")), "json.timestamp-format.standard"),  # type: ignore[arg-type]
        (Datagen(fields={"n": DatagenField(null_rate=2)}), "fields.n.null-rate"),
        (Datagen(number_of_rows=-1), "number-of-rows"),
        (Socket(port=70_000, format=Json()), "port"),
        (Filesystem(path="x.json", format=AvroConfluent(url="http://h")), "format"),  # type: ignore[arg-type]
    ],
)
def test_other_values_are_errors_of_the_engine(con: ms.Session, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, connector: Connector, key: str) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("x.csv", "x.json"):
        pathlib.Path(name).touch()
    with pytest.raises(ms.errors.ConfigurationError) as caught:
        con.create_table("t", {"n": "BIGINT"}, connector).fetchall()
    assert key in str(caught.value.place)


def test_secrets_are_not_shown(con: ms.Session) -> None:
    table = Jdbc(url="postgresql://me:hunter1@h/d?sslpassword=hunter2&x=1", table_name="orders", password="hunter3")
    assert repr(table) == "Jdbc(url='postgresql://******@h/d?sslpassword=******&x=1', table_name='orders', password='******')"
    registry = AvroConfluent(url="http://me:hunter4@h", basic_auth_user_info="me:hunter5", bearer_auth_token="hunter6")
    kafka = Kafka(
        topic="t",
        properties_bootstrap_servers="h:1",
        properties={"sasl.password": "hunter7", "client.id": "hunter8"},
        format=registry,
    )
    assert "hunter" not in repr(kafka) and "topic='t'" in repr(kafka)
    assert "hunter" not in f"{kafka} {[registry]}"
    assert table.options()["password"] == "hunter3"
    with pytest.raises(ms.Error) as caught:
        con.create_table("t", {"n": "NOTHING"}, kafka)
    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("rows.csv", Csv(header=True)),
        ("rows.json", Json()),
        ("rows.parquet", Parquet(compression="ZSTD", block_size="1 MB")),
        ("rows.arrows", Arrow()),
        ("rows.json.gz", Json(timestamp_format_standard="ISO-8601")),
    ],
)
def test_files(con: ms.Session, tmp_path: pathlib.Path, name: str, format: Any) -> None:
    columns = {"n": "BIGINT", "odd `name`": "STRING", "ts": "TIMESTAMP(3)"}
    table = con.create_table("t", columns, Filesystem(path=tmp_path / name, format=format), time="ts", delay=datetime.timedelta(seconds=5))
    assert table.schema == columns
    rows = [(n, f"it's {n}", datetime.datetime(2026, 1, 1, 0, 0, n)) for n in range(20)]
    ids, texts, times = map(list, zip(*rows))
    con.register("rows", pa.table({"n": ids, "odd `name`": texts, "ts": pa.array(times, pa.timestamp("ms"))}))
    con.table("rows").insert_into("t").wait()
    assert sorted(con.table("t").fetchall()) == rows
    counts = con.sql("SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end")
    assert counts.fetchall() == [(10,), (10,)]
    assert "INTERVAL '0 00:00:05.000'" in con.sql("SHOW CREATE TABLE t").fetchall()[0][0]


def test_columns(con: ms.Session, tmp_path: pathlib.Path) -> None:
    (tmp_path / "prices.csv").write_text("1,250\n2,300\n")
    table = con.create_table(
        "prices",
        {
            "id": "BIGINT NOT NULL",
            "price": "BIGINT",
            "dollars": ms.col("price") / 100,
            "twice": "AS price * 2",
            "file": "STRING METADATA FROM 'file.name' VIRTUAL",
        },
        Filesystem(path=tmp_path / "prices.csv", format=Csv()),
        primary_key=["id"],
    )
    assert sorted(table.fetchall()) == [(1, 250, 2, 500, "prices.csv"), (2, 300, 3, 600, "prices.csv")]
    assert "PRIMARY KEY (`id`) NOT ENFORCED" in con.sql("SHOW CREATE TABLE prices").fetchall()[0][0]
    with pytest.raises(ms.errors.QueryError):
        con.create_table("prices", {"n": "INT"}, Blackhole())
    assert con.create_table("prices", {"n": "INT"}, Blackhole(), if_not_exists=True).columns == table.columns


def test_a_table_that_cannot_be_read_is_not_defined(con: ms.Session) -> None:
    late = Datagen(late_table="late")
    with pytest.raises(ms.errors.QueryError, match="unknown table or view 'late'"):
        con.create_table("t", {"n": "BIGINT"}, late)
    con.create_table("late", {"n": "BIGINT"}, Blackhole())
    assert con.create_table("t", {"n": "BIGINT"}, late).columns == ["n"]


def test_columns_of_something_else(con: ms.Session) -> None:
    data = pa.table({"n": pa.array([1], pa.int64()), "at": pa.array([None], pa.timestamp("ms"))})
    expected = {"n": "BIGINT", "at": "TIMESTAMP(3)"}
    for n, columns in enumerate([data, data.schema, con.table(data)]):
        assert con.create_table(f"t{n}", columns, Blackhole()).schema == expected


def test_generated_rows_go_to_a_sink(con: ms.Session) -> None:
    numbers = con.create_table(
        "numbers", {"n": "BIGINT"}, Datagen(rows_per_second=0, fields={"n": DatagenField(kind="sequence", start=1, end=1000)})
    )
    con.create_table("nowhere", {"n": "BIGINT"}, Blackhole())
    job = numbers.insert_into("nowhere")
    job.wait()
    assert job.state == "finished"
    assert sorted(numbers.fetchall()) == [(n,) for n in range(1, 1001)]
    events = con.create_table("events", {"event_type": "INT", "bid": "ROW<price BIGINT>"}, Nexmark(events_num=100))
    assert len(events.fetchall()) == 100


def test_printed_rows() -> None:
    script = """
import millstream as ms
ms.create_table("p", {"a": "INT", "b": "STRING"}, ms.connectors.Print(print_identifier="it's"))
ms.execute("INSERT INTO p SELECT 1, 'x'")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "it's> +I[1, x]\n"), done.stderr


def test_rows_over_a_connection(con: ms.Session) -> None:
    with socket.create_server(("localhost", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b'{"n": 1}\n{"n": 2}\n')

        thread = threading.Thread(target=serve)
        thread.start()
        table = con.create_table("s", {"n": "BIGINT"}, Socket(port=server.getsockname()[1], format=Json(), connect_timeout="5s"))
        assert table.fetchall(timeout=30) == [(1,), (2,)]
        thread.join()


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@given(TEXTS, TEXTS, TEXTS)
def test_names_and_values_are_quoted(table: str, column: str, value: str) -> None:
    with ms.connect() as con:
        made = con.create_table(table, {column: "INT"}, Print(print_identifier=value), primary_key=column)
        assert made.columns == [column]
        [(text,)] = con.sql(f"SHOW CREATE TABLE `{table.replace('`', '``')}`").fetchall()
        assert f"'print-identifier' = '{value.replace(chr(39), chr(39) * 2)}'" in text


@given(st.integers(0, 10**10).map(lambda millis: datetime.timedelta(milliseconds=millis)))
def test_durations_are_exact(length: datetime.timedelta) -> None:
    number, unit = Socket(port=1, format=Json(), sink_timeout=length).options()["sink.timeout"].split()
    assert int(number) * {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000}[unit] == length // datetime.timedelta(milliseconds=1)


def test_the_module_is_made_when_it_is_used() -> None:
    script = "import sys, millstream as ms; assert 'millstream.connectors' not in sys.modules; print(ms.connectors.Csv())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "Csv()\n", done.stderr
