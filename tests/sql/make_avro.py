"""Writes `data/avro`: files of another program (fastavro 1.13, with cramjam and backports.zstd) for `avro.slt`."""

import datetime
import decimal
import os

import fastavro

FOLDER = os.path.join(os.path.dirname(__file__), "data", "avro")
FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "local", "type": ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}]},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
    {
        "name": "address",
        "type": [
            "null",
            {
                "type": "record",
                "name": "Address",
                "fields": [{"name": "city", "type": "string"}, {"name": "zip", "type": ["null", "string"]}],
            },
        ],
    },
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "extra", "type": {"type": "map", "values": "double"}},
    {"name": "amount", "type": ["null", "int", "long"]},
    {"name": "raw", "type": {"type": "fixed", "name": "Two", "size": 2}},
    {"name": "ok", "type": "boolean"},
    {"name": "ratio", "type": "float"},
]


def row(i):
    return {
        "id": i,
        "at": datetime.datetime(2026, 1, 1, 12, 0, i, 78000, datetime.timezone.utc),
        "local": None if i % 3 == 0 else datetime.datetime(2026, 1, 1, 9, 0, 0, i),
        "day": datetime.date(2026, 1, i),
        "price": None if i == 2 else decimal.Decimal(i * 25) / 100,
        "state": "PAID" if i % 2 else "NEW",
        "address": None if i == 3 else {"city": "Köln", "zip": None if i == 1 else "50667"},
        "tags": ["a", "b"][: i % 3],
        "extra": {"k": i / 2},
        "amount": [None, 7, 9007199254740993][i % 3],
        "raw": b"AB",
        "ok": i % 2 == 0,
        "ratio": 0.5,
    }


def write(name, fields, rows, codec, sync_interval=16000):
    path = os.path.join(FOLDER, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    schema = {"type": "record", "name": "Event", "namespace": "shop", "fields": fields}
    with open(path, "wb") as file:
        fastavro.writer(file, schema, rows, codec, sync_interval, sync_marker=b"0123456789abcdef")


# Blocks of a record or two.
for codec in ["null", "deflate", "snappy", "zstandard"]:
    write(f"codecs/{codec}.avro", FIELDS, [row(i) for i in range(1, 5)], codec, 60)
write("bzip2.avro", FIELDS[:1], [{"id": 1}], "bzip2")
# The second file has a column more, and another order.
write("days/day=2026-01-01/a.avro", FIELDS[:1], [{"id": 1}, {"id": 2}], "null")
more = [{"name": "note", "type": "string"}, {"name": "id", "type": "int"}]
write("days/day=2026-01-02/a.avro", more, [{"note": "x", "id": 3}], "deflate")
