"""How a text file with columns was written: its encoding, and what separates the columns."""

import codecs
import csv
import gzip
import itertools
from pathlib import Path
from typing import IO

from credo.errors import CredoError

SEPARATORS = (",", ";", "\t", "|")
BYTES_AT_ONCE = 1 << 20
LINES_LOOKED_AT = 50


def text_encoding(path: Path) -> str:
    """UTF-8 or UTF-16, by the mark at the start or by trying; else Latin-1 as Windows has it."""
    with _open(path) as file:
        start = file.read(BYTES_AT_ONCE)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if b"\0" in start:
            return _without_mark(start, path)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while start:
                decoder.decode(start)
                start = file.read(BYTES_AT_ONCE)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252" if _is_cp1252(path) else "latin-1"
    return "utf-8-sig"


def separator(path: Path, encoding: str) -> str:
    """The mark that gives the first lines equally many columns, and the most of them."""
    with _open(path) as file:
        text = codecs.getreader(encoding)(file)
        lines = list(itertools.islice(text, LINES_LOOKED_AT))
    return max(SEPARATORS, key=lambda mark: _regularity(lines, mark))


def _regularity(lines: list[str], mark: str) -> tuple[bool, int]:
    """Whether all lines have as many columns as the first, and how many these are."""
    rows = [row for row in csv.reader(lines, delimiter=mark, skipinitialspace=True) if row]
    widths = {len(row) for row in rows}
    most = len(rows[0]) if rows else 0
    return len(widths) == 1 and most > 1, most


def _without_mark(start: bytes, path: Path) -> str:
    """UTF-16 shows as zeros at every second place."""
    if start[1::2].count(0) > 0.3 * len(start[1::2]) and start[::2].count(0) == 0:
        return "utf-16-le"
    if start[::2].count(0) > 0.3 * len(start[::2]) and start[1::2].count(0) == 0:
        return "utf-16-be"
    raise CredoError(f"cannot read '{path}': it is not a text file; export it as CSV in UTF-8")


def _is_cp1252(path: Path) -> bool:
    """Whether no byte is among the five that Windows' Latin-1 leaves out."""
    with _open(path) as file:
        unused = b"\x81\x8d\x8f\x90\x9d"
        return not any(
            set(unused) & set(part) for part in iter(lambda: file.read(BYTES_AT_ONCE), b"")
        )


def _open(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.name.lower().endswith(".gz") else open(path, "rb")  # type: ignore[return-value]
