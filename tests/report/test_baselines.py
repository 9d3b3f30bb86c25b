"""Baselines are scikit-learn's, judged like the methods."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import credo
from credo.data import Split
from credo.experiments import baselines
from credo.experiments.baselines import CLASSES, QUANTITIES, predictive
from credo.report import compare, write_report

from .conftest import shortened


@pytest.fixture(scope="module", autouse=True)
def small_forests():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baselines, "NUM_TREES", 30)
        yield


@pytest.fixture(scope="module")
def classes():
    data = shortened(credo.data.load("digits"), 250, 60)
    options = {"network": credo.networks.MLP(hidden=(4,)), "num_draws": 2}
    return compare(data, {"map": credo.MAP(num_steps=20)}, 1, baselines=True, **options)


@pytest.fixture(scope="module")
def quantities():
    data = shortened(credo.data.load("diabetes"), 150, 60)
    options = {"network": credo.networks.MLP(hidden=(4,)), "num_draws": 2}
    return compare(data, {"map": credo.MAP(num_steps=20)}, 1, baselines=True, **options)


def test_they_are_rows_of_the_same_table(classes, quantities, tmp_path):
    assert list(classes.runs) == ["map", *CLASSES] and set(classes.baselines) == set(CLASSES)
    assert list(quantities.runs) == ["map", *QUANTITIES]
    for found in (classes, quantities):
        for runs in found.runs.values():
            assert set(runs[0].metrics) == set(found.runs["map"][0].metrics)
        write_report(found, tmp_path / "page.html")
        text = (tmp_path / "page.html").read_text("utf-8")
        assert all(description in text for description in found.baselines.values())


def test_logistic_regression_is_that_of_scikit_learn(classes):
    data = classes.data
    x, new = (part.x.reshape(len(part.x), -1) for part in (data.train, data.test))
    scale = StandardScaler().fit(x)
    again = LogisticRegression(max_iter=2000).fit(scale.transform(x), data.train.y)
    expected = again.predict_proba(scale.transform(new))
    predicted = classes.runs["logistic"][0].predicted
    np.testing.assert_allclose(predicted.probs, expected, atol=1e-6)
    assert (predicted.mutual_information == 0).all()
    assert classes.runs["logistic"][0].ood_predicted.probs.shape == (len(classes.ood.x), 8)


def test_a_forest_gives_no_class_the_probability_0(classes):
    assert classes.runs["forest"][0].predicted.probs.min() > 0
    for name in CLASSES:
        assert classes.summary(name, "accuracy").value > 0.7
        np.testing.assert_allclose(classes.runs[name][0].predicted.probs.sum(axis=1), 1, rtol=1e-6)


def test_scales_come_from_rows_that_were_not_seen(quantities):
    for name in QUANTITIES:
        coverage = quantities.summary(name, "coverage_95").value
        assert coverage > 0.8  # from training rows a forest would have a third of the scale
        assert quantities.summary(name, "rmse").value < quantities.data.test.y.std()


def test_a_class_of_one_row_does_not_stop_them():
    data = credo.data.load("iris")
    keep = np.flatnonzero((data.train.y != 2) | (np.cumsum(data.train.y == 2) == 1))
    few = replace(data, train=Split(data.train.x[keep], data.train.y[keep]))
    fitted = baselines.calibrated_boosting(few.train.x, few.train.y, 0)
    assert predictive(fitted, few, data.test.x).probs.shape == (len(data.test.x), 3)


def test_a_class_without_rows_has_no_probability():
    data = credo.data.load("iris")
    keep = data.train.y != 1
    fitted = baselines.logistic(data.train.x[keep], data.train.y[keep], 0)
    assert (predictive(fitted, data, data.test.x).probs[:, 1] == 0).all()


def test_a_method_keeps_its_name():
    data = shortened(credo.data.load("diabetes"), 60, 20)
    methods = {"forest": credo.MAP(num_steps=10)}
    found = compare(data, methods, 1, credo.networks.MLP(hidden=()), baselines=True)
    assert found.runs["forest"][0].num_parameters == 12 and "forest" not in found.baselines
