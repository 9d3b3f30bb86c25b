"""Parquet files as streams of numbers."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from credo.data.readers import Block, Passes
from credo.errors import CredoError

BATCH_ROWS = 1 << 16  # that are decoded at a time


def parquet_reader(
    path: Path, target: str, columns: Sequence[str] | None, weights: str | None, block_rows: int
) -> Passes:
    """The reader of a file's blocks; seekable where its row groups are no longer than they."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise CredoError(f"there is no file '{path}'")
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise CredoError(f"cannot read '{path}': {' '.join(str(error).split())}") from error
    others = [name for name in file.schema_arrow.names if name not in (target, weights)]
    names = others if columns is None else list(columns)
    for name in (target, *names, *([weights] if weights is not None else [])):
        _check_column(file.schema_arrow, name, path)
    if not names:
        raise CredoError(f"'{path}' has no columns beside '{target}' to predict it from")
    groups = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
    starts = np.cumsum([0, *groups])

    def restart(row: int) -> tuple[int, Iterator[Block]]:
        group = int(np.searchsorted(starts, row, side="right")) - 1
        wanted = list(dict.fromkeys([*names, target, *([weights] if weights else [])]))
        batches = file.iter_batches(
            min(block_rows, BATCH_ROWS), range(group, len(groups)), columns=wanted
        )
        return int(starts[group]), (_numbers(batch, names, target, weights) for batch in batches)

    return Passes(restart, int(starts[-1]), max(groups, default=0) <= block_rows, _footer(path))


def _check_column(schema: Any, name: str, path: Path) -> None:
    """Raise where a column is missing or holds no numbers."""
    import pyarrow.types as kinds

    if schema.names.count(name) != 1:
        close = get_close_matches(name, schema.names, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"it has {', '.join(schema.names)}"
        raise CredoError(f"'{path}' has no single column '{name}'; {hint}")
    kind = schema.field(name).type
    if not any(check(kind) for check in (kinds.is_integer, kinds.is_floating, kinds.is_boolean)):
        raise CredoError(
            f"column '{name}' of '{path}' holds {kind} values, and a stream takes numbers only; "
            "leave it out of columns, or encode it beforehand"
        )


def _numbers(batch: Any, names: Sequence[str], target: str, weights: str | None) -> Block:
    """Columns of a record batch as arrays."""

    def column(name: str) -> np.ndarray:
        values = batch.column(name)
        if values.null_count:
            raise CredoError(f"column '{name}' has missing values; fill them or remove their rows")
        values = values.to_numpy(zero_copy_only=False)
        return values.astype(np.int32) if values.dtype.kind == "b" else values

    y = column(target)
    y = y.astype(np.float32) if y.dtype.kind == "f" else y
    x = np.stack([column(name).astype(np.float32) for name in names], axis=1)
    return Block(x, y, None if weights is None else column(weights))


def _footer(path: Path) -> str:
    """Recognises a Parquet file by its footer, which says where and how large all its parts are."""
    with path.open("rb") as file:
        size = file.seek(-8, os.SEEK_END) + 8
        length = int.from_bytes(file.read(4), "little")
        file.seek(-8 - length, os.SEEK_END)
        return f"{size} {hashlib.sha256(file.read(length)).hexdigest()}"
