"""Real tables of many kinds, as files of the data folder: those on which defaults are chosen."""

import warnings
from dataclasses import replace

from credo.data.dataset import Dataset
from credo.data.encoder import TableTask
from credo.data.locate import DataDir, locate
from credo.data.table import load_table
from credo.errors import CredoWarning

TARGETS: dict[str, tuple[TableTask, str]] = {
    "adult": ("classification", "income"),
    "banknote-authentication": ("classification", "class"),
    "breast-cancer": ("classification", "Class"),
    "glass": ("classification", "Type"),
    "haberman": ("classification", "survival"),
    "hypothyroid": ("classification", "Class"),
    "labor": ("classification", "class"),
    "oil-spill": ("classification", "spill"),
    "segment-challenge": ("classification", "class"),
    "sonar": ("classification", "object"),
    "soybean": ("classification", "class"),
    "vote": ("classification", "Class"),
    "wheat-seeds": ("classification", "variety"),
    "abalone": ("regression", "rings"),
    "autoMpg": ("regression", "class"),
    "autoPrice": ("regression", "class"),
    "bodyfat": ("regression", "class"),
    "cholesterol": ("regression", "chol"),
    "cpu": ("regression", "class"),
    "meta": ("regression", "class"),
    "pbc": ("regression", "class"),
    "pwLinear": ("regression", "class"),
    "quake": ("regression", "richter"),
    "sensory": ("regression", "score"),
    "servo": ("regression", "class"),
    "strike": ("regression", "volume"),
    "winequality-white": ("regression", "quality"),
}
TABLE_NAMES = {f"tables/{name.lower()}": name for name in TARGETS}


def load_named_table(name: str, split: int = 0, data_dir: DataDir = None) -> Dataset:
    """A table of the data folder; 20 % of it to test, drawn with seed `split`.

    Reference: UCI Machine Learning Repository, StatLib, and Kubat, Holte & Matwin, 1998.
    """
    file = TABLE_NAMES[name]
    task, target = TARGETS[file]
    path = locate(f"tables/{file}.csv", data_dir)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CredoWarning)  # their faults are known, and part of them
        dataset, _ = load_table(path, target, task=task, seed=split)
    return replace(dataset, name=name)
