"""The names of data sets, and how each is loaded."""

from collections.abc import Callable
from difflib import get_close_matches

from credo.data.dataset import Dataset
from credo.data.images import load_cifar10, load_idx, load_omniglot, load_svhn_crops
from credo.data.locate import DataDir
from credo.data.named_tables import TABLE_NAMES, load_named_table
from credo.data.table_files import is_table_file
from credo.data.tabular import adbench_names, load_adbench, load_embedded, load_uci, uci_names
from credo.data.text import TEXT_NAMES, load_text
from credo.errors import CredoError

EMBEDDED = ("digits", "breast-cancer", "wine", "iris", "diabetes")
# One published split each, or a test part only.
SINGLE_SPLIT: dict[str, Callable[..., Dataset]] = {
    "mnist": load_idx,
    "fashion-mnist": load_idx,
    "kmnist": load_idx,
    "cifar10": load_cifar10,
    "svhn-crops": load_svhn_crops,
    "omniglot": load_omniglot,
    "text/trec": load_text,
}
FAMILIES = {
    "uci": load_uci,
    "adbench": load_adbench,
    "text": load_text,
    "tables": load_named_table,
}


def load(name: str, *, split: int = 0, data_dir: DataDir = None) -> Dataset:
    """A data set by its name, see `names`.

    Files come from the data folder, else from the publisher (checked by hash, kept in the
    user's cache); the sets that come with scikit-learn need neither.

    Args:
        name: such as "digits", "uci/yacht" or "tables/abalone"; case does not matter.
        split: which split of the rows into training and test part; sets that are published
            with a single one have only split 0.
        data_dir: the data folder; where None, the environment variable CREDO_DATA names it.

    Example:
        >>> digits = load("digits")
        >>> digits.train.x.shape, digits.test.x.shape, digits.task
        ((1437, 8, 8, 1), (360, 8, 8, 1), 'classification')
    """
    name = name.lower()
    family = name.partition("/")[0]
    known = names(data_dir=data_dir) if "/" in name else (*EMBEDDED, *SINGLE_SPLIT)
    if name not in known:
        raise CredoError(_unknown(name, data_dir))
    if split < 0 or (split > 0 and name in SINGLE_SPLIT):
        available = "only split 0" if name in SINGLE_SPLIT else "splits from 0 on"
        raise CredoError(f"{name} has {available}, got split={split}")
    if name in EMBEDDED:
        return load_embedded(name, split)
    if family in FAMILIES:
        return FAMILIES[family](name, split, data_dir)
    return SINGLE_SPLIT[name](name, data_dir)


def names(*, data_dir: DataDir = None) -> tuple[str, ...]:
    """Every name that `load` knows, including what the data folder adds to the families.

    Example:
        >>> names()[:3]
        ('digits', 'breast-cancer', 'wine')
    """
    single = (name for name in SINGLE_SPLIT if "/" not in name)
    families = (uci_names(data_dir), adbench_names(data_dir), TEXT_NAMES, TABLE_NAMES)
    return (*EMBEDDED, *single, *(name for family in families for name in family))


def _unknown(name: str, data_dir: DataDir) -> str:
    if is_table_file(name):
        return f"'{name}' is a file: read it with credo.data.load_table(path, target=COLUMN)"
    everything = names(data_dir=data_dir)
    close = get_close_matches(name, everything, n=1)
    hint = f"did you mean '{close[0]}'? There" if close else "there"
    return f"there is no data set '{name}'; {hint} are: {', '.join(everything)}"
