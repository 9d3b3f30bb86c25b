"""Named data sets, a user's own tables, and where batches come from: memory or a stream."""

from credo.data.batches import batch_indices
from credo.data.catalog import load, names
from credo.data.dataset import Dataset, Split, Texts, hold_out_classes
from credo.data.origin import Origin
from credo.data.source import Batch, Resident, Rows, Segment, Source, resident
from credo.data.stream import Stream, stream_arrays, stream_blocks, stream_parquet
from credo.data.table import (
    TableEncoder,
    encode,
    encode_target,
    fit_encoder,
    load_table,
    read_table,
    split_table,
)
from credo.data.units import InputScale, Units

__all__ = [
    "Batch",
    "Dataset",
    "InputScale",
    "Origin",
    "Resident",
    "Rows",
    "Segment",
    "Source",
    "Split",
    "Stream",
    "TableEncoder",
    "Texts",
    "Units",
    "batch_indices",
    "encode",
    "encode_target",
    "fit_encoder",
    "hold_out_classes",
    "load",
    "load_table",
    "names",
    "read_table",
    "resident",
    "split_table",
    "stream_arrays",
    "stream_blocks",
    "stream_parquet",
]
