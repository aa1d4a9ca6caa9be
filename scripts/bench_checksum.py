"""What results of the benchmarks are compared by: the number of rows and the sum of a hash of each (docs/benchmarks.md)."""

import numpy
import pyarrow


def checksum(table):
    """Of an Arrow table of integers, timestamps, decimals and texts without NULLs."""
    hashes = numpy.zeros(table.num_rows, dtype=numpy.uint64)
    for column in table.columns:
        hashes = (hashes ^ numbers(column)) * numpy.uint64(0x9E3779B97F4A7C15)
        hashes = (hashes << numpy.uint64(29)) | (hashes >> numpy.uint64(35))
    return f"{table.num_rows} {int(hashes.sum(dtype=numpy.uint64))}"


def numbers(column):
    """The 64-bit number that each value counts as."""
    if isinstance(column, pyarrow.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if pyarrow.types.is_timestamp(kind):
        return column.cast(pyarrow.timestamp("ms")).cast(pyarrow.int64()).to_numpy().view(numpy.uint64)
    if pyarrow.types.is_decimal(kind):
        # Low halves of the unscaled numbers: those here fit into 64 bits.
        column = column.cast(pyarrow.decimal128(38, kind.scale))
        words = numpy.frombuffer(column.buffers()[1], dtype=numpy.uint64).reshape(-1, 2)
        return words[column.offset : column.offset + len(column), 0]
    if pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind) or pyarrow.types.is_string_view(kind):
        return text_hashes(column.cast(pyarrow.large_string()))
    return column.cast(pyarrow.int64()).to_numpy().view(numpy.uint64)


def text_hashes(column):
    """FNV-1a of every text, byte position by byte position."""
    offsets = numpy.frombuffer(column.buffers()[1], dtype=numpy.int64)[column.offset : column.offset + len(column) + 1]
    data = numpy.frombuffer(column.buffers()[2], dtype=numpy.uint8)
    starts, lengths = offsets[:-1], numpy.diff(offsets)
    hashes = numpy.full(len(column), 0xCBF29CE484222325, dtype=numpy.uint64)
    for position in range(int(lengths.max(initial=0))):
        rows = numpy.nonzero(lengths > position)[0]
        hashes[rows] = (hashes[rows] ^ data[starts[rows] + position]) * numpy.uint64(0x100000001B3)
    return hashes
