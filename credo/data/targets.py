"""The column of a user's table to predict: a class or a quantity."""

from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np

from credo.data.cells import one_spelling
from credo.data.columns import (
    MAX_CATEGORIES,
    ColumnType,
    category_codes,
    column_type,
    fit_numeric,
    numbers,
    row_name,
    sort_labels,
)
from credo.data.encoder import TableTask, TargetColumn
from credo.errors import CredoError

if TYPE_CHECKING:
    import pandas as pd

# Whole numbers with more different values than this are taken for quantities, not classes.
MAX_INFERRED_CLASSES = 20


def infer_task(frame: "pd.DataFrame", target: str) -> TableTask:
    """What the values of a target suggest.

    Text and true/false mean classes; so do whole numbers with at most 20 different values that
    occur twice each on average. Other numbers are quantities.

    Example:
        >>> import pandas as pd
        >>> infer_task(pd.DataFrame({"y": [0, 1, 1, 0]}), "y")
        'classification'
        >>> infer_task(pd.DataFrame({"y": [0.5, 1.0, 1.0, 0.5]}), "y")
        'regression'
    """
    check_target(frame, target)
    kind, format = _target_type(frame, target)
    if kind != "numeric":
        return "classification"
    values = numbers(frame, target, format)
    few = len(np.unique(values)) <= min(MAX_INFERRED_CLASSES, len(values) // 2)
    return "classification" if few and np.all(values == np.round(values)) else "regression"


def fit_target(frame: "pd.DataFrame", name: str, task: TableTask) -> TargetColumn:
    """The classes that occur, or the mean and standard deviation."""
    if task == "regression":
        column = fit_numeric(frame, name, _target_type(frame, name).format)
        return TargetColumn(name, task, None, column.mean, column.std, column.format)
    if task != "classification":
        raise CredoError(f"task must be 'classification' or 'regression', got {task!r}")
    classes = sort_labels(category_codes(frame, name)[1])
    if not 2 <= len(classes) <= MAX_CATEGORIES:
        found = f"only the class '{classes[0]}'" if len(classes) == 1 else f"{len(classes)} classes"
        raise CredoError(
            f"the target '{name}' has {found}; classification needs from 2 to {MAX_CATEGORIES}"
        )
    _refuse_two_spellings(name, classes)
    return TargetColumn(name, task, classes)


def _target_type(frame: "pd.DataFrame", name: str) -> ColumnType:
    found = column_type(frame, name)
    if found.format.first_day is not None:
        raise CredoError(f"the target '{name}' holds dates; convert it to numbers, such as days")
    return found


def _refuse_two_spellings(name: str, classes: tuple[str, ...]) -> None:
    spelled: dict[str, str] = {}
    for each in classes:
        other = spelled.setdefault(one_spelling(each), each)
        if other != each:
            raise CredoError(
                f"the target '{name}' has the classes {other!r} and {each!r}; write them alike"
            )


def target_values(target: TargetColumn, frame: "pd.DataFrame") -> np.ndarray:
    """Class numbers (int32), or standardized values (float32)."""
    if target.classes is None:
        return ((own_values(target, frame) - target.mean) / target.std).astype(np.float32)
    check_target(frame, target.name)
    codes, labels = category_codes(frame, target.name)
    unseen = [label for label in labels if label not in target.classes]
    if unseen:
        raise CredoError(
            f"the target '{target.name}' has the class '{unseen[0]}', which the training data did "
            f"not have; the model knows {', '.join(target.classes)}"
        )
    return np.array([target.classes.index(label) for label in labels], np.int32)[codes]


def own_values(target: TargetColumn, frame: "pd.DataFrame") -> np.ndarray:
    """Class numbers, or quantities in their own units."""
    if target.classes is not None:
        return target_values(target, frame)
    check_target(frame, target.name)
    return numbers(frame, target.name, target.format)


def check_target(frame: "pd.DataFrame", target: str) -> None:
    """Refuses a table without the target, or with rows where it is missing."""
    if target not in frame.columns:
        names = list(map(str, frame.columns))
        close = get_close_matches(target, names, n=1)
        hint = f"did you mean '{close[0]}'? The" if close else "the"
        raise CredoError(
            f"there is no target column '{target}'; {hint} columns are: {', '.join(names)}"
        )
    missing = frame[target].isna().to_numpy()
    if missing.any():
        first = row_name(frame, int(np.argmax(missing)))
        raise CredoError(
            f"the target '{target}' is missing in {missing.sum()} of {len(frame)} rows, first in "
            f"{first}; remove these rows or fill them"
        )
