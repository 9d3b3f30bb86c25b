"""The user's units: how rows become inputs of a network, and outputs become targets again.

One value, kept with a posterior and applied by everything that takes or gives the user's data: no
number that a user sees is in units that only a network knows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from credo.data.encoder import TableEncoder, is_number
from credo.data.features import TableFeatures
from credo.errors import CredoError
from credo.saving import Saveable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class InputScale(Saveable):
    """Numbers as they come become (x − mean) / scale, column by column."""

    mean: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]

    def __post_init__(self) -> None:
        if np.shape(self.mean) != np.shape(self.scale) or not (np.asarray(self.scale) > 0).all():
            raise CredoError("InputScale needs a mean and a positive scale for every column")

    def __call__(self, x: Any) -> np.ndarray:
        x = np.asarray(x)
        if x.shape[1:] != self.mean.shape:
            raise CredoError(
                f"the model was fitted on rows of shape {self.mean.shape}, got {x.shape[1:]}; give "
                "the same features in the same order"
            )
        return ((x - self.mean) / self.scale).astype(_precision(x))


@dataclass(frozen=True)
class Units(Saveable):
    """How a user's rows become inputs, and outputs become the user's targets.

    Example:
        >>> import numpy as np
        >>> units = Units.standardizing(np.array([[1.0], [3.0]]), np.array([10.0, 30.0]))
        >>> units.inputs_of(np.array([[3.0]])).tolist(), units.targets_of(np.array([20.0])).tolist()
        ([[1.0]], [0.0])
    """

    inputs: TableEncoder | InputScale | None = None
    """Columns of a table, or of an array; None: rows are inputs as they are."""
    classes: tuple[str, ...] | None = None
    """Names of the classes, in order; None: a quantity, or classes that are numbers."""
    shift: float | tuple[float, ...] = 0.0
    """Of a quantity: the target is shift + factor · output."""
    factor: float | tuple[float, ...] = 1.0
    features: TableFeatures | None = None
    """What a network gets in place of the columns; None: the columns as they are."""

    def __post_init__(self) -> None:
        factors = np.atleast_1d(self.factor)
        if not (np.isfinite(factors).all() and (factors > 0).all()):
            raise CredoError(f"the factor of a target's units must be positive, got {self.factor}")
        if not np.isfinite(np.atleast_1d(self.shift)).all():
            raise CredoError(f"the shift of a target's units must be finite, got {self.shift}")
        if self.classes is not None and len(set(self.classes)) < max(2, len(self.classes)):
            raise CredoError(f"classes must be at least two different names, got {self.classes}")

    @staticmethod
    def of_table(encoder: TableEncoder, standardize_target: bool = True) -> "Units":
        """Those of a table whose columns `encoder` knows.

        Counts and other targets that must stay as they are want `standardize_target=False`.
        """
        target = encoder.target
        if not standardize_target:
            return Units(encoder, target.classes)
        return Units(encoder, target.classes, target.mean, target.std)

    @property
    def keeps_targets(self) -> bool:
        """Whether quantities are taken and given as they are."""
        return not (np.any(np.asarray(self.shift)) or np.any(np.asarray(self.factor) != 1.0))

    @staticmethod
    def standardizing(
        x: Any = None,
        y: Any = None,
        classes: tuple[str, ...] | None = None,
        row_weights: Any = None,
    ) -> "Units":
        """Those in which columns of x, and targets y that are quantities, have mean 0 and sd 1.

        The entries of an array of targets, such as an image, share one mean and one sd. A row of
        weight 2 counts as two rows.
        """
        inputs = None
        if x is not None:
            inputs = InputScale(*_mean_and_scale(np.asarray(x, np.float64), row_weights))
        if y is None:
            return Units(inputs, classes)
        targets = np.asarray(y, np.float64)
        if targets.ndim > 2:
            entries = targets[0].size
            targets = targets.reshape(-1, 1)
            row_weights = None if row_weights is None else np.repeat(row_weights, entries)
        targets = targets.reshape(len(targets), -1)
        shift, factor = (tuple(part.tolist()) for part in _mean_and_scale(targets, row_weights))
        if len(shift) == 1:
            return Units(inputs, None, shift[0], factor[0])
        return Units(inputs, None, shift, factor)

    def inputs_of(self, x: Any) -> Any:
        """Rows as a network takes them, from an array or a data frame."""
        columns = self._columns_of(x)
        return columns if self.features is None else self.features(columns)

    def _columns_of(self, x: Any) -> Any:
        if isinstance(self.inputs, TableEncoder):
            return self.inputs.encode(self._frame(x))
        if self.inputs is None:
            return np.asarray(x) if _is_frame(x) else x
        return self.inputs(x)

    def targets_of(self, y: Any) -> np.ndarray:
        """Targets as a likelihood takes them: class numbers, or standardized quantities."""
        if self.classes is None:
            y = self._as_written(np.asarray(y))
            if self.keeps_targets:
                return y
            if y.dtype.kind not in "biuf":
                raise CredoError(f"targets must be numbers, got {y.dtype} such as {y.flat[0]!r}")
            columns = y.astype(np.float64)
            if np.size(self.shift) > 1:
                columns = columns.reshape(len(y), -1)
                if columns.shape[1] != np.size(self.shift):
                    raise CredoError(
                        f"the units are those of {np.size(self.shift)} targets a row, got "
                        f"{columns.shape[1]}"
                    )
            return ((columns - np.asarray(self.shift)) / np.asarray(self.factor)).reshape(y.shape)
        return class_codes(self.classes, y)

    def _as_written(self, y: np.ndarray) -> np.ndarray:
        """Numbers from texts, as the target of a table has them."""
        if y.dtype.kind not in "OU" or y.ndim != 1 or not isinstance(self.inputs, TableEncoder):
            return y
        import pandas as pd

        from credo.data.targets import own_values

        target = self.inputs.target
        return own_values(target, pd.DataFrame({target.name: y}))

    def class_weights_of(self, weights: Any) -> Any:
        """Weights by class number, from those by name where the classes have names."""
        if self.classes is None or not isinstance(weights, Mapping):
            return weights
        if not weights:
            return {}
        codes = class_codes(self.classes, np.array(list(weights), object))
        return dict(zip(map(int, codes), weights.values(), strict=True))

    def _frame(self, x: Any) -> "pd.DataFrame":
        """A data frame with the columns of the table, also from numbers in the same order."""
        import pandas as pd

        if _is_frame(x):
            return x
        encoder = self.inputs
        assert isinstance(encoder, TableEncoder)
        x = np.asarray(x)
        names = [column.name for column in encoder.numeric]
        if encoder.categorical or x.ndim != 2 or x.shape[1] != len(names):
            raise CredoError(
                "the model was fitted on a table; give a pandas data frame with its columns "
                f"{', '.join(encoder.columns)}, got an array of shape {x.shape}"
            )
        return pd.DataFrame(x, columns=names)


def class_codes(classes: tuple[str, ...], y: Any) -> np.ndarray:
    """Numbers of the classes in y, given by their names.

    Numbers are taken too, as long as no name is a number: with classes called 1, 2, 3 nobody could
    say whether a 1 is the first class or the second.
    """
    from credo.data.columns import label

    y = np.asarray(y)
    known = {name: code for code, name in enumerate(classes)}
    codes = [known.get(label(value)) for value in y.ravel().tolist()]
    if None not in codes:
        return np.asarray(codes, np.int32).reshape(y.shape)
    is_whole = y.dtype.kind in "iu" or (y.dtype.kind == "f" and not (y % 1).any())
    if is_whole and not any(map(is_number, classes)) and y.min() >= 0 and y.max() < len(classes):
        return y.astype(np.int32)
    wrong = y.ravel().tolist()[codes.index(None)]
    shown = ", ".join(classes[:10]) + (", …" if len(classes) > 10 else "")
    raise CredoError(f"y has the class {wrong!r}, which the model does not know; it knows {shown}")


def _mean_and_scale(values: np.ndarray, weights: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column; 1 for one that is constant."""
    flat = values.reshape(len(values), -1)
    if weights is not None:
        weights = np.asarray(weights, np.float64)
        flat, weights = flat[weights > 0], weights[weights > 0]
    mean = np.average(flat, axis=0, weights=weights)
    std = np.sqrt(np.average((flat - mean) ** 2, axis=0, weights=weights))
    scale = np.where((np.ptp(flat, axis=0) > 0) & (std > 0), std, 1.0)
    shape = values.shape[1:]
    return mean.reshape(shape), scale.reshape(shape)


def _is_frame(x: Any) -> bool:
    return hasattr(x, "columns") and hasattr(x, "iloc")


def _precision(x: np.ndarray) -> Any:
    return x.dtype if x.dtype.kind == "f" else np.float64
