"""What a comparison is made on: the data, unfamiliar inputs, and methods by name."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from credo.data import Dataset, Units, hold_out_classes
from credo.errors import CredoError
from credo.inference import Method, method_named, name_of
from credo.posterior import Record
from credo.predictive import check_rows
from credo.report.results import OutOfDistribution

SEEDS = 3
# Methods that take long; their seeds differ little, as each run averages over chains or members.
ONE_SEED = ("auto", "hmc", "nuts", "mala", "metropolis")

HELD_OUT_REASON = (
    "No method saw an example of them. They were recorded and prepared like all others, so only "
    "what they show gives them away; inputs from another source differ in brightness, size and "
    "noise too, and are found out more easily. Other classes could be easier or harder to tell "
    "apart: compare the methods with each other rather than with other pages."
)


def choose_methods(methods: Mapping[str, Method] | Sequence[str]) -> dict[str, Method]:
    """Methods by their label; a bare name has the method's own defaults."""
    if isinstance(methods, Mapping):
        chosen = dict(methods)
    else:
        names = [methods] if isinstance(methods, str) else list(methods)
        chosen = {name: method_named(name)() for name in names}
    if not chosen:
        raise CredoError("there are no methods to compare; name at least one, such as 'map'")
    return chosen


def seeds_of(method: Method, first: int, count: int | None) -> range:
    """The seeds of a method; None: three, or one for a method that takes long."""
    if count is None:
        count = 1 if name_of(method) in ONE_SEED else SEEDS
    if count < 1:
        raise CredoError(f"a comparison needs at least 1 seed, got {count}")
    if not 0 <= first <= 2**32 - count:
        raise CredoError(f"seeds lie between 0 and {2**32 - 1}, got {first}")
    return range(first, first + count)


def prepare(
    data: Dataset, ood: Any = None, held_out: Sequence[int] | None = None
) -> tuple[Dataset, OutOfDistribution | None]:
    """The data set as compared, and the unfamiliar inputs (None for regression).

    They come from `ood`, else from the data set's own part, else from classes held out of training.
    """
    check_parts(data)
    data = named_classes(data)
    if data.task == "regression":
        return data, None
    if ood is not None or (data.ood is not None and held_out is None):
        return data, given_inputs(data, data.ood if ood is None else ood)
    held_out = every_fifth_class(data) if held_out is None else tuple(held_out)
    if not held_out:
        return data, None
    return hold_out(data, held_out)


def named_classes(data: Dataset) -> Dataset:
    """Classes called by their numbers where nobody named them."""
    if data.task == "regression" or data.classes is not None:
        return data
    return replace(data, classes=tuple(map(str, range(int(data.train.y.max()) + 1))))


def every_fifth_class(data: Dataset) -> tuple[int, ...]:
    """The classes 4, 9, 14, …: a rule that does not look at the data.

    Which classes are held out matters. Of ten pairs of digits, the last two are the easiest to
    tell from the others (AUROC 0.96 for a point estimate), while 4 and 9 (0.90) lie near the
    average (0.92). Of fewer than five classes none is held out: without one of three, another
    problem would be left.
    """
    return tuple(range(4, len(data.classes or ()), 5))


def hold_out(data: Dataset, held_out: Sequence[int]) -> tuple[Dataset, OutOfDistribution]:
    """Leave classes out of training; their test rows are the unfamiliar inputs."""
    kept = hold_out_classes(data, held_out)
    assert kept.ood is not None and data.classes is not None
    names = tuple(data.classes[label] for label in kept.ood.y)
    if not names:
        raise CredoError(f"the test part of {data.name} has no rows of classes {list(held_out)}")
    listed = ", ".join(data.classes[label] for label in sorted(set(held_out)))
    source = f"{len(names):,} test inputs of the held-out classes {listed}"
    return kept, OutOfDistribution(kept.ood.x, names, source, HELD_OUT_REASON)


def given_inputs(data: Dataset, ood: Any) -> OutOfDistribution:
    """Inputs that the caller brought: a data set (its test part), a split, or an array."""
    part = ood.test if isinstance(ood, Dataset) else ood
    given = part[0] if isinstance(part, tuple) else part
    x = np.asarray(check_rows(Record(data.train.x.shape[1:]), given))
    name = ood.name if isinstance(ood, Dataset) else "other inputs"
    return OutOfDistribution(x, (name,) * len(x), f"{len(x):,} inputs of another source: {name}")


def check_parts(data: Dataset) -> None:
    """Refuse data that cannot be fitted and judged."""
    if len(data.train.x) == 0:
        raise CredoError(
            f"{data.name} has no training part: it serves as out-of-distribution inputs only"
        )
    if len(data.test.x) < 2:
        raise CredoError(f"{data.name} has {len(data.test.x)} test rows; a comparison needs two")
    if data.task != "regression":
        unseen = np.setdiff1d(data.test.y, data.train.y)
        if len(unseen):
            raise CredoError(
                f"{data.name}: the test part has class {unseen[0]}, the training part has not; "
                "no classifier could be right about it"
            )
    elif data.train.y.ndim != 1 or np.ptp(data.train.y) == 0:
        raise CredoError(
            f"{data.name}: training targets of shape {data.train.y.shape} with a range of "
            f"{np.ptp(data.train.y):g}; a comparison needs one target that varies"
        )


def target_units(data: Dataset) -> Units:
    """Quantities are standardized for the fit by their training part; classes stay as they are."""
    return Units.standardizing(y=data.train.y) if data.task == "regression" else Units()
