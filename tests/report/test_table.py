"""The table is readable with and without a terminal, and its best values are the best."""

import io
import math
from dataclasses import replace

import pytest
from rich.console import Console

from credo.evaluation import Estimate
from credo.report import conclusion
from credo.report.columns import CLASSIFICATION, REGRESSION, SECONDS, _cells, shared_decimals
from credo.report.notes import changed_settings, warning_notes
from credo.report.table import print_table

from .conftest import HOSTILE


def printed(comparison, **options) -> str:
    file = io.StringIO()
    print_table(comparison, Console(file=file, **options))
    return file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 100])
def test_plain_text_never_cuts_a_column(digits, width):
    text = printed(digits, width=width)
    lines = text.splitlines()
    top = next(line for line in lines if line.startswith("method"))
    for title in ("accuracy", "NLL", "ECE", "OOD AUROC", "seconds"):
        assert title in top
    row = next(line for line in lines[lines.index(top) :] if line.startswith("map"))
    assert row.count("±") == 4 and "…" not in text
    assert "\x1b" not in text and "*" in text


def test_a_terminal_of_80_columns_is_enough(diabetes):
    text = printed(diabetes, width=80, force_terminal=True, color_system=None)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert all(title in text for title in ("RMSE", "NLL", "95 % coverage", "width", "seconds"))


def test_figures_in_the_table_are_those_of_the_comparison(diabetes):
    lines = printed(diabetes).splitlines()
    top = next(place for place, line in enumerate(lines) if line.startswith("method"))
    row = next(line for line in lines[top:] if line.startswith("map"))
    shown = [float(cell.strip("*±")) for cell in row.split()[1:]]
    rmse = diabetes.summary("map", "rmse")
    assert shown[0] == pytest.approx(rmse.value, rel=0.01)
    assert shown[1] == pytest.approx(rmse.error, rel=0.05)


def test_the_text_below_explains_the_figures(digits):
    text = printed(digits, width=1000)
    assert digits.error_meaning in text
    assert "row by row: " in text
    assert "held-out classes 4, 9" in text
    assert "num_samples=4 (default 100)" in text
    assert "warning: " in text


@pytest.mark.parametrize(
    ("column", "values", "winner"),
    [
        (CLASSIFICATION[0], (0.9, 0.8), 0),
        (CLASSIFICATION[1], (0.9, 0.8), 1),
        (REGRESSION[2], (0.80, 0.99), 1),  # nearer to 0.95
        (SECONDS, (2.0, 1.0), 1),
        (CLASSIFICATION[1], (math.inf, 3.0), 1),
        (CLASSIFICATION[1], (3.0,), None),  # nobody to compare with
        (REGRESSION[3], (1.0, 2.0), None),  # a narrow interval alone is no merit
    ],
)
def test_the_best_value_wins(column, values, winner):
    cells = _cells(column, [Estimate(value, 0.01) for value in values])
    best = [index for index, cell in enumerate(cells) if cell.best]
    assert best == ([] if winner is None else [winner])


def test_equal_as_printed_is_equally_good():
    cells = _cells(CLASSIFICATION[0], [Estimate(0.97004, 0.01), Estimate(0.97001, 0.01)])
    assert [cell.best for cell in cells] == [True, True]


@pytest.mark.parametrize(
    ("error", "decimals"), [(0.0034, 3), (0.12, 2), (5.5, 1), (123.0, 0), (1e-9, 3)]
)
def test_two_digits_of_the_error_are_shown(error, decimals):
    assert shared_decimals([Estimate(1.0, error), Estimate(2.0, error / 10)]) == decimals


def test_only_settings_that_differ_are_listed(methods):
    assert changed_settings(methods["map"]) == {"num_steps": (30, 4000)}


def test_similar_warnings_are_shown_once_for_all_methods_and_seeds(digits):
    notes = [note for note in warning_notes(digits) if "chains disagree" in note]
    assert len(notes) == 1
    assert notes[0].startswith(f"{HOSTILE}: the chains disagree")
    run = digits.runs[HOSTILE][0]
    same = tuple(text.replace("hmc: ", "map: ") for text in run.warnings)
    other = replace(digits.runs["map"][0], warnings=same)
    both = replace(digits, runs=digits.runs | {"map": (other, other)})
    notes = [note for note in warning_notes(both) if "chains disagree" in note]
    assert len(notes) == 1 and notes[0].startswith(f"map, {HOSTILE}: ")


def test_what_an_ensemble_repeats_is_not_shown_again(digits):
    own = "map: not there yet by 0.3 nats"
    repeated = f"ensemble: {own.replace('0.3', '0.7')} (one of 3 members with warnings)"
    runs = {
        name: (replace(digits.runs["map"][0], warnings=(text,)),)
        for name, text in {"map": own, "ensemble": repeated}.items()
    }
    (note,) = warning_notes(replace(digits, runs=runs))
    assert note == "map, ensemble: not there yet by 0.7 nats (one of 3 members with warnings)"


def test_the_conclusion_stands_on_top(digits):
    text = printed(digits, width=1000)
    assert text.splitlines()[0] == conclusion(digits)
