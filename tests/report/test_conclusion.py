"""Differences are those of the rows, and the conclusion says what they allow."""

from dataclasses import replace

import numpy as np
import pytest

import credo
from credo.data import Dataset, Split
from credo.evaluation import Estimate, ood
from credo.model.summaries import entropy_of
from credo.networks import MLP
from credo.predictive import CategoricalPredictive
from credo.report import Comparison, Run, conclusion, verdict
from credo.report.compare import reliability
from credo.report.differences import auroc_differences, best_in, nll_differences, tied_with
from credo.report.results import OutOfDistribution


def classes(probs: np.ndarray) -> CategoricalPredictive:
    both = np.stack([probs, 1 - probs], axis=1)
    return CategoricalPredictive(both, entropy_of(both), np.zeros(len(both)))


def compared(seconds: dict[str, float], ood_known: bool = True, **probs: np.ndarray) -> Comparison:
    """Methods that give these probabilities to the right class; the first half is the test part."""
    x = np.zeros((len(next(iter(probs.values()))) // 2, 1))
    part = Split(x, np.zeros(len(x), int))
    data = Dataset("made up", "classification", part, part, ("a", "b"))
    runs = {}
    for name, values in probs.items():
        test, elsewhere = classes(values[: len(x)]), classes(values[len(x) :])
        metrics = credo.evaluate(test, part.y, elsewhere if ood_known else None)
        runs[name] = (
            Run(
                0, metrics, reliability(test, part.y), test, elsewhere if ood_known else None,
                None, seconds[name], 0.0, 1, 1, 1, (),
            ),
        )  # fmt: skip
    unfamiliar = OutOfDistribution(x, ("c",) * len(x), "elsewhere") if ood_known else None
    methods = dict.fromkeys(probs, credo.MAP())
    return Comparison(data, unfamiliar, MLP(), 1, methods, runs)


@pytest.fixture(scope="module")
def found():
    random = np.random.default_rng(0)
    sure = random.uniform(0.6, 0.95, 400)
    sure[200:] = random.uniform(0.4, 0.9, 200)
    knows = np.concatenate([sure[:200] - 0.05, random.uniform(0.45, 0.55, 200)])
    noisy = sure * np.exp(random.normal(0.001, 0.03, 400))
    seconds = {"sure": 3.21, "knows": 40.4, "noisy": 1.0}
    return compared(seconds, sure=sure, knows=knows, noisy=np.clip(noisy, 0.01, 0.99))


def test_differences_are_paired(found):
    best = best_in(found, "nll")
    assert best == "sure"
    differences = nll_differences(found, best)
    rows = {
        name: -runs[0].predicted.log_prob(found.data.test.y) for name, runs in found.runs.items()
    }
    paired = rows["knows"] - rows["sure"]
    expected = Estimate(paired.mean(), paired.std(ddof=1) / np.sqrt(200))
    assert differences["knows"] == pytest.approx(expected)
    # Hard rows are hard for both: as two separate scores, the difference would drown.
    apart = np.hypot(*(found.summary(name, "nll").error for name in ("knows", "sure")))
    assert differences["knows"].error < 0.5 * apart


def test_seeds_add_to_the_error_of_a_difference(found):
    (run,) = found.runs["sure"]
    moved = replace(run, metrics=run.metrics | {"nll": Estimate(run.metrics["nll"].value + 0.2, 0)})
    several = replace(found, runs=found.runs | {"sure": (run, moved)})
    rows = nll_differences(found, "sure")["knows"].error
    seeds = nll_differences(several, "sure")["knows"].error
    assert seeds == pytest.approx(np.hypot(rows, 0.1))


def test_auroc_differences_are_paired(found):
    scores = {
        name: (runs[0].predicted.entropy, runs[0].ood_predicted.entropy)
        for name, runs in found.runs.items()
    }
    difference = auroc_differences(found, "knows")["sure"]
    values = {name: ood.auroc(*both) for name, both in scores.items()}
    assert difference.value == pytest.approx(values["knows"].value - values["sure"].value)
    # The law of the difference, by drawing rows again.
    random, draws = np.random.default_rng(1), []
    for _ in range(300):
        inside, outside = random.integers(200, size=(2, 200))
        one, other = (
            ood.auroc(scores[n][0][inside], scores[n][1][outside]).value for n in ("knows", "sure")
        )
        draws.append(one - other)
    assert difference.error == pytest.approx(np.std(draws), rel=4 / np.sqrt(2 * 300))


def test_the_conclusion_names_the_best_the_price_and_ties(found):
    text = verdict(found)
    assert text.startswith("sure is best in NLL (0.2") and "knows at unfamiliar inputs" in text
    assert text.endswith("Price of one run: sure 3.2 s, knows 40 s; of noisy, the cheapest, 1.0 s.")
    whole = conclusion(found)
    assert whole.startswith(text)
    assert "In NLL, sure and noisy do not differ by more than their error." in whole
    assert "At unfamiliar inputs" not in whole  # nobody comes near


def test_a_tie_is_within_two_errors():
    differences = {
        "far": Estimate(0.3, 0.1),
        "near": Estimate(0.19, 0.1),
        "odd": Estimate(1, np.nan),
    }
    assert tied_with(differences) == ["near"]


def test_the_conclusion_of_other_comparisons(found):
    one = replace(found, runs={"sure": found.runs["sure"]})
    assert verdict(one) == conclusion(one)
    assert verdict(one).startswith("sure: NLL 0.2") and "OOD AUROC" in verdict(one)
    same = replace(found, runs={name: found.runs["knows"] for name in ("a", "b")})
    assert verdict(same).startswith("a is best in NLL (0.3") and " and at unfamiliar" in verdict(
        same
    )
    assert "In NLL, a and b do not differ" in conclusion(same)
    plain = compared({"a": 1.0, "b": 2.0}, False, a=np.full(20, 0.8), b=np.full(20, 0.6))
    assert "unfamiliar" not in conclusion(plain) and "do not differ" not in conclusion(plain)
