"""Named data sets, a user's own tables, and minibatches that stay on the device."""

from credo.data.batches import batch_indices
from credo.data.catalog import load, names
from credo.data.dataset import Dataset, Split, Texts, hold_out_classes
from credo.data.table import (
    TableEncoder,
    encode,
    encode_target,
    fit_encoder,
    load_table,
    read_table,
    split_table,
)

__all__ = [
    "Dataset",
    "Split",
    "TableEncoder",
    "Texts",
    "batch_indices",
    "encode",
    "encode_target",
    "fit_encoder",
    "hold_out_classes",
    "load",
    "load_table",
    "names",
    "read_table",
    "split_table",
]
