"""What is left after rejection is the mean of the rows that are kept."""

import itertools

import numpy as np
import pytest

import credo
from credo.evaluation.ood import auroc, placements
from credo.evaluation.rejection import rejection_curve


def test_it_is_the_mean_of_the_most_certain():
    rng = np.random.default_rng(0)
    uncertainty, values = rng.normal(size=(2, 50))
    order = np.argsort(uncertainty)
    found = rejection_curve(uncertainty, values, [0.0, 0.3, 0.99])
    expected = [values.mean(), values[order[:35]].mean(), values[order[0]]]
    np.testing.assert_allclose(found, expected)


def test_ties_are_rejected_in_random_order():
    uncertainty, values = np.array([1, 1, 1, 2, 0]), np.array([5.0, 1, 0, 3, 7])
    orders = [
        o for o in itertools.permutations(range(5)) if np.all(np.diff(uncertainty[list(o)]) >= 0)
    ]
    means = np.mean([np.cumsum(values[list(o)]) / np.arange(1, 6) for o in orders], axis=0)
    np.testing.assert_allclose(rejection_curve(uncertainty, values, [0.8, 0.6, 0.4, 0.2, 0]), means)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(([1], [1, 2]), "shapes differ"), (([1], [1], [1.0]), "below 1"), (([], []), "empty")],
)
def test_what_cannot_be_judged_is_refused(arguments, message):
    with pytest.raises(credo.CredoError, match=message):
        rejection_curve(*arguments)


def test_placements_average_to_the_auroc():
    inside, outside = np.array([0.1, 0.4, 0.4]), np.array([0.4, 0.9])
    of_in, of_out = placements(inside, outside)
    assert np.mean(of_in) == pytest.approx(np.mean(of_out))
    assert np.mean(of_in) == pytest.approx(auroc(inside, outside).value)
    np.testing.assert_allclose(of_in, [1, 0.75, 0.75])
