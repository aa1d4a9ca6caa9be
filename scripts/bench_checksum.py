"""What results of the benchmarks are compared by: the number of rows and the sum of a hash of each (docs/benchmarks.md)."""
import numpy


def checksum(columns):
    """`columns`: numpy arrays of integers (times as numbers), of doubles, of booleans, or of text, all of one length."""
    hashes = numpy.zeros(len(columns[0]) if columns else 0, dtype=numpy.uint64)
    with numpy.errstate(over="ignore"):
        for column in columns:
            hashes = (hashes ^ numbers(column)) * numpy.uint64(0x9E3779B97F4A7C15)
            hashes = (hashes << numpy.uint64(29)) | (hashes >> numpy.uint64(35))
        return f"{len(hashes)} {int(hashes.sum(dtype=numpy.uint64))}"


def numbers(column):
    """The number that each value counts as, as 64 bits."""
    if column.dtype.kind == "f":
        column = numpy.floor(numpy.abs(column) * 1000 + 0.5) * numpy.sign(column)
    elif column.dtype.kind in "OUS":
        return numpy.array([text_number(text) for text in column], dtype=numpy.uint64)
    elif column.dtype.kind == "M":
        column = column.astype("datetime64[ms]")
    return column.astype(numpy.int64).view(numpy.uint64)


def text_number(text):
    """FNV-1a of UTF-8; NULL is the least number."""
    if text is None:
        return 1 << 63
    number = 0xCBF29CE484222325
    for byte in text.encode():
        number = (number ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return number
