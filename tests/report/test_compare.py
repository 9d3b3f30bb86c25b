"""A comparison judges what the methods predicted, on data prepared as it says."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import credo
from credo.data import Split
from credo.evaluation import Estimate
from credo.posterior import Record
from credo.predictive import NormalPredictive
from credo.report import compare
from credo.report.compare import fit_noting_warnings, num_bins, reliability, trace
from credo.report.prepare import choose_methods, every_fifth_class, prepare, seeds_of
from credo.report.results import over_seeds

from .conftest import HOSTILE, shortened


def test_one_run_for_each_method_and_seed(digits):
    assert [run.seed for runs in digits.runs.values() for run in runs] == [0, 1, 0, 1]
    first, second = digits.runs["map"]
    assert not np.array_equal(first.predicted.probs, second.predicted.probs)


def test_metrics_are_those_of_the_predictions(digits, diabetes):
    run = digits.runs["map"][1]
    again = credo.evaluate(run.predicted, digits.data.test.y, run.ood_predicted)
    assert run.metrics == again
    run = diabetes.runs["map"][0]
    truth = diabetes.data.test.y
    assert run.metrics["rmse"].value == pytest.approx(
        np.sqrt(np.mean((run.predicted.mean - truth) ** 2)), rel=1e-5
    )


def test_regression_predicts_in_the_units_of_the_target(diabetes):
    train = diabetes.data.train.y
    predicted = diabetes.runs["dropout"][0].predicted
    assert abs(predicted.mean.mean() - train.mean()) < train.std()
    # Standardized predictions would miss by the mean of the targets, about 150.
    assert diabetes.summary("dropout", "rmse").value < 1.5 * train.std() < train.mean()


def test_mean_and_standard_error_over_seeds(digits):
    runs = digits.runs["map"]
    values = [run.metrics["nll"].value for run in runs]
    found = digits.summary("map", "nll")
    assert found.value == pytest.approx(np.mean(values), rel=1e-12)
    of_seeds = abs(values[0] - values[1]) / 2  # s/√2, n = 2
    of_rows = np.mean([run.metrics["nll"].error for run in runs])
    assert found.error == pytest.approx(np.hypot(of_rows, of_seeds), rel=1e-9)
    rows = len(digits.data.test.y)
    assert digits.error_meaning == f"standard error over {rows} test rows and 2 seeds"


def test_standard_error_of_three_seeds():
    found = over_seeds([Estimate(value, 2.0) for value in (1.0, 2.0, 6.0)])
    assert found == (3.0, pytest.approx(np.sqrt(7.0 / 3.0 + 4.0)))  # more seeds are no more rows


def test_one_seed_has_the_error_of_its_test_set(diabetes):
    assert diabetes.summary("map", "rmse") == diabetes.runs["map"][0].metrics["rmse"]
    assert diabetes.summary("map", "rmse").error > 0
    assert "test rows" in diabetes.error_meaning


def test_unknown_metric_is_refused(digits):
    with pytest.raises(credo.CredoError, match="there are: accuracy"):
        digits.summary("map", "f1")


def test_every_fifth_class_is_held_out(digits):
    assert digits.data.classes == (HOSTILE, *"1235678")
    assert set(digits.ood.names) == {"4", "9"}
    assert digits.data.train.y.max() == 7
    assert digits.runs["map"][0].ood_predicted.probs.shape == (len(digits.ood.x), 8)


def test_few_classes_are_all_kept(iris):
    assert every_fifth_class(iris.data) == ()
    assert iris.ood is None
    assert "ood_auroc" not in iris.runs["map"][0].metrics


def test_classes_to_hold_out_can_be_chosen():
    data, unfamiliar = prepare(credo.data.load("iris"), held_out=[1])
    assert data.classes == ("setosa", "virginica")
    assert set(unfamiliar.names) == {"versicolor"}


@pytest.mark.parametrize("form", ["dataset", "split", "pair", "array"])
def test_unfamiliar_inputs_in_any_form(form):
    data = credo.data.load("iris")
    x = data.test.x[:5] + 10
    part = Split(x, data.test.y[:5])
    forms = {"dataset": replace(data, name="shifted", test=part), "split": part, "array": x}
    found, unfamiliar = prepare(data, forms.get(form, tuple(part)))
    np.testing.assert_array_equal(unfamiliar.x, x)
    assert len(unfamiliar.names) == 5 and len(found.classes) == 3


def test_unfamiliar_inputs_of_another_shape_are_refused():
    with pytest.raises(credo.CredoError, match=r"shape \(4,\)"):
        compare(credo.data.load("iris"), ["map"], ood=np.zeros((3, 5)))


def test_what_credo_warns_of_is_kept_and_the_rest_passes(digits):
    short = digits.runs[HOSTILE][0]  # 4 draws of a short chain: it cannot have converged
    assert short.warnings and all("hmc" in text for text in short.warnings)
    assert not any("hmc" in text for text in digits.runs["map"][0].warnings)


def test_warnings_of_others_are_passed_on(iris, monkeypatch):
    def chatty(*_, **__):
        warnings.warn("from another library", DeprecationWarning, stacklevel=2)
        warnings.warn("short chain", credo.CredoWarning, stacklevel=2)

    monkeypatch.setitem(fit_noting_warnings.__globals__, "fit", chatty)
    with pytest.warns(DeprecationWarning, match="another library") as passed:
        _, messages = fit_noting_warnings(None, iris.data, credo.MAP(), 0, None)
    assert messages == ("short chain",) and len(passed) == 1


def test_cost_counts_parameters_and_draws(digits):
    parameters = 64 * 4 + 4 + 4 * 8 + 8
    point, chain = digits.runs["map"][0], digits.runs[HOSTILE][0]
    assert point.num_parameters == chain.num_parameters == parameters
    assert (point.num_stored, chain.num_stored) == (parameters, 8 * parameters)
    assert (point.num_draws, chain.num_draws) == (1, 6)
    assert point.fit_seconds > 0 and point.predict_seconds > 0


def test_training_curve_is_averaged_over_blocks():
    history = {"other": np.zeros((2, 500)), "nll": np.arange(1000.0).reshape(2, 500)}
    found = trace(Record((4,), history=history), num_warmup=100)
    assert found.name == "nll" and found.num_warmup == 100
    np.testing.assert_allclose(found.values[0], found.steps)  # blocks of a straight line
    np.testing.assert_allclose(found.values[1], found.steps + 500)
    assert len(found.steps) <= 200 and found.steps[-1] == 498.5  # of the last two
    assert trace(Record((4,)), 0) is None


def test_coverage_curve_is_that_of_the_intervals(rng):
    means, scales = rng.normal(size=(5, 50, 1)), rng.uniform(0.5, 2, size=(5, 50, 1))
    predicted, y = NormalPredictive(means, scales), 2 * rng.normal(size=50)
    levels, covered, count = reliability(predicted, y)
    for level, share in zip(levels[::6], covered[::6], strict=True):
        lower, upper = predicted.interval(level)
        assert share == np.mean((lower <= y) & (y <= upper))
    assert set(count) == {50}


def test_cumulative_probability_of_one_normal():
    predicted = NormalPredictive(np.array([[[1.0], [1.0]]]), np.array([[[2.0]]]))
    np.testing.assert_allclose(predicted.cdf(np.array([1.0, 3.0])), [0.5, 0.8413447460685429])


def test_names_have_their_own_defaults_and_unknown_ones_a_hint():
    assert choose_methods(["hmc", "map"]) == {"hmc": credo.HMC(), "map": credo.MAP()}
    with pytest.raises(credo.CredoError, match="did you mean 'map'"):
        choose_methods(["mpa"])


def test_methods_that_take_long_have_one_seed_unless_told():
    assert seeds_of(credo.MAP(), 0, None) == range(3)
    assert seeds_of(credo.HMC(), 5, None) == range(5, 6)
    assert seeds_of(credo.HMC(), 5, 2) == range(5, 7)
    with pytest.raises(credo.CredoError, match="between 0 and"):
        seeds_of(credo.MAP(), -1, 2)


def test_few_rows_have_few_bins(digits):
    assert [num_bins(rows) for rows in (30, 288, 10_000)] == [5, 7, 15]
    assert len(digits.runs["map"][0].reliability.count) == 5


def test_the_first_seed_and_the_prior_reach_the_fit():
    data, method = shortened(credo.data.load("iris"), 60, 20), {"map": credo.MAP(num_steps=30)}
    options = {"network": credo.networks.MLP(hidden=(3,)), "seeds": 1}
    runs = [compare(data, method, **options).runs["map"][0]]
    runs.append(compare(data, method, **options, seed=7).runs["map"][0])
    runs.append(compare(data, method, **options, prior_scale=0.01).runs["map"][0])
    assert [run.seed for run in runs] == [0, 7, 0]
    probs = [run.predicted.probs for run in runs]
    assert not np.array_equal(probs[0], probs[1])
    assert np.abs(probs[2] - 1 / 3).max() < np.abs(probs[0] - 1 / 3).max()


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({}, {"methods": []}, "no methods"),
        ({}, {"seeds": 0}, "at least 1 seed"),
        ({"train": Split(np.zeros((0, 4)), np.zeros(0, int))}, {}, "no training part"),
        ({"test": Split(np.zeros((1, 4)), np.zeros(1, int))}, {}, "1 test rows"),
        ({"test": Split(np.zeros((2, 4)), np.array([0, 3]))}, {}, "class 3"),
        ({"task": "regression", "train": Split(np.zeros((9, 4)), np.ones(9))}, {}, "varies"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused_before_any_fit(change, arguments, message):
    data = replace(credo.data.load("iris"), **change)
    with pytest.raises(credo.CredoError, match=message):
        compare(data, **({"methods": ["map"]} | arguments))


def test_classes_without_names_are_called_by_their_numbers():
    data, _ = prepare(replace(credo.data.load("iris"), classes=None))
    assert data.classes == ("0", "1", "2")
