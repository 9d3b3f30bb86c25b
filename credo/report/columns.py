"""The headline figures, one row per method: shared by the terminal's table and the page's."""

import math
from typing import Literal, NamedTuple

import numpy as np

from credo.evaluation import Estimate
from credo.report.results import Comparison


class Column(NamedTuple):
    """One headline figure. `best` says which value wins, a number: the one nearest to it."""

    metric: str
    title: str
    best: Literal["highest", "lowest"] | float | None
    meaning: str


CLASSIFICATION = (
    Column("accuracy", "accuracy", "highest", "share of right answers"),
    Column("nll", "NLL", "lowest", "mean of −log of the probability given to the right class"),
    Column("ece", "ECE", "lowest", "gap between confidence and accuracy"),
    Column(
        "ood_auroc", "OOD AUROC", "highest",
        "chance that an unfamiliar input gets a higher entropy than one of the test set",
    ),
)  # fmt: skip
REGRESSION = (
    Column("rmse", "RMSE", "lowest", "typical error, in the units of the target"),
    Column("nll", "NLL", "lowest", "mean of −log of the density given to the true value"),
    Column("coverage_95", "95 % coverage", 0.95, "share of true values inside the 95 % interval"),
    Column("width_95", "width", None, "mean width of that interval: narrow is good if it covers"),
)
SECONDS = Column(
    "seconds",
    "seconds",
    "lowest",
    "to fit and predict, mean over seeds; the first seed also compiles",
)


class Cell(NamedTuple):
    """A figure as text, and whether it is the best of its column."""

    text: str
    best: bool
    estimate: Estimate


def headline_columns(comparison: Comparison) -> tuple[Column, ...]:
    """The columns that apply to this comparison."""
    columns = REGRESSION if comparison.regression else CLASSIFICATION
    known = next(iter(comparison.runs.values()))[0].metrics
    return (*(column for column in columns if column.metric in known), SECONDS)


def headline_rows(comparison: Comparison) -> dict[str, list[Cell]]:
    """The cells of each method, in the order of `headline_columns`."""
    by_column = []
    for column in headline_columns(comparison):
        estimates = [comparison.summary(name, column.metric) for name in comparison.runs]
        by_column.append(_cells(column, estimates))
    return {name: [cells[row] for cells in by_column] for row, name in enumerate(comparison.runs)}


def _cells(column: Column, estimates: list[Estimate]) -> list[Cell]:
    decimals = shared_decimals(estimates) if column is not SECONDS else 1
    texts = [figure(estimate, decimals, column is not SECONDS) for estimate in estimates]
    scores = [distance(column, estimate.value) for estimate in estimates]
    finite = [score for score in scores if math.isfinite(score)]
    # Nobody is the best of one, or where no value wins.
    contest = len(estimates) > 1 and finite and column.best is not None
    lowest = min(finite) if contest else math.nan
    winners = {text for text, score in zip(texts, scores) if score == lowest}
    # Equal as printed is equal: a difference that cannot be seen should not look like one.
    return [
        Cell(text, text in winners, estimate)
        for text, estimate in zip(texts, estimates, strict=True)
    ]


def distance(column: Column, value: float) -> float:
    """How far from the best conceivable value: lower is better."""
    if column.best == "highest":
        return -value
    return abs(value - column.best) if isinstance(column.best, float) else value


def shared_decimals(estimates: list[Estimate]) -> int:
    """Decimals that show two digits of the largest error (three of the value without one)."""
    errors = [e.error for e in estimates if math.isfinite(e.error) and e.error > 0]
    values = [abs(e.value) for e in estimates if math.isfinite(e.value) and e.value != 0]
    if errors:
        exponent = math.floor(math.log10(max(errors))) - 1
    else:
        exponent = math.floor(math.log10(max(values))) - 2 if values else 0
    return int(np.clip(-exponent, 0, 3))


def figure(estimate: Estimate, decimals: int, with_error: bool = True) -> str:
    """`0.981 ±0.004`, with a fixed number of decimals so that columns line up."""
    text = f"{estimate.value:.{decimals}f}"
    if with_error and math.isfinite(estimate.error):
        text += f" ±{estimate.error:.{decimals}f}"
    return text
